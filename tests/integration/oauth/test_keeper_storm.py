"""Fifty storms on one rotating token, by two processes of the operator's kind and two of the API's.

Each time 200 calls want the token, and the provider is asked once. Some storms lose a process on the way: before the
provider has answered, nothing is lost; between its answer and the write what cannot hold is as decision 0011 says.
"""

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
from typing import Any

import pytest
from aiohttp import web

from tests.integration.oauth import storm_worker
from tieline_core.kube import Kube
from tieline_core.kube.resources import CONNECTIONS, SECRETS, SYSTEMS
from tieline_core.names import tokens_name
from tieline_core.oauth import stored

pytestmark = pytest.mark.cluster

ROUNDS = 50
CALLS = 50
KINDS = ("operator", "api", "operator", "api")
KILLED_BEFORE = (7, 19, 33)
"""Rounds in which the holder dies before the provider has processed its request."""
KILLED_BETWEEN = (13, 26)
"""Rounds in which it dies between the answer and the write, and the provider allows the old token once more."""


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
            await asyncio.sleep(60)
        self.answered.append(used)
        self.processed.set()
        if used not in (self.good, self.grace):
            return web.json_response({"error": "invalid_grant"}, status=400)
        self.good, self.grace = f"rt-{len(self.answered)}", ""
        answer = {"access_token": f"at-{len(self.answered)}", "refresh_token": self.good}
        return web.json_response({**answer, "expires_in": 3600})


@contextlib.asynccontextmanager
async def serving(provider: Provider) -> AsyncIterator[Provider]:
    app = web.Application()
    app.router.add_post("/token", provider.token)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    provider.url = f"http://127.0.0.1:{runner.addresses[0][1]}/token"
    yield provider
    await runner.cleanup()


class Worker:
    """A process of the storm."""

    def __init__(self, process: asyncio.subprocess.Process, kind: str) -> None:
        self.process, self.kind = process, kind

    def send(self, what: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(f"{what} {CALLS}\n".encode())

    async def answer(self) -> Any:
        assert self.process.stdout
        line = await asyncio.wait_for(self.process.stdout.readline(), 30)
        return json.loads(line) if line else None


class Storm:
    """The processes, and the token that they want."""

    def __init__(self, kube: Kube, kubeconfig: Path, namespace: str, provider: Provider) -> None:
        self.kube, self.kubeconfig, self.namespace, self.provider = kube, kubeconfig, namespace, provider
        self.workers: list[Worker] = []

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
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        worker = Worker(process, kind)
        assert await worker.answer() == "ready"
        return worker

    async def lost(self, worker: Worker) -> None:
        """A process has been killed: another one of its kind takes its place."""
        await asyncio.wait_for(worker.process.wait(), 20)
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
        secret["metadata"]["annotations"][stored.ISSUED_AT] = stored.written(then)
        ended = stored.written(then + timedelta(hours=1)).encode()
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
        await asyncio.wait_for(self.provider.held.wait(), 10)
        waiting = asyncio.create_task(self.wanted_by([one for one in self.workers if one is not holder]))
        await asyncio.sleep(0.2)
        os.kill(holder.process.pid, signal.SIGKILL)
        got = await waiting
        await self.lost(holder)
        return got

    async def with_a_holder_killed_between(self, holder: Worker, *, grace: bool) -> Counter[str]:
        """The holder dies with the only copy of the new refresh token."""
        old = self.provider.good
        self.provider.processed.clear()
        holder.send("die")
        await asyncio.wait_for(self.provider.processed.wait(), 10)
        self.provider.grace = old if grace else ""
        got = await self.wanted_by([one for one in self.workers if one is not holder])
        await self.lost(holder)
        return got


@pytest.fixture
async def storm(kubeconfig: Path, namespace: str) -> AsyncIterator[Storm]:
    async with await Kube.connect(kubeconfig=str(kubeconfig)) as kube, serving(Provider()) as provider:
        made = Storm(kube, kubeconfig, namespace, provider)
        await made.connect()
        try:
            await made.start()
            yield made
        finally:
            await made.stop()


async def test_fifty_storms_make_fifty_token_requests(storm: Storm) -> None:
    provider, requests = storm.provider, 0
    for number in range(ROUNDS):
        if number:
            await storm.let_expire()
        holder = storm.workers[number % 4]
        if number in KILLED_BEFORE:
            got = await storm.with_a_holder_killed_before(holder)
        elif number in KILLED_BETWEEN:
            got = await storm.with_a_holder_killed_between(holder, grace=True)
            requests += 1
        else:
            got = await storm.wanted_by(storm.workers)
        requests += 1
        killed = number in (*KILLED_BEFORE, *KILLED_BETWEEN)
        assert len(provider.answered) == requests, f"round {number}"
        assert got == {f"at-{requests}": (4 - killed) * CALLS}, f"round {number}"
        kept = stored.read(await storm.tokens())
        assert kept.tokens.refresh_token == provider.good
        assert (kept.claimed_by, kept.refused, kept.not_before) == ("", "", None)
    # Each refresh token was used once, but for those that died with their holder.
    assert [used for used, times in Counter(provider.answered).items() if times > 1] == [
        provider.answered[number + index] for index, number in enumerate(KILLED_BETWEEN)
    ]


async def test_a_token_that_died_with_its_holder_is_refused_once_and_heals_with_a_new_one(
    storm: Storm,
) -> None:
    provider = storm.provider
    assert (await storm.wanted_by(storm.workers)) == {"at-1": 4 * CALLS}
    await storm.let_expire()
    got = await storm.with_a_holder_killed_between(storm.workers[0], grace=False)
    assert got == {"RefusedError": 3 * CALLS}
    assert provider.answered == ["rt-0", "rt-1", "rt-1"]
    for _ in range(3):
        assert await storm.wanted_by(storm.workers) == {"RefusedError": 4 * CALLS}
    assert len(provider.answered) == 3, "nobody hammers"
    await storm.store_given()  # the person connects again
    for _ in range(50):
        got = await storm.wanted_by(storm.workers)
        if got == {"at-4": 4 * CALLS}:
            break
        await asyncio.sleep(0.2)
    assert got == {"at-4": 4 * CALLS}
    assert len(provider.answered) == 4
