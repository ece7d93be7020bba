"""A replica that is told to stop takes requests until nobody counts on it any more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tieline_api.server import graceful_drain as module
from tieline_api.server.graceful_drain import Leaving

SILENCE = 0.15


class Replica:
    """A server with two paths, of which one is a probe's."""

    def __init__(self) -> None:
        self.leaving = Leaving()
        app = web.Application(middlewares=[self.leaving.middleware()])
        for path in ("/systems", "/readyz"):
            app.router.add_get(path, self._answer)
        self._server = TestServer(app)

    async def _answer(self, _request: web.Request) -> web.Response:
        return web.Response(text="yes")

    async def start(self) -> None:
        await self._server.start_server()

    async def stop(self) -> None:
        await self._server.close()

    async def get(self, client: aiohttp.ClientSession, path: str) -> aiohttp.ClientResponse:
        async with client.get(self._server.make_url(path)) as response:
            await response.read()
            return response


@pytest.fixture
async def replica() -> AsyncIterator[Replica]:
    made = Replica()
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as made:
        yield made


async def waiting_through(replica: Replica, client: aiohttp.ClientSession, path: str, seconds: float) -> bool:
    """Whether it still waits after being asked all the time for so long."""
    task = asyncio.create_task(replica.leaving.wait(silence=SILENCE))
    clock = asyncio.get_running_loop().time
    until = clock() + seconds
    while clock() < until and not task.done():
        await replica.get(client, path)
        await asyncio.sleep(SILENCE / 10)
    waits = not task.done()
    await asyncio.wait_for(task, 5)
    return waits


async def test_it_waits_as_long_as_requests_come_and_no_longer(
    replica: Replica, client: aiohttp.ClientSession
) -> None:
    assert await waiting_through(replica, client, "/systems", 4 * SILENCE)


async def test_probes_do_not_keep_it(replica: Replica, client: aiohttp.ClientSession) -> None:
    assert not await waiting_through(replica, client, "/readyz", 20 * SILENCE)


async def test_it_does_not_wait_for_ever(
    replica: Replica, client: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LONGEST_SECONDS", 2 * SILENCE)
    assert not await waiting_through(replica, client, "/systems", 20 * SILENCE)


async def test_answers_close_their_connection_once_it_leaves(
    replica: Replica, client: aiohttp.ClientSession
) -> None:
    assert (await replica.get(client, "/systems")).headers.get("Connection") != "close"
    await replica.leaving.wait(silence=0)
    assert (await replica.get(client, "/systems")).headers["Connection"] == "close"
