"""Work after the answer."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient
from pytest_aiohttp import AiohttpClient

from tests.harness.session.waiting import until
from tests.unit.runtime.external_systems import RUN_METADATA, External, configured, environment
from tieline import Context, Integration, SyncContext, TooMuchBackgroundWorkError
from tieline.server.applications import webhook_application
from tieline.server.webhook_runs import Limits, Runner
from tieline.telemetry.spans import Span, Tracer
from tieline_core.identity.ids import parse_id

Client = TestClient[web.Request, web.Application]
Serve = Callable[..., Awaitable[Client]]


@pytest.fixture
def spans() -> list[Span]:
    return []


@pytest.fixture
def runners() -> list[Runner]:
    return []


@pytest.fixture
def serve(
    aiohttp_client: AiohttpClient,
    client: aiohttp.ClientSession,
    spans: list[Span],
    runners: list[Runner],
    external: External,
) -> Serve:
    async def start(integration: Integration, **limits: Any) -> Client:
        runner = Runner(
            limits=Limits(**{"max_body": 1000, "max_runs": 10, "run_timeout": 5.0, **limits}),
            configuration=configured(environment(external.url, users={"ann": {}})),
            client=client,
            run_metadata=RUN_METADATA,
            tracer=Tracer(spans.append),
        )
        runners.append(runner)
        return await aiohttp_client(webhook_application(integration.webhooks, runner, max_body=1000))

    return start


async def test_the_answer_does_not_wait_for_it_and_it_is_part_of_the_trace(
    serve: Serve, spans: list[Span], runners: list[Runner], external: External
) -> None:
    go_on = asyncio.Event()
    integration = Integration()

    @integration.webhook("hook")
    async def hook(ctx: Context) -> str:
        async def notify(text: str) -> None:
            await go_on.wait()
            await ctx.fetch("shop", "/notify", method="POST", data=text)

        ctx.background(notify, "hello")
        return "answered"

    client = await serve(integration)
    response = await client.post("/hook")
    assert await response.text() == "answered"
    assert external.seen == []
    go_on.set()
    await runners[0].background.drain(5)
    assert external.last.body == b"hello"
    run, background, request = (
        next(span for span in spans if span.name == name) for name in ("hook", "background notify", "POST")
    )
    assert run.end < background.end
    assert background.parent_id == run.context.span_id
    assert request.parent_id == background.context.span_id
    execution = response.headers["X-Tieline-Execution-Id"]
    assert background.attributes["executionId"] == execution
    identifier = str(background.attributes["run.id"])
    assert parse_id(identifier) == identifier != execution
    assert (background.attributes["run.kind"], background.attributes["run.task"]) == ("background", "notify")
    assert "run.id" not in request.attributes
    assert runners[0].counts.runs["background", "notify", "succeeded"] == 1


@pytest.mark.parametrize("form", ["coroutine", "function", "thread", "from a thread"])
async def test_it_may_be_a_coroutine_or_a_function_of_either_kind(
    serve: Serve, runners: list[Runner], form: str
) -> None:
    done: list[tuple[int, bool]] = []
    integration = Integration()

    async def add(number: int) -> None:
        done.append((number, threading.current_thread() is threading.main_thread()))

    def add_in_thread(number: int) -> None:
        done.append((number, threading.current_thread() is threading.main_thread()))

    @integration.webhook("async")
    async def asynchronous(ctx: Context) -> None:
        if form == "coroutine":
            ctx.background(add(7))
        else:
            ctx.background(add if form == "function" else add_in_thread, 7)

    @integration.webhook("plain")
    def plain(ctx: SyncContext) -> None:
        ctx.background(add_in_thread, number=7)

    client = await serve(integration)
    assert (await client.post("/plain" if form == "from a thread" else "/async")).status == 204
    await runners[0].background.drain(5)
    assert done == [(7, form in ("coroutine", "function"))]
    assert runners[0].turns.active == 0


async def test_what_fails_is_logged_with_the_runs_id_and_fails_its_span(
    serve: Serve, spans: list[Span], runners: list[Runner], caplog: pytest.LogCaptureFixture
) -> None:
    integration = Integration()

    async def broken() -> None:
        raise RuntimeError("no such thing")

    async def endless() -> None:
        await asyncio.sleep(60)

    @integration.webhook("hook")
    async def hook(ctx: Context) -> None:
        ctx.background(broken)
        ctx.background(endless())

    client = await serve(integration, background_timeout=0.05)
    assert (await client.post("/hook")).status == 204
    await runners[0].background.drain(5)
    messages = " ".join(record.getMessage() for record in caplog.records)
    assert "Background work broken failed: no such thing" in messages
    assert "Background work endless was stopped after 0.05 seconds" in messages
    assert {span.name: span.error for span in spans if span.name.startswith("background")} == {
        "background broken": "RuntimeError: no such thing",
        "background endless": "TimeoutError: stopped after 0.05 seconds",
    }


async def test_there_is_only_so_much_of_it(serve: Serve, runners: list[Runner]) -> None:
    integration = Integration()

    @integration.webhook("hook")
    async def hook(ctx: Context) -> str:
        try:
            for _ in range(4):
                ctx.background(asyncio.sleep(60))
        except TooMuchBackgroundWorkError as error:
            return str(error)
        return "no end"

    client = await serve(integration, max_background=3)
    assert (await (await client.post("/hook")).text()).startswith("3 pieces")
    await runners[0].background.drain(0)
    assert runners[0].background.pending == 0


async def test_it_takes_turns_with_the_runs_of_its_activation(serve: Serve, runners: list[Runner]) -> None:
    go_on = asyncio.Event()
    integration = Integration()

    @integration.webhook("hook")
    async def hook(ctx: Context) -> None:
        for _ in range(20):
            ctx.background(go_on.wait)

    @integration.webhook("quick")
    async def quick() -> str:
        return "quick"

    client = await serve(integration, max_runs=10)
    assert (await client.post("/hook")).status == 204
    await until(lambda: runners[0].turns.active == 9)
    assert (await client.post("/quick")).status == 429
    assert await (await client.post("/quick/users/ann")).text() == "quick"
    go_on.set()
    await runners[0].background.drain(5)
    assert runners[0].counts.runs["background", "wait", "succeeded"] == 20


async def test_at_the_end_what_is_not_done_in_time_is_stopped_and_said(
    serve: Serve, runners: list[Runner], caplog: pytest.LogCaptureFixture
) -> None:
    integration = Integration()

    @integration.webhook("hook")
    async def hook(ctx: Context) -> None:
        ctx.background(asyncio.sleep(60))

    await (await serve(integration)).post("/hook")
    await runners[0].background.drain(0.01)
    assert "Background work sleep was stopped: the pod ends" in [
        record.getMessage() for record in caplog.records
    ]
