"""``python -m bench.refresh [connections]``: 10,000 connections whose tokens are due, all at one moment.

The operator's caches, queue and TokenManager in this process, the API server that KUBECONFIG names, and a provider on
this machine that answers after 20 ms, rotates refresh tokens and counts. First all tokens are obtained; then the clock
is put forward to where all of them are due.
"""

import asyncio
import base64
import resource
import socket
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
from aiohttp import web
from aiohttp.abc import AbstractResolver

from bench.figures import table
from bench.platform import Platform
from bench.prerequisites import cluster
from tieline_core.credentials.live_lookups import LiveCredentialLookups
from tieline_core.credentials.token_manager import TokenManager
from tieline_core.kubernetes import Kube
from tieline_core.kubernetes.resources import CONNECTIONS, HTTP_ROUTES, SECRETS, SYSTEMS
from tieline_core.oauth.refresh_coordinator import RefreshCoordinator
from tieline_core.oauth.state_store import OAuthStateStore
from tieline_operator.cache.cluster_cache import ClusterCache
from tieline_operator.cache.credential_directory import CacheDirectory
from tieline_operator.metrics import Metrics
from tieline_operator.tokens.refresher import TokenRefresher
from tieline_protocol.oauth.token_client import TokenClient

COUNT = 10_000
HOSTS = 4
"""Providers that the connections are spread over: all are this one, by several names of this machine."""
_ANSWERS_AFTER = 0.02
_LIFETIME = 3600
_SHARED = asyncio.Semaphore(32)


@dataclass
class Provider:
    """Issues and rotates tokens; a refresh token that is used twice is refused and counted."""

    port: int = 0
    requests: int = 0
    reused: int = 0
    at_once: int = 0
    most_at_once: int = 0
    used: set[str] = field(default_factory=set)

    async def token(self, request: web.Request) -> web.Response:
        used = str((await request.post())["refresh_token"])
        self.requests += 1
        number = self.requests
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(_ANSWERS_AFTER)
        self.at_once -= 1
        if used in self.used:
            self.reused += 1
            return web.json_response({"error": "invalid_grant"}, status=400)
        self.used.add(used)
        answer = {"access_token": f"at-{number}", "refresh_token": f"rt-{number}"}
        return web.json_response({**answer, "expires_in": _LIFETIME})


@asynccontextmanager
async def _serving() -> AsyncIterator[Provider]:
    provider, app = Provider(), web.Application()
    app.router.add_post("/token", provider.token)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    provider.port = runner.addresses[0][1]
    yield provider
    await runner.cleanup()


async def fill(kube: Kube, namespace: str, *, count: int, port: int) -> None:
    """A System a provider, and connections with tokens that somebody has given and that have ended."""
    for host in range(HOSTS):
        await kube.create(SYSTEMS, _system(namespace, host, port))

    async def create(number: int) -> None:
        async with _SHARED:
            await kube.create(SECRETS, _given(namespace, number))
            await kube.create(CONNECTIONS, _connection(namespace, number))

    for start in range(0, count, 1000):
        await asyncio.gather(*(create(number) for number in range(start, min(start + 1000, count))))


def _system(namespace: str, host: int, port: int) -> dict[str, Any]:
    # The queue tells providers apart by host and port; these names all lead to this machine.
    url = f"http://provider-{host}.example:{port}/token"
    client = {"type": "authorizationCode", "authorizationCode": {"clientId": "bench"}}
    oauth2 = {"tokenUrl": url, "authorizeUrl": url, "grant": client}
    return {
        "apiVersion": SYSTEMS.api_version,
        "kind": SYSTEMS.kind,
        "metadata": {"name": f"shop-{host}", "namespace": namespace},
        "spec": {
            "name": f"Shop {host}",
            "domain": "shop.example",
            "templateBaseUrl": "https://shop.example",
            "authSchemeConfigs": [{"id": "oauth", "type": "oauth2", "oauth2": oauth2}],
        },
    }


def _given(namespace: str, number: int) -> dict[str, Any]:
    values = {
        "accessToken": "ended",
        "refreshToken": f"given-{number}",
        "expiresAt": "2026-01-01T00:00:00Z",
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "tieline.dev/credential",
        "metadata": {"name": f"given-{number}", "namespace": namespace},
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in values.items()},
    }


def _connection(namespace: str, number: int) -> dict[str, Any]:
    credential = {
        "id": "main",
        "type": "oauth2-token",
        "authSchemeConfigId": "oauth",
        "secretRef": {"name": f"given-{number}"},
    }
    return {
        "apiVersion": CONNECTIONS.api_version,
        "kind": CONNECTIONS.kind,
        "metadata": {"name": f"login-{number}", "namespace": namespace},
        "spec": {
            "name": f"Login {number}",
            "systemRef": {"name": f"shop-{number % HOSTS}"},
            "credentials": [credential],
        },
    }


class Ahead:
    """A clock that can be put forward."""

    def __init__(self) -> None:
        self.by = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.by


async def measure(kube: Kube, namespace: str, provider: Provider, *, count: int) -> str:
    """Obtains all tokens, then refreshes all of them, and tells of both."""
    clock = Ahead()
    connector = aiohttp.TCPConnector(resolver=_ThisMachine(), limit=0)
    watched = ClusterCache.build(kube, [namespace], namespace)
    await watched.skip_unserved(HTTP_ROUTES)
    await watched.start()
    await watched.synced()
    async with aiohttp.ClientSession(connector=connector) as session:
        token_manager = TokenManager(
            kube,
            client=TokenClient(session, now=clock),
            lookups=LiveCredentialLookups(CacheDirectory(watched), kube),
            states=OAuthStateStore(kube, seconds=60),
            refresher=RefreshCoordinator(kube, now=clock),
            now=clock,
        )
        rows = []
        for what, ahead in (("obtained", 0), ("refreshed", _LIFETIME - 1)):
            clock.by = timedelta(seconds=ahead)
            metrics = Metrics()
            refreshes = TokenRefresher(watched, token_manager, metrics, now=clock, chance=lambda: 0.0)
            rows.append([what, *await _run(kube, namespace, provider, refreshes, count)])
    await watched.stop()
    head = ["tokens", "seconds", "a second", "token requests", "most at once", "used twice", "API server"]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    title = (
        f"{count:,} connections due at once, {HOSTS} providers ({memory:.0f} MiB at most, provider included)"
    )
    return table(title, head, rows)


async def _run(
    kube: Kube, namespace: str, provider: Provider, refreshes: TokenRefresher, count: int
) -> list[str]:
    requests, before = provider.requests, Counter(kube.requests)
    provider.most_at_once = 0
    began = time.perf_counter()
    refreshes.queue.start()
    for number in range(count):
        refreshes.reschedule(namespace, f"login-{number}")
    while provider.requests - requests < count or not refreshes.queue.idle:
        await asyncio.sleep(0.2)
        if time.perf_counter() - began > 1800:
            raise AssertionError(f"It takes too long: {provider.requests - requests} requests")
    took = time.perf_counter() - began
    await refreshes.queue.stop()
    asked = Counter(kube.requests) - before
    kinds = Counter({verb: 0 for verb, _ in asked})
    for (verb, _), number in asked.items():
        kinds[verb] += number
    per = ", ".join(
        f"{verb} {number / count:.1f}" for verb, number in sorted(kinds.items()) if number >= count / 10
    )
    return [
        f"{took:.1f}",
        f"{count / took:.0f}",
        f"{provider.requests - requests:,}",
        str(provider.most_at_once),
        str(provider.reused),
        f"{per} each",
    ]


class _ThisMachine(AbstractResolver):
    """Every name is this machine."""

    async def resolve(self, host: str, port: int = 0, family: Any = 0) -> list[Any]:
        found = {"hostname": host, "host": "127.0.0.1", "port": port, "proto": 0, "flags": 0}
        return [{**found, "family": socket.AF_INET}]

    async def close(self) -> None:
        """Nothing to close."""


async def main() -> None:
    """Fills an organisation of its own, measures, prints, and removes it."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else COUNT
    async with (
        cluster() as kube,
        aiohttp.ClientSession() as http,
        _serving() as provider,
    ):
        platform = Platform(kube=kube, http=http, url="")
        try:
            _, namespace = await platform.organisation()
            await fill(kube, namespace, count=count, port=provider.port)
            print(await measure(kube, namespace, provider, count=count))
        finally:
            await platform.clean()


if __name__ == "__main__":
    asyncio.run(main())
