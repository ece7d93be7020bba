"""Clients that are slow on purpose, and what every answer says to browsers: on real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from tieline_api.http import request_body
from tieline_api.http.middleware import STANDARD_HEADERS, add_standard_headers, error_handling
from tieline_api.http.request_body import read_body
from tieline_api.server.http_server import Runner

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


@asynccontextmanager
async def serving(*, header_seconds: float = 0.2, body_seconds: float = 60) -> AsyncIterator[int]:
    async def answer(request: web.Request) -> web.Response:
        if request.can_read_body:
            return web.Response(body=await read_body(request, limit=1000, seconds=body_seconds))
        await asyncio.sleep(float(request.query.get("sleep", "0")))
        return web.Response(text="ok", headers={"Cache-Control": "public"})

    app = web.Application(middlewares=[error_handling], client_max_size=0)
    app.router.add_route("*", "/", answer)
    app.on_response_prepare.append(add_standard_headers)
    runner = Runner(app, shutdown_timeout=0.1, header_seconds=header_seconds)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def told(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of one answer."""
    head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)).decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in head[1:] if line)
    return int(head[0].split()[1]), headers, await reader.readexactly(int(headers["Content-Length"]))


async def test_a_connection_that_says_nothing_is_closed() -> None:
    async with serving() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await asyncio.wait_for(reader.read(), 10) == b""
        writer.close()


async def test_headers_that_come_byte_by_byte_do_not_hold_a_connection() -> None:
    async with serving() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)

        async def drip() -> None:
            for byte in GET[:-2] + b"X-More: " + b"a" * 10_000:
                writer.write(bytes([byte]))
                await asyncio.sleep(0.02)

        dripping = asyncio.create_task(drip())
        # At once: bytes that arrive after the end reset the connection, and the reader then gives nothing more.
        answer = asyncio.StreamReader()
        answer.feed_data(await reader.read(4096))
        answer.feed_eof()
        status, headers, body = await told(answer)
        assert (status, json.loads(body)["code"]) == (408, "timeout")
        assert headers["Connection"] == "close"
        assert headers["X-Content-Type-Options"] == "nosniff"
        with contextlib.suppress(ConnectionResetError):
            assert await asyncio.wait_for(reader.read(), 10) == b""
        dripping.cancel()
        writer.close()


async def test_a_later_request_on_a_connection_has_as_long_for_its_headers_and_no_longer() -> None:
    async with serving() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(3):
            writer.write(GET)
            assert (await told(reader))[0] == 200
            await asyncio.sleep(0.15)
        # Idle it is kept; with half a request it is not.
        await asyncio.sleep(0.3)
        writer.write(GET[:20])
        assert (await told(reader))[0] == 408
        writer.close()


async def test_a_request_may_take_longer_than_its_headers() -> None:
    async with serving() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(GET.replace(b"GET / ", b"GET /?sleep=0.5 "))
        assert (await told(reader))[0] == 200
        writer.close()


@pytest.mark.parametrize("limit", ["slow", "late"])
async def test_a_body_that_comes_byte_by_byte_is_given_up(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a while without enough of it, or at the end of its time."""
    monkeypatch.setattr(request_body, "GRACE_SECONDS", 0.2 if limit == "slow" else 60.0)
    async with serving(body_seconds=60 if limit == "slow" else 0.3) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 900\r\n\r\n")

        async def drip() -> None:
            for _ in range(900):
                writer.write(b"a")
                await asyncio.sleep(0.02)

        dripping = asyncio.create_task(drip())
        status, headers, body = await told(reader)
        assert (status, json.loads(body)["code"]) == (408, "timeout")
        assert headers["X-Content-Type-Options"] == "nosniff"
        dripping.cancel()
        writer.close()


async def test_a_body_that_makes_progress_has_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_body, "GRACE_SECONDS", 0.2)
    monkeypatch.setattr(request_body, "BYTES_PER_SECOND", 1000)
    async with serving(body_seconds=60) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 900\r\n\r\n")
        for _ in range(9):
            writer.write(b"a" * 100)
            await asyncio.sleep(0.06)
        status, _, body = await told(reader)
        assert (status, len(body)) == (200, 900)
        writer.close()


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400, "malformed"),
        (b"GET / HTTP/1.1\r\nHost : secret-of-mine\r\n\r\n", 400, "malformed"),
        (b"GET / HTTP/1.1\r\nX: " + b"secret-of-mine" * 4000 + b"\r\n\r\n", 431, "too_large"),
        (b"GET /missing HTTP/1.1\r\nHost: a\r\n\r\n", 404, "not_found"),
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", 200, ""),
    ],
    ids=["TLS", "a bad header", "a long header", "no such path", "an answer"],
)
async def test_every_answer_has_the_standard_headers(
    sent: bytes, status: int, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        found, headers, body = await told(reader)
        assert found == status
        assert STANDARD_HEADERS.keys() <= headers.keys()
        assert headers["Server"] == "tieline"
        if code:
            assert json.loads(body)["code"] == code
        else:
            assert headers["Cache-Control"] == "public", "what an answer says itself stays"
        assert "secret-of-mine" not in body.decode() + caplog.text
        assert "Traceback" not in caplog.text
        writer.close()


async def test_an_unknown_expectation_is_refused_in_the_contracts_form() -> None:
    async with serving() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nExpect: 200-nothing\r\n\r\n")
        status, headers, body = await told(reader)
        writer.close()
    assert status == 417
    assert json.loads(body)["code"] == "malformed"
    assert "200-nothing" not in body.decode()
    assert STANDARD_HEADERS.items() <= headers.items()
