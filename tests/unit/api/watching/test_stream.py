"""A watcher's stream: what it says, when it ends, and that it passes proxies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from tests.harness.session.waiting import until
from tests.unit.api.watching.stream_events import said
from tieline_api import errors
from tieline_api.cluster.organisations import Organisation
from tieline_api.watching import stream
from tieline_api.watching.feed import MOST_OF_CALLER, Change, ChangeFeed
from tieline_api.watching.stream import Standing, response
from tieline_core.kubernetes import Unavailable

ACME = Organisation(id="01ARZ3NDEKTSV4RRFFQ69G5FAV", namespace="acme")


@dataclass
class Served:
    """A server whose only answer is a stream."""

    feed: ChangeFeed = field(default_factory=lambda: ChangeFeed(spacing=0))
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    hidden: set[str] = field(default_factory=set)
    refused: Exception | None = None
    seconds: float = 900.0
    heartbeat: float = 60.0
    check_seconds: float = 0.02

    async def check(self) -> None:
        if self.refused:
            raise self.refused

    async def may_see(self, kind: str) -> bool:
        return kind not in self.hidden

    async def answer(self, _request: web.Request) -> web.StreamResponse:
        standing = Standing(
            check=self.check,
            may_see=self.may_see,
            check_seconds=self.check_seconds,
            seconds=self.seconds,
        )
        try:
            return response(self.feed, ACME, "ann", standing, self.stopping, heartbeat=self.heartbeat)
        except errors.ApiError as error:
            return web.Response(status=error.status)


@pytest.fixture
async def served() -> AsyncIterator[tuple[Served, TestServer, ClientSession]]:
    served, app = Served(), web.Application()
    app.router.add_get("/", served.answer)
    server = TestServer(app)
    await server.start_server()
    async with ClientSession() as http:
        yield served, server, http
    served.stopping.set()
    served.feed.wake_all()
    await server.close()


Parts = tuple[Served, TestServer, ClientSession]


async def test_a_stream_begins_and_says_what_changes(served: Parts) -> None:
    parts, server, http = served
    async with http.get(server.make_url("/"), headers={"Accept-Encoding": "gzip"}) as answer:
        assert answer.content_type == "text/event-stream"
        assert answer.headers["X-Accel-Buffering"] == "no"
        assert answer.headers["Cache-Control"] == "no-store"
        assert "Content-Encoding" not in answer.headers
        assert (await answer.content.readline()).startswith(b"retry: ")
        assert await said(answer) == {"type": "begin"}
        parts.feed.publish(ACME.id, Change("run", "r"))
        parts.feed.publish(ACME.id, Change("project"))
        changes = [{"kind": "run", "id": "r", "what": "changed"}, {"kind": "project", "what": "changed"}]
        assert await said(answer) == {"type": "changes", "changes": changes}


async def test_kinds_that_the_caller_may_not_list_are_left_out(served: Parts) -> None:
    parts, server, http = served
    parts.hidden = {"apiKey"}
    async with http.get(server.make_url("/")) as answer:
        await said(answer)
        parts.feed.publish(ACME.id, Change("apiKey"))
        await until(lambda: not parts.feed._topics[ACME.id].pending)
        parts.feed.publish(ACME.id, Change("run", "r"))
        assert (await said(answer))["changes"] == [{"kind": "run", "id": "r", "what": "changed"}]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (errors.unauthenticated("ended"), "session"),
        (errors.forbidden("lost"), "forbidden"),
        (errors.organisation_not_found(ACME.id), "forbidden"),
        (Unavailable("away"), "unavailable"),
    ],
)
async def test_it_ends_when_the_caller_may_watch_no_more(
    served: Parts, error: Exception, reason: str
) -> None:
    parts, server, http = served
    async with http.get(server.make_url("/")) as answer:
        await said(answer)
        parts.refused = error
        assert await said(answer) == {"type": "end", "reason": reason}
        assert not (await answer.content.read()).strip()
    assert parts.feed.watchers == 0


async def test_it_ends_with_the_session(served: Parts) -> None:
    parts, server, http = served
    parts.seconds = 0.05
    async with http.get(server.make_url("/")) as answer:
        await said(answer)
        assert await said(answer) == {"type": "end", "reason": "session"}


async def test_it_is_renewed_after_a_while(served: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "LONGEST_SECONDS", 0.05)
    _, server, http = served
    async with http.get(server.make_url("/")) as answer:
        await said(answer)
        assert await said(answer) == {"type": "end", "reason": "renew"}


async def test_a_replica_that_stops_ends_it_and_says_when_to_come_back(served: Parts) -> None:
    parts, server, http = served
    async with http.get(server.make_url("/")) as answer:
        await said(answer)
        parts.stopping.set()
        parts.feed.wake_all()
        rest = (await answer.content.read()).decode()
    assert "retry: " in rest
    assert '"reason":"stopping"' in rest


async def test_it_does_not_begin_to_wait_while_the_replica_stops(served: Parts) -> None:
    parts, server, http = served
    parts.check_seconds = 60
    parts.stopping.set()
    async with http.get(server.make_url("/")) as answer:
        assert await said(answer) == {"type": "begin"}
        assert await said(answer) == {"type": "end", "reason": "stopping"}


async def test_a_quiet_stream_has_heartbeats(served: Parts) -> None:
    parts, server, http = served
    parts.heartbeat = 0.02
    async with http.get(server.make_url("/")) as answer:
        await said(answer)
        while not (await asyncio.wait_for(answer.content.readline(), 10)).startswith(b": "):
            pass


async def test_a_client_that_is_gone_is_forgotten(served: Parts) -> None:
    parts, server, http = served
    parts.heartbeat = 0.02
    answer = await http.get(server.make_url("/"))
    await said(answer)
    assert parts.feed.watchers == 1
    answer.close()
    await until(lambda: parts.feed.watchers == 0)


async def test_too_slow_a_client_is_told_to_read_everything_anew(served: Parts) -> None:
    parts, server, http = served
    async with http.get(server.make_url("/")) as answer:
        await said(answer)
        [watcher] = parts.feed._topics[ACME.id].watchers
        for number in range(100):
            watcher.put((Change("run", str(number)),))
        assert await said(answer) == {"type": "reset"}


async def test_too_many_streams_of_a_caller_are_refused(served: Parts) -> None:
    _, server, http = served
    answers = [await http.get(server.make_url("/")) for _ in range(MOST_OF_CALLER)]
    for answer in answers:
        await said(answer)
    async with http.get(server.make_url("/")) as answer:
        assert answer.status == 429
    for answer in answers:
        answer.close()
