"""Calls of webhooks: they reach the environment's Service alone, with what the caller gives and nothing else."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import unquote

import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.test_utils import TestServer
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict
from yarl import URL

from tieline_api import environment_calls
from tieline_api.environment_calls import (
    MAX_ANSWER,
    EnvironmentCalls,
    WebhookAnswer,
    WebhookRequest,
    request_target,
    sendable_headers,
)
from tieline_api.errors import ApiError
from tieline_api.handlers.environment_calls import answer_to_rest, sent_body
from tieline_api.schemas.environments import WebhookCall

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
SERVICE = "orders-production-0123456789abcdef.acme.svc"


class ClusterDns(AbstractResolver):
    """Knows the Service alone, at this machine."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        if host != SERVICE:
            raise OSError(f"no such name: {host}")
        return [
            ResolveResult(hostname=host, host="127.0.0.1", port=port, family=socket.AF_INET, proto=0, flags=0)
        ]

    async def close(self) -> None:
        """Nothing to close."""


@asynccontextmanager
async def environment(handler: Handler) -> AsyncIterator[EnvironmentCalls]:
    """Calls that reach ``handler`` in place of a pod."""
    app = web.Application(client_max_size=0)
    app.router.add_route("*", "/{path:.*}", handler)
    async with TestServer(app) as server:
        calls = EnvironmentCalls(resolver=ClusterDns(), port=server.port or 0)
        try:
            yield calls
        finally:
            await calls.close()


def request(
    path: str = "/orders", *, method: str = "POST", body: bytes | None = None, **headers: str
) -> WebhookRequest:
    given = {name.replace("_", "-"): [value] for name, value in headers.items()}
    return WebhookRequest(
        method=method, target=request_target(path, ()), headers=sendable_headers(given), body=body
    )


async def send(calls: EnvironmentCalls, wanted: WebhookRequest, *, seconds: float = 30) -> WebhookAnswer:
    workload, namespace, _ = SERVICE.split(".")
    return await calls.call(namespace, workload, wanted, seconds=seconds)


async def test_the_webhook_gets_what_was_given_and_its_answer_comes_back_whole() -> None:
    seen: list[tuple[str, str, dict[str, str], bytes]] = []

    async def handler(got: web.Request) -> web.Response:
        headers = {name.lower(): value for name, value in got.headers.items()}
        seen.append((got.method, got.raw_path, headers, await got.read()))
        return web.Response(
            status=418, body=b"\xffshort", headers={"X-Kept": "1", "Connection": "x-gone", "X-Gone": "1"}
        )

    async with environment(handler) as calls:
        wanted = request(
            "/a%2Fb/\u00e9?x=1&y=a b",
            body=b"{}",
            Content_Type="application/json",
            Authorization="Bearer webhook",
            Connection="close, X-Mine",
            X_Mine="for the next hop",
            Host="elsewhere",
            Transfer_Encoding="chunked",
            Content_Length="7",
            Upgrade="h2c",
        )
        answer = await send(calls, wanted)
    ((method, path, headers, body),) = seen
    assert (method, path, body) == ("POST", "/a%2Fb/%C3%A9?x=1&y=a%20b", b"{}")
    assert headers["host"].startswith(SERVICE)
    assert headers["content-length"] == "2"
    assert headers["authorization"] == "Bearer webhook"
    assert not {"x-mine", "transfer-encoding", "upgrade", "cookie"} & headers.keys()
    assert (answer.status, answer.body) == (418, b"\xffshort")
    assert answer.headers["x-kept"] == ["1"]
    assert not {"connection", "x-gone", "content-length", "transfer-encoding"} & answer.headers.keys()


async def test_redirects_and_cookies_are_passed_on_and_not_followed() -> None:
    async def handler(got: web.Request) -> web.Response:
        assert "Cookie" not in got.headers
        headers = CIMultiDict(Location="http://169.254.169.254/")
        headers.extend([("Set-Cookie", "a=b"), ("Set-Cookie", "c=d, e")])
        return web.Response(status=302, headers=headers)

    async with environment(handler) as calls:
        for _ in range(2):
            answer = await send(calls, request(method="GET"))
            assert (answer.status, answer.headers["location"]) == (302, ["http://169.254.169.254/"])
            assert answer.headers["set-cookie"] == ["a=b", "c=d, e"]


def called(**fields: Any) -> tuple[WebhookCall, bytes]:
    raw = json.dumps({"urlPath": "/", "method": "POST", **fields}).encode()
    return WebhookCall.model_validate_json(raw), raw


@pytest.mark.parametrize(
    ("fields", "sent"),
    [
        ({"body": "eyJhIjoxfQ=="}, b'{"a":1}'),
        ({"body": "/w==", "bodyEncoding": "base64"}, b"\xff"),
        ({"body": "", "bodyEncoding": None}, b""),
        ({"body": "eyJhIjoxfQ==", "bodyEncoding": "text"}, b"eyJhIjoxfQ=="),
        ({"body": "\u00e4", "bodyEncoding": "text"}, b"\xc3\xa4"),
        ({"body": {"a": 1.0}}, b'{"a": 1.0}'),
        ({"body": [1], "bodyEncoding": "base64"}, b"[1]"),
        ({"body": False}, b"false"),
        ({"body": None}, None),
        ({}, None),
    ],
)
def test_a_string_is_base64_unless_it_says_text(fields: dict[str, Any], sent: bytes | None) -> None:
    assert sent_body(*called(**fields)) == sent


@pytest.mark.parametrize("body", ["%", "hello!", "\u00e4", "eyJhIjoxfQ"])
def test_text_in_place_of_base64_is_refused(body: str) -> None:
    with pytest.raises(ApiError, match="bodyEncoding") as refused:
        sent_body(*called(body=body))
    assert [field.field for field in refused.value.fields] == ["body"]


@pytest.mark.parametrize(
    ("body", "as_text", "shown"),
    [
        (b"done", False, ("ZG9uZQ==", "base64")),
        (b"done", True, ("done", "text")),
        (b"\xff", True, ("/w==", "base64")),
        (b"", True, ("", "text")),
    ],
)
def test_the_answer_is_base64_unless_text_was_asked_for(
    body: bytes, as_text: bool, shown: tuple[str, str]
) -> None:
    answer = answer_to_rest(WebhookAnswer(status=200, headers={"x": ["1", "2"]}, body=body), as_text=as_text)
    assert (answer.body, answer.body_encoding, answer.headers) == (*shown, {"x": ["1", "2"]})


async def test_an_answer_that_is_too_large_is_refused_and_not_kept() -> None:
    async def handler(got: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(got)
        for _ in range(1024):
            await response.write(b"x" * 65536)
        return response

    async with environment(handler) as calls:
        with pytest.raises(ApiError) as refused:
            await send(calls, request())
    assert (refused.value.status, refused.value.code) == (502, "answer_too_large")

    async def exact(_got: web.Request) -> web.Response:
        return web.Response(body=b"x" * MAX_ANSWER)

    async with environment(exact) as calls:
        assert len((await send(calls, request())).body) == MAX_ANSWER


async def test_a_webhook_that_does_not_answer_is_a_time_out() -> None:
    ended = asyncio.Event()

    async def handler(_got: web.Request) -> web.Response:
        await ended.wait()
        return web.Response()

    async with environment(handler) as calls:
        with pytest.raises(ApiError) as refused:
            await send(calls, request(), seconds=0.05)
        ended.set()
    assert (refused.value.status, refused.value.code) == (504, "environment_timeout")


async def test_an_environment_without_pods_is_told_as_such() -> None:
    calls = EnvironmentCalls(resolver=ClusterDns(), port=1, pause=lambda _: asyncio.sleep(0))
    try:
        for workload in ("orders-production-0123456789abcdef", "unknown"):
            with pytest.raises(ApiError) as refused:
                await calls.call("acme", workload, request())
            assert (refused.value.status, refused.value.code) == (502, "environment_unreachable")
    finally:
        await calls.close()


async def test_a_connection_that_is_refused_is_tried_again() -> None:
    """A node takes a moment to learn of an environment's first pod."""
    served: list[str] = []

    async def handler(got: web.Request) -> web.Response:
        served.append(await got.text())
        return web.Response(text="here")

    app = web.Application()
    app.router.add_post("/orders", handler)
    server = TestServer(app)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            await server.start_server(port=port)

    server.port = port
    calls = EnvironmentCalls(resolver=ClusterDns(), port=port, pause=pause)
    try:
        assert (await send(calls, request(body=b"once"))).body == b"here"
    finally:
        await calls.close()
        await server.close()
    assert (served, len(pauses)) == (["once"], 3)
    assert pauses[0] < pauses[2]


async def test_an_organisation_has_a_bounded_number_of_calls_under_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(environment_calls, "MOST_EACH", 2)
    arrived, go_on = asyncio.Semaphore(0), asyncio.Event()

    async def handler(_got: web.Request) -> web.Response:
        arrived.release()
        await go_on.wait()
        return web.Response()

    async with environment(handler) as calls:
        running = [asyncio.create_task(send(calls, request())) for _ in range(2)]
        for _ in running:
            await arrived.acquire()
        with pytest.raises(ApiError) as refused:
            await send(calls, request())
        assert refused.value.status == 429
        go_on.set()
        assert [(await one).status for one in running] == [200, 200]
        assert (await send(calls, request())).status == 200, "the turns are free again"


@pytest.mark.parametrize(
    "path",
    [
        "http://evil.example/",
        "//evil.example/a",
        "evil.example:80/a",
        "/a//b",
        "/../a",
        "/a/..",
        "..",
        "/a/%2e%2E/b",
        "/a/..%2fb",
        "/./a",
        "/a\\b",
        "/a%5cb",
        "/a\r\nHost: b",
        "/a%0d%0ab",
        "/a\0",
        "/a?b=c\r\nX: y",
        "/a#b",
        "/a%zz",
        "/a%2",
    ],
)
def test_paths_that_could_mean_something_else_are_refused(path: str) -> None:
    with pytest.raises(ApiError) as refused:
        request_target(path, ())
    assert refused.value.status == 422
    assert [field.field for field in refused.value.fields] == ["urlPath"]


@pytest.mark.parametrize(
    ("path", "query", "target"),
    [
        ("/orders", (), "/orders"),
        ("orders", (), "/orders"),
        ("/", (), "/"),
        ("/a b", (("x", "1 2"), ("x", "&")), "/a%20b?x=1+2&x=%26"),
        ("/a?b=1", (("c", "2"),), "/a?b=1&c=2"),
        ("/a?", (), "/a"),
        ("/users/a:b@c/%7E", (), "/users/a:b@c/%7E"),
        ("/a/...", (), "/a/..."),
    ],
)
def test_paths_are_sent_as_they_are(path: str, query: tuple[tuple[str, str], ...], target: str) -> None:
    assert request_target(path, query) == target


ODD = st.text(st.sampled_from("/.%2fF5cC0dDaA:@\\?#\r\n\0 é\u2028abhttp&=+[]"), max_size=20)


@given(ODD, st.lists(st.tuples(ODD, ODD), max_size=3))
def test_whatever_the_path_the_request_goes_to_the_service(path: str, query: list[tuple[str, str]]) -> None:
    try:
        target = request_target(path, query)
    except ApiError:
        return  # the tables above say what is refused
    assert target.startswith("/")
    assert target.isascii()
    assert not any(character <= " " or character == "\x7f" for character in target)
    url = URL(f"http://{SERVICE}:80{target}", encoded=True)
    assert (url.host, url.port, url.user) == (SERVICE, 80, None)
    # A question mark begins the query; with nothing behind it, there is none.
    assert url.raw_path_qs == (target.removesuffix("?") if target.count("?") == 1 else target)
    parts = unquote(url.raw_path).split("/")
    assert parts[0] == ""
    assert not {".", ".."} & set(parts)


@pytest.mark.parametrize("name", ["", "a b", "a:b", "é", "x\r\ny", "a" * 257])
def test_names_of_headers_that_http_does_not_allow_are_refused(name: str) -> None:
    with pytest.raises(ApiError) as refused:
        sendable_headers({name: ["1"]})
    assert refused.value.status == 422


@pytest.mark.parametrize("value", ["a\r\nX: y", "a\n", "\0"])
def test_values_of_headers_cannot_begin_another_header(value: str) -> None:
    with pytest.raises(ApiError) as refused:
        sendable_headers({"X-Secret": [value]})
    assert (refused.value.status, refused.value.fields[0].field) == (422, "headers.X-Secret")
    assert value not in str(refused.value.body()), "values may be secrets"


def test_headers_have_a_bound() -> None:
    with pytest.raises(ApiError):
        sendable_headers({"X": ["1"] * 101})
    with pytest.raises(ApiError):
        sendable_headers({"X": ["x" * 32768]})
