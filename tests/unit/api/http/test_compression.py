"""Compressed answers: what is compressed, for whom, and that nothing of it changes."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import AsyncIterator

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer
from hypothesis import given
from hypothesis import strategies as st

from tieline_api.http.compression import compression, takes_gzip
from tieline_api.http.dispatcher import ChunkedPayload

SMALL = b'{"a":1}'
MEDIUM = json.dumps([{"name": f"project {number}"} for number in range(200)]).encode()
LARGE = MEDIUM * 60


@pytest.fixture
async def url() -> AsyncIterator[str]:
    async def answer(request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        body = {"small": SMALL, "medium": MEDIUM, "large": LARGE}.get(name, MEDIUM)
        headers = {"ETag": '"1"', "Vary": "Origin"}
        if name == "parts":
            parts = ChunkedPayload((LARGE, LARGE))
            return web.Response(body=parts, content_type="application/json", headers=headers)
        if name == "proxied":
            headers["X-Tieline-Upstream-Status"] = "200"
        kind = "text/event-stream" if name == "stream" else "application/json"
        return web.Response(body=body, content_type=kind, headers=headers)

    app = web.Application(middlewares=[compression])
    app.router.add_get("/{name}", answer)
    server = TestServer(app)
    await server.start_server()
    yield str(server.make_url("/"))
    await server.close()


@pytest.mark.parametrize(("name", "body"), [("medium", MEDIUM), ("large", LARGE), ("parts", LARGE * 2)])
async def test_json_is_compressed_for_who_takes_it(url: str, name: str, body: bytes) -> None:
    async with ClientSession(auto_decompress=False) as http:
        async with http.get(f"{url}{name}", headers={"Accept-Encoding": "br, gzip"}) as answer:
            content = await answer.read()
            assert answer.headers["Content-Encoding"] == "gzip"
            assert answer.headers["Vary"] == "Origin, Accept-Encoding"
            assert answer.headers["ETag"] == '"1"'
            assert len(content) < len(body) / 4
            assert gzip.decompress(content) == body
        async with http.get(f"{url}{name}", headers={"Accept-Encoding": "identity"}) as answer:
            assert await answer.read() == body
            assert "Content-Encoding" not in answer.headers
            assert answer.headers["Vary"] == "Origin, Accept-Encoding"


@pytest.mark.parametrize("name", ["small", "stream", "proxied"])
async def test_what_is_small_or_not_our_json_stays_as_it_is(url: str, name: str) -> None:
    async with (
        ClientSession(auto_decompress=False) as http,
        http.get(f"{url}{name}", headers={"Accept-Encoding": "gzip"}) as answer,
    ):
        assert "Content-Encoding" not in answer.headers
        assert await answer.read() in (SMALL, MEDIUM)


@pytest.mark.parametrize(
    ("accepted", "takes"),
    [
        ("gzip", True),
        ("deflate, GZIP;q=0.5", True),
        ("gzip;q=0", False),
        ("gzip; q=0.0, br", False),
        ("gzip; q=x", False),
        ("br; q=1 , gzip ; Q = 0.1", True),
        ("xgzip", False),
        ("", False),
    ],
)
def test_who_takes_gzip(accepted: str, takes: bool) -> None:
    assert takes_gzip(accepted) is takes


@given(st.text())
def test_any_header_is_read(accepted: str) -> None:
    takes_gzip(accepted)


def test_reading_a_header_takes_time_by_its_length() -> None:
    started = time.process_time()
    takes_gzip("gzip" + " " * 100_000 + "x")
    assert time.process_time() - started < 1, "in squares of its length it takes minutes"
