"""What went wrong with a request, or in the code, is told: in the error, the log and the trace, without secrets."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.unit.runtime import external_systems
from tests.unit.runtime.external_systems import ContextFor, api_key, configured, environment
from tests.unit.testing.written_projects import folder
from tieline import Context, RequestTimeoutError, UpstreamError
from tieline.errors import reason
from tieline.http_client import retries
from tieline.http_client.session import new_client
from tieline.server.run_history import masked_error
from tieline.telemetry.otlp_json import encode
from tieline.telemetry.redaction import Redactor
from tieline.testing import Project

KEY = "s3cr3t-key-of-the-shop"


async def until_gone(request: web.Request) -> None:
    while request.transport is not None and not request.transport.is_closing():  # noqa: ASYNC110
        await asyncio.sleep(0.005)


def refusing(body: bytes, content_type: str = "application/json", *, slowly: bool = False) -> web.Application:
    async def refuse(request: web.Request) -> web.StreamResponse:
        if not slowly:
            return web.Response(status=422, body=body, headers={"Content-Type": content_type})
        answer = web.StreamResponse(status=422, headers={"Content-Type": content_type})
        await answer.prepare(request)
        await answer.write(body)
        await until_gone(request)
        return answer

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", refuse)
    return application


@pytest.fixture
async def shop(request: pytest.FixtureRequest) -> AsyncIterator[str]:
    body, *more = request.param
    async with TestServer(refusing(body, *more)) as server:
        yield str(server.make_url("")).rstrip("/")


def context(context_for: ContextFor, url: str) -> Context:
    return context_for(environment(url, api_key("query", KEY, name="key")))


@pytest.mark.parametrize("shop", [(b'\xef\xbb\xbf{"id": "\xc3\xa4"}',)], indirect=True)
async def test_json_that_begins_with_a_byte_order_mark_is_read(context_for: ContextFor, shop: str) -> None:
    answer = await context(context_for, shop).fetch("shop", "/orders")
    assert await answer.json() == {"id": "\u00e4"}
    assert await answer.json(encoding="latin-1", loads=str) == "\u00ef\u00bb\u00bf" + '{"id": "\u00c3\u00a4"}'


@pytest.mark.parametrize("shop", [(b"no",)], indirect=True)
@pytest.mark.parametrize(
    ("system", "said"),
    [
        ({"name": "Shop of the EU"}, "Shop of the EU"),
        ({"name": f"Shop {KEY}"}, "Shop ***"),
        ({"name": "S" * 5000}, "S" * 256),
        ({}, "shop"),
        (7, "shop"),
    ],
)
async def test_the_record_of_a_run_names_the_system_without_secrets(
    context_for: ContextFor, shop: str, system: object, said: str
) -> None:
    body = environment(shop, api_key("query", KEY, name="key"))
    body["connections"]["shop"]["system"] = system
    response = await context_for(body).fetch("shop", "/orders")
    with pytest.raises(UpstreamError) as raised:
        response.raise_for_status()
    redact = Redactor()
    redact.learn([KEY])
    upstream = masked_error(raised.value, redact).upstream
    assert upstream is not None
    assert (upstream.status, upstream.system) == (422, said)


@pytest.mark.parametrize("shop", [(f'{{"error": "no line", "key": "{KEY}"}}'.encode(),)], indirect=True)
async def test_an_error_has_what_the_system_said_without_secrets(context_for: ContextFor, shop: str) -> None:
    ctx = context(context_for, shop)
    response = await ctx.fetch("shop", "/orders", method="POST", json={})
    with pytest.raises(UpstreamError) as raised:
        response.raise_for_status()
    error = raised.value
    assert isinstance(error, aiohttp.ClientResponseError)
    assert (error.template, error.status, error.body) == ("shop", 422, '{"error": "no line", "key": "***"}')
    assert str(error) == (
        f'shop answered POST {shop}/orders with 422 Unprocessable Entity: {{"error": "no line", "key": "***"}}'
    )
    assert KEY not in repr(error)
    assert (await response.json())["error"] == "no line", "the answer can still be read"


async def by_fetch(ctx: Context) -> None:
    await ctx.fetch("shop", "/orders", raise_for_status=True)


async def by_session(ctx: Context) -> None:
    await ctx.session("shop").get("/orders", raise_for_status=True)


async def in_a_block(ctx: Context) -> None:
    async with ctx.session("shop").get("/orders") as response:
        # What has not arrived yet cannot be told.
        await asyncio.wait_for(until_read(response), 5)
        response.raise_for_status()


async def until_read(response: aiohttp.ClientResponse, size: int = 3000) -> None:
    while response.content.total_bytes < size:  # noqa: ASYNC110
        await asyncio.sleep(0.001)


async def read_before(ctx: Context) -> None:
    async with ctx.session("shop").get("/orders") as response:
        await response.text()
        response.raise_for_status()


@pytest.mark.parametrize("way", [by_fetch, by_session, in_a_block, read_before])
@pytest.mark.parametrize("shop", [(b"no line " + KEY.encode() + b" " * 3000,)], indirect=True)
async def test_every_way_of_raising_keeps_the_body(
    context_for: ContextFor, shop: str, way: Callable[[Context], Awaitable[None]]
) -> None:
    with pytest.raises(UpstreamError) as raised:
        await way(context(context_for, shop))
    assert raised.value.body == "no line ***"


@pytest.mark.parametrize("left", [0, 1, 2, 10, 17, 18])
async def test_a_secret_at_the_end_of_what_has_arrived_or_is_kept_is_not_half_shown(left: int) -> None:
    for body, slowly in (
        (b"no " + KEY[: len(KEY) - left].encode(), True),
        (b"x" * (2048 - left) + KEY.encode(), False),
    ):
        async with TestServer(refusing(body, slowly=slowly)) as server, new_client() as client:
            url = str(server.make_url("")).rstrip("/")
            ctx = external_systems.context(client, configured(environment(url, api_key("header", KEY))))
            async with ctx.session("shop").get("/orders") as response:
                if slowly:
                    await until_read(response, len(body))
                else:
                    await response.read()
                with pytest.raises(UpstreamError) as raised:
                    response.raise_for_status()
        assert not any(KEY[:size] in raised.value.body for size in range(4, len(KEY)))
        assert len(raised.value.body) <= 2048


@pytest.mark.parametrize("shop", [(b"\x89PNG\x00", "image/png")], indirect=True)
async def test_what_is_no_text_is_not_shown(context_for: ContextFor, shop: str) -> None:
    response = await context(context_for, shop).fetch("shop", "/orders")
    with pytest.raises(UpstreamError, match="422 Unprocessable Entity, and nothing in its body"):
        response.raise_for_status()


def test_the_beginning_of_a_secret_at_the_end_of_a_text_is_found() -> None:
    redactor = Redactor()
    redactor.learn([KEY])
    for size in range(4, len(KEY)):
        assert redactor.unfinished(f"no {KEY[:size]}") == 3
    assert redactor.unfinished("no s3cr and more") == len("no s3cr and more")


def test_many_backslashes_take_no_longer_than_other_letters() -> None:
    redactor = Redactor()
    redactor.learn([KEY])
    text = "\\" * 1_000_000 + "x"  # minutes, where each backslash begins a search to the end
    assert redactor.unfinished(text) == len(text)


ESCAPES: dict[str, Callable[[str], str]] = {
    "json": lambda letter: f"\\u{ord(letter):04x}",
    "python": lambda letter: f"\\x{ord(letter):02x}",
    "url": lambda letter: f"%{ord(letter):02X}",
    "html": lambda letter: f"&#{ord(letter)};",
    "url in a url": lambda letter: f"%25{ord(letter):02X}",
}


@pytest.mark.parametrize("escape", ESCAPES)
def test_the_beginning_of_an_escaped_secret_at_the_end_is_found(escape: str) -> None:
    redactor = Redactor()
    redactor.learn([KEY])
    letters = [ESCAPES[escape](letter) for letter in KEY]
    least = len("no " + "".join(letters[:4]))
    for end in range(least, len("no " + "".join(letters))):
        text = ("no " + "".join(letters))[:end]
        assert redactor.unfinished(text) == 3, text


FAILING = """
from tieline import SyncContext

@integration.webhook("strict")
async def strict(ctx: Context) -> None:
    (await ctx.fetch("shop", "/orders")).raise_for_status()

@integration.webhook("strict-sync")
def strict_sync(ctx: SyncContext) -> None:
    ctx.fetch("shop", "/orders").raise_for_status()

@integration.webhook("bare")
async def bare(ctx: Context) -> None:
    order = {}
    assert order

@integration.webhook("lookup")
async def lookup(ctx: Context) -> None:
    {}["id"]

@integration.webhook("background")
async def background(ctx: Context) -> None:
    ctx.background(bare, ctx)

@integration.schedule("nightly", "0 3 * * *")
async def nightly(ctx: Context) -> None:
    assert ctx is None
"""


def last_error(project: Project, path: str) -> Any:
    project.post(path)
    return [entry for entry in project.logs if entry.severity == "ERROR"][-1]


@pytest.mark.parametrize("webhook", ["strict", "strict-sync"])
def test_log_and_trace_have_what_the_system_said(tmp_path: Path, webhook: str) -> None:
    with Project(folder(tmp_path, FAILING)) as project:
        shop = project.connection("shop", credentials=[api_key("header", KEY)])
        shop.on("GET", "/orders").answer(409, json={"error": f"taken by {KEY}"})
        entry = last_error(project, f"/{webhook}")
        assert entry.message.startswith(f"Webhook {webhook} failed: shop answered GET http://127.0.0.1:")
        assert entry.message.endswith('/orders with 409 Conflict: {"error": "taken by ***"}')
        assert "UpstreamError: shop answered" in entry.error
        span = project.spans[-1]
        assert span.error == "UpstreamError: shop answered 409"
        assert span.attributes["upstream.status_code"] == 409
        assert span.attributes["upstream.body"] == '{"error": "taken by ***"}'
        assert span.attributes["exception.type"] == "tieline.errors.UpstreamError"


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/bare", "Webhook bare failed: AssertionError at main.py:18: assert order"),
        ("/lookup", "Webhook lookup failed: KeyError: 'id'"),
        ("/background", "Background work bare failed: AssertionError at main.py:18: assert order"),
    ],
)
def test_no_reason_is_empty(tmp_path: Path, path: str, told: str) -> None:
    with Project(folder(tmp_path, FAILING)) as project:
        assert last_error(project, path).message == told


@pytest.mark.parametrize("way", ["fetch", "session"])
async def test_a_time_out_says_which_request_it_was(context_for: ContextFor, way: str) -> None:
    async def hang(request: web.Request) -> web.Response:
        await until_gone(request)
        return web.Response()

    application = web.Application()
    application.router.add_get("/orders", hang)
    async with TestServer(application) as server:
        url = str(server.make_url("")).rstrip("/")
        ctx = context(context_for, url)
        ask = ctx.session("shop").get if way == "session" else partial(ctx.fetch, "shop")
        with pytest.raises(RequestTimeoutError) as raised:
            await ask("/orders", timeout=aiohttp.ClientTimeout(total=0.05))
    assert isinstance(raised.value, TimeoutError)
    assert str(raised.value).startswith(
        f"shop did not answer GET {url}/orders within 0.05 seconds; pass timeout="
    )


async def test_as_many_repetitions_as_were_asked_for_are_made(
    context_for: ContextFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    async def pause(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(retries, "pause", pause)
    asked = 0

    async def away(_request: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        return web.Response(status=503)

    application = web.Application()
    application.router.add_get("/orders", away)
    async with TestServer(application) as server:
        ctx = context(context_for, str(server.make_url("")).rstrip("/"))
        assert (await ctx.fetch("shop", "/orders", retries=12)).status == 503
    assert asked == 13
    assert len(waits) == 12
    assert max(waits) <= 10
    assert retries._backoff(100_000) <= 10


def test_a_reason_is_the_authors_line_and_not_a_librarys() -> None:
    async def waits() -> None:
        async with asyncio.timeout(0.001):
            await asyncio.sleep(1)

    with pytest.raises(TimeoutError) as raised:
        asyncio.run(waits())
    assert reason(raised.value).startswith("TimeoutError at test_upstream_errors.py:")


OSERROR = f"""
from tieline import StateChangedError

@integration.webhook("disk")
async def disk(ctx: Context) -> None:
    raise OSError("The disk {KEY} is full")

@integration.webhook("changed")
async def changed(ctx: Context) -> None:
    raise StateChangedError("cursor")

@integration.webhook("region")
async def region(ctx: Context) -> str:
    return ctx.variables["region"]
"""


def test_a_trace_names_the_masked_reason_of_an_uncaught_error(tmp_path: Path) -> None:
    with Project(folder(tmp_path, OSERROR)) as project:
        project.connection("shop", credentials=[api_key("header", KEY)])
        project.post("/disk")
        span = project.spans[-1]
        sent = encode([span], resource={}, redact=project._redactor).decode()
        assert KEY not in sent
        assert '"message":"OSError: The disk *** is full"' in sent
        assert '"key":"exception.message","value":{"stringValue":"The disk *** is full"}' in sent
        project.post("/region")
        assert "UnknownVariableError: There is no variable 'region'" in (project.spans[-1].error or "")
        project.post("/changed")
        assert project.spans[-1].attributes["exception.type"] == "tieline.state.authors.StateChangedError"
