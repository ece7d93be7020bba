"""Storms on one rotating token: processes of the operator's kind and of the API's, and the provider they ask."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.harness.session.waiting import PATIENCE
from tests.integration.oauth import storm_worker
from tieline_core.identity.names import tokens_name
from tieline_core.kubernetes import Kube
from tieline_core.kubernetes.resources import CONNECTIONS, SECRETS, SYSTEMS
from tieline_core.oauth import token_secret_codec

CALLS = 50
"""Of each process."""
KINDS = ("operator", "api", "operator", "api")


@dataclass
class Provider:
    """Rotates refresh tokens and detects their reuse."""

    url: str = ""
    client_id: str = "me"
    good: str = "rt-0"
    answered: list[str] = field(default_factory=list)
    """The refresh tokens of requests that were processed."""
    hold: bool = False
    grace: str = ""
    """An old token that is taken once more."""
    held: asyncio.Event = field(default_factory=asyncio.Event)
    processed: asyncio.Event = field(default_factory=asyncio.Event)

    async def token(self, request: web.Request) -> web.Response:
        used = str((await request.post())["refresh_token"])
        if self.hold:
            self.hold = False
            self.held.set()  # received, and never processed: its asker is killed
            await asyncio.sleep(PATIENCE)
        self.answered.append(used)
        self.processed.set()
        if used not in (self.good, self.grace):
            return web.json_response({"error": "invalid_grant"}, status=400)
        self.good, self.grace = f"rt-{len(self.answered)}", ""
        answer = {"access_token": f"at-{len(self.answered)}", "refresh_token": self.good}
        return web.json_response({**answer, "expires_in": 3600})


class Serves(Protocol):
    """A token endpoint that can be served."""

    url: str

    async def token(self, request: web.Request) -> web.Response: ...


P = TypeVar("P", bound=Serves)


@contextlib.asynccontextmanager
async def serving(provider: P) -> AsyncIterator[P]:
    """Serves it until the block ends; who asked and is killed is not answered."""
    app = web.Application()
    app.router.add_post("/token", provider.token)
    server = TestServer(app)
    await server.start_server(shutdown_timeout=1)
    provider.url = str(server.make_url("/token"))
    try:
        yield provider
    finally:
        await server.close()


class Worker:
    """A process of the storm."""

    def __init__(self, process: asyncio.subprocess.Process, kind: str) -> None:
        self.process, self.kind = process, kind

    def send(self, what: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(f"{what} {CALLS}\n".encode())

    async def answer(self) -> Any:
        assert self.process.stdout
        line = await asyncio.wait_for(self.process.stdout.readline(), PATIENCE)
        return json.loads(line) if line else None


class Storm:
    """The processes, and the token that they want."""

    def __init__(
        self, kube: Kube, kubeconfig: Path, namespace: str, provider: Provider, *, claim: float = 3
    ) -> None:
        """``claim``: seconds until others take over from a process that died. A provider has half of it to answer."""
        self._claim = claim
        self.kube, self.kubeconfig, self.namespace, self.provider = kube, kubeconfig, namespace, provider
        self.workers: list[Worker] = []

    async def __aenter__(self) -> Self:
        await self.connect()
        async with contextlib.AsyncExitStack() as unless_started:
            unless_started.push_async_callback(self.stop)
            await self.start()
            unless_started.pop_all()
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.stop()

    async def start(self) -> None:
        self.workers = list(await asyncio.gather(*(self._worker(kind) for kind in KINDS)))

    async def stop(self) -> None:
        for worker in self.workers:
            if worker.process.returncode is None:
                worker.process.kill()
            await worker.process.wait()

    async def _worker(self, kind: str) -> Worker:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            storm_worker.__file__,
            kind,
            str(self.kubeconfig),
            self.namespace,
            "login",
            str(self._claim),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        worker = Worker(process, kind)
        assert await worker.answer() == "ready"
        return worker

    async def lost(self, worker: Worker) -> None:
        """A process has been killed: another one of its kind takes its place."""
        await asyncio.wait_for(worker.process.wait(), PATIENCE)
        assert worker.process.returncode == -signal.SIGKILL
        self.workers[self.workers.index(worker)] = await self._worker(worker.kind)

    async def connect(self) -> None:
        """A connection whose tokens somebody has stored, and which have expired."""
        client = {"type": "authorizationCode", "authorizationCode": {"clientId": self.provider.client_id}}
        oauth2 = {"tokenUrl": self.provider.url, "authorizeUrl": self.provider.url, "grant": client}
        system = {
            "name": "Shop",
            "domain": "shop.example",
            "templateBaseUrl": "https://shop.example",
            "authSchemeConfigs": [{"id": "oauth", "type": "oauth2", "oauth2": oauth2}],
        }
        credential = {
            "id": storm_worker.ITEM,
            "type": "oauth2-token",
            "authSchemeConfigId": "oauth",
            "secretRef": {"name": "given"},
        }
        connection = {"name": "Login", "systemRef": {"name": "shop"}, "credentials": [credential]}
        await self.store_given()
        await self._apply(SYSTEMS, "shop", system)
        await self._apply(CONNECTIONS, "login", connection)

    async def _apply(self, resource: Any, name: str, spec: dict[str, Any]) -> None:
        manifest = {"apiVersion": resource.api_version, "kind": resource.kind, "spec": spec}
        place = {"metadata": {"name": name, "namespace": self.namespace}}
        await self.kube.apply(resource, manifest | place, field_manager="test")

    async def store_given(self) -> None:
        """What a person stores: the provider's good refresh token, with an access token that has ended."""
        values = {
            "accessToken": "at-given",
            "refreshToken": self.provider.good,
            "expiresAt": "2026-01-01T00:00:00Z",
        }
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "tieline.dev/credential",
            "metadata": {"name": "given", "namespace": self.namespace},
            "data": {key: base64.b64encode(value.encode()).decode() for key, value in values.items()},
        }
        await self.kube.apply(SECRETS, secret, field_manager="test", force=True)

    async def tokens(self) -> dict[str, Any]:
        return await self.kube.get(SECRETS, tokens_name("login", storm_worker.ITEM), self.namespace)

    async def let_expire(self) -> None:
        """As if an hour had passed."""
        secret = await self.tokens()
        then = datetime.now(UTC) - timedelta(hours=2)
        secret["metadata"]["annotations"][token_secret_codec.ISSUED_AT] = token_secret_codec.written(then)
        ended = token_secret_codec.written(then + timedelta(hours=1)).encode()
        secret["data"]["expiresAt"] = base64.b64encode(ended).decode()
        await self.kube.replace(SECRETS, secret)

    async def wanted_by(self, workers: list[Worker]) -> Counter[str]:
        """What all calls of these processes got."""
        for worker in workers:
            worker.send("go")
        got: Counter[str] = Counter()
        for answer in await asyncio.gather(*(worker.answer() for worker in workers)):
            got.update(answer)
        return got

    async def with_a_holder_killed_before(self, holder: Worker) -> Counter[str]:
        """The provider has the holder's request, and has done nothing with it, when the holder dies."""
        self.provider.hold = True
        self.provider.held.clear()
        holder.send("go")
        await asyncio.wait_for(self.provider.held.wait(), PATIENCE)
        waiting = asyncio.create_task(self.wanted_by([one for one in self.workers if one is not holder]))
        await asyncio.sleep(0.2)  # they have come by now, and wait for the holder
        os.kill(holder.process.pid, signal.SIGKILL)
        got = await waiting
        await self.lost(holder)
        return got

    async def with_a_holder_killed_between(self, holder: Worker, *, grace: bool) -> Counter[str]:
        """The holder dies with the only copy of the new refresh token."""
        old = self.provider.good
        self.provider.processed.clear()
        holder.send("die")
        await asyncio.wait_for(self.provider.processed.wait(), PATIENCE)
        self.provider.grace = old if grace else ""
        got = await self.wanted_by([one for one in self.workers if one is not holder])
        await self.lost(holder)
        return got
