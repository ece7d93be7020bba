"""Requests that are sent again: what is safe to repeat, bounded, and as late as the other side asks."""

import asyncio
import io
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer, unused_port

from tests.unit.runtime.external_systems import ContextFor, api_key, configured, context, environment
from tieline import RateLimitedError, UpstreamError
from tieline.configuration.snapshot import parse
from tieline.http_client import retries


@dataclass
class Flaky:
    """Answers as told, in order, then 200; None closes the connection."""

    answers: list[tuple[int, dict[str, str]] | None] = field(default_factory=list)
    contents: list[Any] = field(default_factory=list)
    """JSON bodies of the answers, in order; then none."""
    bodies: list[bytes] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    server: TestServer = field(init=False)

    async def handle(self, request: web.Request) -> web.Response:
        self.bodies.append(await request.read())
        self.keys.append(request.headers["X-API-Key"])
        answer = self.answers.pop(0) if self.answers else (200, {})
        if answer is None:
            assert request.transport is not None
            request.transport.close()
            return web.Response()
        if self.contents:
            return web.json_response(self.contents.pop(0), status=answer[0], headers=answer[1])
        return web.Response(status=answer[0], headers=answer[1])


@pytest.fixture
async def flaky() -> AsyncIterator[Flaky]:
    flaky = Flaky()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", flaky.handle)
    flaky.server = TestServer(application)
    await flaky.server.start_server()
    yield flaky
    await flaky.server.close()


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long was waited; nobody really waits."""
    found: list[float] = []

    async def sleep(seconds: float) -> None:
        found.append(seconds)

    monkeypatch.setattr(retries, "pause", sleep)
    return found


def body_for(flaky: Flaky) -> dict[str, Any]:
    return environment(str(flaky.server.make_url("")).rstrip("/"), api_key("header"))


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("status", [429, 502, 503, 504])
async def test_what_is_safe_to_repeat_is_repeated(
    flaky: Flaky, context_for: ContextFor, waits: list[float], method: str, status: int
) -> None:
    flaky.answers = [(status, {}), (status, {})]
    response = await context_for(body_for(flaky)).fetch("shop", "/x", method=method, data=b"body")
    assert response.status == 200
    assert flaky.bodies == [b"body"] * 3
    assert flaky.keys == ["key-1234"] * 3
    assert 0.125 <= waits[0] <= 0.375
    assert 0.25 <= waits[1] <= 0.75


@pytest.mark.parametrize("method", ["POST", "PATCH"])
@pytest.mark.parametrize("failure", [(503, {"Retry-After": "0"}), None])
async def test_what_may_have_had_an_effect_is_not_repeated(
    flaky: Flaky, context_for: ContextFor, waits: list[float], method: str, failure: Any
) -> None:
    flaky.answers = [failure]
    ctx = context_for(body_for(flaky))
    if failure:
        assert (await ctx.fetch("shop", "/x", method=method)).status == 503
    else:
        with pytest.raises(aiohttp.ClientConnectionError):
            await ctx.fetch("shop", "/x", method=method)
    assert (len(flaky.bodies), waits) == (1, [])


async def test_a_time_to_wait_is_respected_in_every_form(
    flaky: Flaky, context_for: ContextFor, waits: list[float]
) -> None:
    later = datetime.now(UTC) + timedelta(seconds=6)
    flaky.answers = [
        (429, {"Retry-After": "7"}),
        (503, {"Retry-After": format_datetime(later, usegmt=True)}),
        (429, {"Retry-After": later.isoformat()}),
        (403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(later.timestamp())}),
        (403, {"Retry-After": "3"}),
        (429, {"RateLimit": '"minute";r=0;t=2'}),
        (502, {"Retry-After": "1"}),
    ]
    assert (await context_for(body_for(flaky)).fetch("shop", retries=9)).status == 200
    assert (waits[0], waits[4:]) == (7, [3, 2, 1])
    assert all(4 < wait <= 6 for wait in waits[1:4])


@pytest.mark.parametrize("asked", ["soon", "-1", "NaN", "1e308", "9999-12-31T00:00:00Z"])
async def test_a_time_that_cannot_be_is_as_if_there_was_none(
    flaky: Flaky, context_for: ContextFor, waits: list[float], asked: str
) -> None:
    flaky.answers = [(503, {"Retry-After": asked})]
    assert (await context_for(body_for(flaky)).fetch("shop")).status == 200
    assert waits[0] <= 0.375


@pytest.mark.parametrize(
    "content", [{"ok": False, "error": "ratelimited"}, {"errors": [{"type": "RATE_LIMITED"}]}]
)
async def test_a_limit_in_a_200_is_an_error_and_is_repeated_like_any_other(
    flaky: Flaky, context_for: ContextFor, waits: list[float], content: Any
) -> None:
    ctx = context_for(body_for(flaky))
    flaky.answers, flaky.contents = [(200, {"Retry-After": "2"}), (200, {})], [content, {"ok": True}]
    response = await ctx.fetch("shop")
    response.raise_for_status()
    assert (await response.json(), waits) == ({"ok": True}, [2])
    for options in ({"method": "POST"}, {"retries": 0}):
        flaky.answers, flaky.contents = [(200, {"Retry-After": "30"})], [content]
        response = await ctx.fetch("shop", **options)
        with pytest.raises(
            RateLimitedError, match=r"accepts requests again at 20\d\d-.*Z \(in 30 seconds\)"
        ) as error:
            response.raise_for_status()
        assert (error.value.status, error.value.retry_after) == (200, 30)


async def test_a_system_says_which_answers_are_about_limits(
    flaky: Flaky, context_for: ContextFor, waits: list[float]
) -> None:
    body = body_for(flaky)
    body["connections"]["shop"]["limits"] = {
        "answers": [
            {
                "status": 200,
                "path": "fault.code",
                "in": ["TooFast"],
                "resetPath": "fault.ms",
                "unit": "milliseconds",
            },
            {"status": 420, "wait": "1s"},
        ]
    }
    flaky.answers = [(200, {}), (420, {}), (200, {})]
    flaky.contents = [{"fault": {"code": "TooFast", "ms": 1500}}, {}, {"fault": {"code": "NotFound"}}]
    response = await context_for(body).fetch("shop")
    response.raise_for_status()
    assert (await response.json(), waits) == ({"fault": {"code": "NotFound"}}, [1.5, 1])


async def test_403_without_a_limit_is_returned_at_once(
    flaky: Flaky, context_for: ContextFor, waits: list[float]
) -> None:
    flaky.answers = [(403, {"X-RateLimit-Remaining": "4999", "X-RateLimit-Reset": "1"})]
    response = await context_for(body_for(flaky)).fetch("shop")
    with pytest.raises(UpstreamError) as error:
        response.raise_for_status()
    assert (type(error.value), waits) == (UpstreamError, [])


@pytest.mark.parametrize("asked", ["11", "86400"])
async def test_who_asks_for_more_than_a_run_has_is_returned(
    flaky: Flaky, context_for: ContextFor, waits: list[float], asked: str
) -> None:
    flaky.answers = [(503, {"Retry-After": asked})]
    assert (await context_for(body_for(flaky)).fetch("shop")).status == 503
    assert waits == []


async def test_the_last_answer_is_returned_when_it_does_not_get_better(
    flaky: Flaky, context_for: ContextFor, waits: list[float]
) -> None:
    flaky.answers = [(503, {})] * 9
    ctx = context_for(body_for(flaky))
    assert (await ctx.fetch("shop")).status == 503
    assert len(flaky.bodies) == 3
    assert (await ctx.fetch("shop", retries=0)).status == 503
    assert len(flaky.bodies) == 4


async def test_without_a_connection_every_method_is_tried_again(
    context_for: ContextFor, waits: list[float]
) -> None:
    nobody = environment(f"http://127.0.0.1:{unused_port()}", api_key("header"))
    with pytest.raises(aiohttp.ClientConnectorError):
        await context_for(nobody).fetch("shop", method="POST", json={})
    assert len(waits) == 2


async def test_a_lost_connection_is_tried_again(
    flaky: Flaky, context_for: ContextFor, waits: list[float]
) -> None:
    flaky.answers = [None, None]
    assert (await context_for(body_for(flaky)).fetch("shop", method="PUT", json={"a": 1})).status == 200
    assert set(flaky.bodies) == {b'{"a": 1}'}


@pytest.mark.parametrize("wrap", [lambda file: file, lambda file: {"file": file}, lambda file: [("f", file)]])
async def test_a_body_that_is_read_once_is_sent_once(
    flaky: Flaky, context_for: ContextFor, waits: list[float], wrap: Callable[[io.BytesIO], Any]
) -> None:
    flaky.answers = [(503, {})]
    data = wrap(io.BytesIO(b"file"))
    response = await context_for(body_for(flaky)).fetch("shop", method="PUT", data=data)
    assert (response.status, len(flaky.bodies)) == (503, 1)
    assert b"file" in flaky.bodies[0]


async def test_an_answer_that_would_be_raised_is_repeated_like_any_other(
    flaky: Flaky, context_for: ContextFor, waits: list[float]
) -> None:
    flaky.answers = [(503, {"Retry-After": "2"}), (200, {}), (404, {}), (503, {"Retry-After": "60"})]
    ctx = context_for(body_for(flaky))
    assert (await ctx.fetch("shop", raise_for_status=True)).status == 200
    for status in (404, 503):
        with pytest.raises(aiohttp.ClientResponseError) as error:
            await ctx.fetch("shop", raise_for_status=True)
        assert error.value.status == status
    assert waits == [2]


async def test_a_body_that_is_cut_is_asked_for_again(
    client: aiohttp.ClientSession, waits: list[float]
) -> None:
    asked = 0

    async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        await reader.readuntil(b"\r\n\r\n")
        body = b"half" if asked == 1 else b"all of it!"
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 10\r\n\r\n" + body)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(cut, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        body = environment(f"http://127.0.0.1:{port}", api_key("header"))
        response = await context(client, configured(body)).fetch("shop", "/export")
        assert await response.read() == b"all of it!"
    assert (asked, len(waits)) == (2, 1)


@pytest.mark.parametrize("data", [{"a": "1"}, [("a", "1")], "a=1"])
async def test_a_form_is_sent_again_as_it_was(
    flaky: Flaky, context_for: ContextFor, waits: list[float], data: Any
) -> None:
    flaky.answers = [(503, {})]
    assert (await context_for(body_for(flaky)).fetch("shop", method="PUT", data=data)).status == 200
    assert flaky.bodies == [b"a=1"] * 2


async def test_a_session_repeats_what_is_safe_until_an_answer_begins(
    flaky: Flaky, context_for: ContextFor, waits: list[float]
) -> None:
    flaky.answers = [(503, {"Retry-After": "4"}), None]
    async with context_for(body_for(flaky)).session("shop") as shop:
        async with shop.get("/export") as response:
            assert response.status == 200
        assert waits[0] == 4
        flaky.answers = [(503, {}), (503, {})]
        async with shop.get("/export", retries=0) as response:
            assert response.status == 503
        async with shop.post("/export") as response:
            assert response.status == 503
    assert (len(flaky.bodies), flaky.keys) == (5, ["key-1234"] * 5)


async def test_a_repeated_request_uses_the_credentials_of_that_moment(
    flaky: Flaky, client: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    configuration = configured(body_for(flaky))

    async def rotate(_seconds: float) -> None:
        url = str(flaky.server.make_url("")).rstrip("/")
        configuration.publish(parse(environment(url, api_key("header", "key-5678"))))

    monkeypatch.setattr(retries, "pause", rotate)
    flaky.answers = [(503, {})]
    assert (await context(client, configuration).fetch("shop")).status == 200
    assert flaky.keys == ["key-1234", "key-5678"]


async def test_all_runs_share_connections(flaky: Flaky, client: aiohttp.ClientSession) -> None:
    ports: set[int] = set()
    on = flaky.handle

    async def handle(request: web.Request) -> web.Response:
        assert request.transport is not None
        ports.add(request.transport.get_extra_info("peername")[1])
        return await on(request)

    application = web.Application()
    application.router.add_get("/{path:.*}", handle)
    async with TestServer(application) as server:
        configuration = configured(environment(str(server.make_url("")).rstrip("/"), api_key("header")))
        for _ in range(3):
            await context(client, configuration).fetch("shop", "/x")
            async with context(client, configuration).session("shop").get("/x") as response:
                await response.read()
    assert len(ports) == 1
