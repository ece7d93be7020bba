"""Answers of systems, read before they are passed on: compressed ones too."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from multidict import CIMultiDict

from tieline.telemetry.redaction import Redactor
from tieline_api.connection_requests.client import (
    MAX_ANSWER,
    MOST_EACH,
    MOST_OF_END_USER,
    MOST_OF_END_USERS,
    ConnectionRequests,
    SystemAnswer,
    SystemRequest,
)
from tieline_api.connection_requests.forwarding import masked, shown_text
from tieline_api.connection_requests.tokens import FreshToken
from tieline_api.errors import ApiError, unavailable
from tieline_core.identity.ids import new_id
from tieline_protocol.egress import Egress

KEY = "k3y-of-the-shop"
TEXT = f"you sent {KEY}".encode()
RAW = zlib.compressobj(wbits=-15)
COMPRESSED = {
    "gzip": ("gzip", gzip.compress(TEXT)),
    "x-gzip": ("X-GZip", gzip.compress(TEXT)),
    "several members": ("gzip", gzip.compress(TEXT[:9]) + gzip.compress(TEXT[9:])),
    "deflate": ("deflate", zlib.compress(TEXT)),
    "raw deflate": ("deflate", RAW.compress(TEXT) + RAW.flush()),
    "identity": ("identity", TEXT),
}
UNREADABLE = {
    "an encoding that is not known": ("br", b"\x0b\x02\x80" + TEXT + b"\x03"),
    "two encodings": ("gzip, gzip", gzip.compress(gzip.compress(TEXT))),
    "no gzip": ("gzip", TEXT),
    "half of it": ("gzip", gzip.compress(TEXT)[:-12]),
}


CREDENTIAL = {
    "type": "string",
    "authScheme": {"type": "api-key", "apiKey": {"name": "X-API-Key", "in": "header"}},
    "data": {"value": KEY},
}
OAUTH = {
    "type": "oauth2-token",
    "authScheme": {
        "type": "oauth2",
        "oauth2": {
            "rejections": {
                "expired": [{"path": "error.code", "equals": "token_expired"}],
                "revoked": [{"path": "error.code", "equals": "token_revoked"}],
            }
        },
    },
    "data": {"accessToken": "old"},
}
REQUEST = SystemRequest(method="GET", path="", headers=CIMultiDict(), seconds=20)


class NoEngine:
    """Limits that nobody coordinates now."""

    async def ask(self, *_: Any) -> Any:
        raise unavailable("The event engine is away")


@asynccontextmanager
async def requests_to(
    handle: Callable[[web.Request], Awaitable[web.Response]],
    *,
    credential: dict[str, Any] = CREDENTIAL,
    fresh: FreshToken | None = None,
    limits: dict[str, Any] | None = None,
) -> AsyncIterator[Callable[..., Awaitable[SystemAnswer]]]:
    """Sends requests through a connection to a system that answers so."""
    app = web.Application()
    app.router.add_get("/", handle)
    async with TestServer(app) as server:
        requests = ConnectionRequests(Egress.parse(allowed=["127.0.0.0/8"]), limits=NoEngine())  # type: ignore[arg-type]
        connection = {
            "id": new_id(),
            "name": "shop",
            "baseUrl": str(server.make_url("/")),
            "credentials": [{"id": new_id(), **credential}],
            **({"limits": limits} if limits else {}),
        }
        organisation = new_id()

        def sent(request: SystemRequest = REQUEST, **more: Any) -> Awaitable[SystemAnswer]:
            return requests.send(organisation, connection, request, fresh=fresh, **more)  # type: ignore[arg-type]

        try:
            yield sent
        finally:
            await requests.close()


async def send(content: bytes, headers: dict[str, str], **more: Any) -> SystemAnswer:
    """What a system answered that answers so."""

    async def handle(_request: web.Request) -> web.Response:
        return web.Response(body=content, headers=headers)

    async with requests_to(handle) as sent:
        return await sent(replace(REQUEST, **more))


async def test_slow_checks_of_an_end_user_leave_room_for_others() -> None:
    answers = asyncio.Event()

    async def handle(_request: web.Request) -> web.Response:
        await answers.wait()
        return web.Response()

    async with requests_to(handle) as sent, asyncio.TaskGroup() as group:
        begun = [group.create_task(sent(end_user="ann")) for _ in range(MOST_OF_END_USER)]
        await asyncio.sleep(0)
        with pytest.raises(ApiError) as caught:
            await sent(end_user="ann")
        assert caught.value.status == 429
        begun += [group.create_task(sent(end_user=one)) for one in ("ben", "eve")]
        await asyncio.sleep(0)
        with pytest.raises(ApiError):
            await sent(end_user="zoe")
        begun += [group.create_task(sent()) for _ in range(MOST_EACH - MOST_OF_END_USERS)]
        await asyncio.sleep(0)
        with pytest.raises(ApiError):
            await sent()
        answers.set()
        assert [(await one).status for one in begun] == [200] * len(begun)
        assert (await sent(end_user="ann")).status == 200


@pytest.mark.parametrize("status", [200, 401])
async def test_a_token_that_the_body_rejects_is_renewed(status: int) -> None:
    async def handle(request: web.Request) -> web.Response:
        if request.headers["Authorization"] == "Bearer new":
            return web.Response(text="in")
        return web.json_response({"error": {"code": "token_expired"}}, status=status)

    async def fresh(_credential: str, rejected: str) -> dict[str, str]:
        assert rejected == "old"
        return {"accessToken": "new"}

    async with requests_to(handle, credential=OAUTH, fresh=fresh) as sent:
        answer = await sent()
    assert (answer.status, answer.body, answer.rejected) == (200, b"in", False)


@pytest.mark.parametrize(("code", "meant"), [("token_revoked", 401), ("ok", 200)])
async def test_a_revoked_token_counts_as_refused(code: str, meant: int) -> None:
    async def handle(_request: web.Request) -> web.Response:
        return web.json_response({"error": {"code": code}})

    async with requests_to(handle, credential=OAUTH) as sent:
        answer = await sent()
    assert (answer.status, answer.meant) == (200, meant)
    assert answer.body == f'{{"error": {{"code": "{code}"}}}}'.encode(), "it is still passed on"


@pytest.mark.parametrize(("encoding", "content"), COMPRESSED.values(), ids=COMPRESSED)
async def test_a_compressed_answer_is_searched_for_secrets(encoding: str, content: bytes) -> None:
    answer = await send(content, {"Content-Encoding": encoding})
    assert answer.body == TEXT
    assert masked(answer.body, "", answer.redact) == b"you sent ***"


@pytest.mark.parametrize("size", [20, 11_000, 70_000])
@pytest.mark.parametrize("escape", ["{}", "\\u{:04x}"])
async def test_a_secret_of_any_length_is_not_shown(size: int, escape: str) -> None:
    secret = ("LONGSECRET0" * size)[:size]
    redact = Redactor()
    redact.learn([secret])
    echoed = "".join(escape.format(ord(letter) if ":" in escape else letter) for letter in secret)
    shown = await shown_text(f'{{"you sent": "{echoed}", "again": "{echoed}"}}'.encode(), "", redact)
    assert shown == '{"you sent": "***", "again": "***"}'


@pytest.mark.parametrize(("encoding", "content"), UNREADABLE.values(), ids=UNREADABLE)
async def test_an_answer_that_cannot_be_searched_is_not_passed_on(encoding: str, content: bytes) -> None:
    with pytest.raises(ApiError) as caught:
        await send(content, {"Content-Encoding": encoding})
    assert (caught.value.status, caught.value.code) == (502, "answer_unreadable")
    assert KEY not in caught.value.message
    assert (await send(content, {"Content-Encoding": encoding}, reads=False)).body == b""


async def test_what_a_small_answer_grows_to_is_bounded() -> None:
    with pytest.raises(ApiError) as caught:
        await send(gzip.compress(bytes(MAX_ANSWER * 8)), {"Content-Encoding": "gzip"})
    assert caught.value.code == "answer_too_large"


@pytest.mark.parametrize(("left", "is_limited"), [("0", True), ("10", False)])
async def test_a_403_because_of_limits_is_told_from_one_about_rights(left: str, is_limited: bool) -> None:
    async def handle(_request: web.Request) -> web.Response:
        return web.Response(status=403, headers={"X-RateLimit-Remaining": left})

    async with requests_to(handle) as sent:
        answer = await sent()
    assert (answer.status, answer.limited) == (403, is_limited)


LIMITS = {
    "shop's words": ({"error": "slow_down"}, [{"status": 200, "path": "error", "equals": "slow_down"}]),
    "usual words": ({"ok": False, "error": "ratelimited"}, [{"status": 429, "header": "Retry-After"}]),
}


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
@pytest.mark.parametrize("words", LIMITS)
async def test_a_limit_in_a_body_holds_further_requests_back(words: str, encoding: str) -> None:
    body, rules = LIMITS[words]
    sent_body = json.dumps(body).encode()
    asked = []

    async def handle(request: web.Request) -> web.Response:
        asked.append(request)
        headers = {"Content-Type": "application/json", "Content-Encoding": encoding, "Retry-After": "60"}
        return web.Response(
            body=gzip.compress(sent_body) if encoding == "gzip" else sent_body, headers=headers
        )

    header = [{**rule, "header": "Retry-After"} for rule in rules]
    async with requests_to(handle, limits={"answers": header}) as sent:
        answer = await sent()
        with pytest.raises(ApiError) as caught:
            await sent(replace(REQUEST, seconds=1.0))
    assert (answer.status, answer.limited, answer.meant) == (200, True, 429)
    assert caught.value.status == 429
    assert len(asked) == 1


async def test_a_limit_in_a_body_is_told_without_limits_of_the_system() -> None:
    content = json.dumps({"ok": False, "error": "ratelimited"}).encode()
    answer = await send(content, {"Content-Type": "application/json"})
    assert answer.meant == 429
    assert (await send(b'{"ok": true}', {"Content-Type": "application/json"})).meant == 200
