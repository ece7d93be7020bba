"""What callers of webhooks get: answers, errors, limits."""

import asyncio
import dataclasses
import io
import json
import re
import threading
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient
from pytest_aiohttp import AiohttpClient

from tests.harness.session.waiting import eventually_async, until
from tests.unit.runtime.external_systems import RUN_METADATA, External, api_key, configured, environment
from tieline import Context, Integration, Request, SyncContext, SyncRequest
from tieline.configuration.current import Configuration
from tieline.configuration.snapshot import parse
from tieline.server.applications import health_application, webhook_application
from tieline.server.webhook_runs import Limits, Runner

Client = TestClient[web.Request, web.Application]
Serve = Callable[..., Awaitable[Client]]
EXECUTION_ID = re.compile("[0-7][0-9A-HJKMNP-TV-Z]{25}")


@pytest.fixture
def serve(aiohttp_client: AiohttpClient, client: aiohttp.ClientSession) -> Serve:
    async def start(
        integration: Integration,
        configuration: Configuration | None = None,
        *,
        max_body: int = 1000,
        max_runs: int = 10,
        run_timeout: float = 5,
        max_waiting: int = 0,
    ) -> Client:
        runner = Runner(
            limits=Limits(
                max_body=max_body, max_runs=max_runs, run_timeout=run_timeout, max_waiting=max_waiting
            ),
            configuration=configuration or configured(),
            client=client,
            run_metadata=RUN_METADATA,
        )
        return await aiohttp_client(webhook_application(integration.webhooks, runner, max_body=max_body))

    return start


class PydanticLike:
    def model_dump(self, *, mode: str) -> dict[str, str]:
        return {"mode": mode}


@dataclasses.dataclass
class Order:
    id: int
    at: datetime


@pytest.mark.parametrize(
    ("returned", "status", "content_type", "body"),
    [
        (None, 204, "application/octet-stream", b""),
        ({"a": "ü"}, 200, "application/json", '{"a":"ü"}'.encode()),
        ([1, None, True], 200, "application/json", b"[1,null,true]"),
        (7, 200, "application/json", b"7"),
        ("hello", 200, "text/plain", b"hello"),
        (b"\x00\xff", 200, "application/octet-stream", b"\x00\xff"),
        (PydanticLike(), 200, "application/json", b'{"mode":"json"}'),
        (
            {"order": Order(1, datetime(2026, 1, 2, tzinfo=UTC))},
            200,
            "application/json",
            b'{"order":{"id":1,"at":"2026-01-02T00:00:00+00:00"}}',
        ),
    ],
)
async def test_what_a_webhook_returns_becomes_a_fitting_answer(
    serve: Serve, returned: Any, status: int, content_type: str, body: bytes
) -> None:
    integration = Integration()
    integration.webhook("hook", methods=["GET"])(lambda: returned)
    response = await (await serve(integration)).get("/hook")
    assert (response.status, response.content_type, await response.read()) == (status, content_type, body)
    assert EXECUTION_ID.fullmatch(response.headers["X-Tieline-Execution-Id"])


async def test_an_aiohttp_response_is_sent_as_it_is(serve: Serve) -> None:
    integration = Integration()

    @integration.webhook("hook")
    async def hook() -> web.Response:
        return web.Response(status=202, text="later", headers={"X-Own": "1"})

    @integration.webhook("missing")
    async def missing() -> None:
        raise web.HTTPNotFound(text="no such order")

    client = await serve(integration)
    response = await client.post("/hook")
    assert (response.status, await response.text(), response.headers["X-Own"]) == (202, "later", "1")
    assert (await client.post("/missing")).status == 404


async def test_an_order_goes_through_a_connection_and_back(serve: Serve, external: External) -> None:
    integration = Integration()

    @integration.webhook("orders")
    async def orders(ctx: Context, request: Request) -> dict[str, Any]:
        response = await ctx.fetch("shop", "/orders", method="POST", json=await request.json())
        assert await response.read() == (await response.text()).encode()
        return {"created": (await response.json())["id"], "region": ctx.variables["region"]}

    @integration.webhook("sync-orders")
    def sync_orders(ctx: SyncContext, request: SyncRequest) -> dict[str, Any]:
        response = ctx.fetch("shop", "/orders", method="POST", json=request.json())
        response.raise_for_status()
        return {"created": response.json()["id"], "region": ctx.variables["region"]}

    client = await serve(integration, configured(environment(external.url, api_key("header"))))
    for path in ("/orders", "/sync-orders"):
        response = await client.post(path, json={"n": 1})
        assert await response.json() == {"created": "1", "region": "eu"}
        assert external.last.body == b'{"n": 1}'
        assert external.last.headers["X-API-Key"] == "key-1234"


async def test_a_failure_is_a_500_that_names_the_execution_and_tells_nothing_else(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    integration = Integration()

    @integration.webhook("hook")
    async def hook() -> None:
        raise RuntimeError("the password is hunter2")

    response = await (await serve(integration)).post("/hook")
    body = await response.json()
    assert (response.status, body["code"]) == (500, "execution_failed")
    assert body["executionId"] == response.headers["X-Tieline-Execution-Id"]
    assert "hunter2" not in str(body)
    assert "Traceback" not in str(body)
    failure = next(record for record in caplog.records if record.exc_info)
    assert "hunter2" in str(failure.exc_info[1] if failure.exc_info else "")


@pytest.mark.parametrize("path", ["/orders", "/sync-orders"])
@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        pytest.param(b"{bad", "application/json", id="not JSON"),
        pytest.param(b"", "application/json", id="nothing"),
        pytest.param(b'{"a": "\xff"}', "application/json; charset=utf-8", id="not text"),
        pytest.param(b"[" * 100_000, "application/json", id="too deep"),
    ],
)
async def test_a_body_that_cannot_be_read_is_the_callers_mistake(
    serve: Serve, caplog: pytest.LogCaptureFixture, path: str, body: bytes, content_type: str
) -> None:
    integration = Integration()

    @integration.webhook("orders")
    async def orders(ctx: Context, request: Request) -> Any:
        return await request.json()

    @integration.webhook("sync-orders")
    def sync_orders(ctx: SyncContext, request: SyncRequest) -> Any:
        return request.json()

    client = await serve(integration, max_body=200_000)
    response = await client.post(path, data=body, headers={"Content-Type": content_type})
    told = await response.json()
    assert (response.status, told["code"]) == (400, "malformed")
    assert told["message"].startswith("The request's body cannot be read: ")
    assert told["executionId"] == response.headers["X-Tieline-Execution-Id"]
    assert [(record.levelname, record.exc_info) for record in caplog.records] == [("WARNING", None)]


@pytest.mark.parametrize("path", ["/orders", "/sync-orders"])
async def test_json_after_a_byte_order_mark_is_read(serve: Serve, path: str) -> None:
    integration = Integration()

    @integration.webhook("orders")
    async def orders(ctx: Context, request: Request) -> Any:
        return [await request.json(), await request.json(loads=str), (await request.read())[:3].hex()]

    @integration.webhook("sync-orders")
    def sync_orders(ctx: SyncContext, request: SyncRequest) -> Any:
        return [request.json(), request.json(loads=str), request.read()[:3].hex()]

    response = await (await serve(integration)).post(path, data=b'\xef\xbb\xbf{"a": 1}')
    assert await response.json() == [{"a": 1}, '{"a": 1}', "efbbbf"]


async def test_json_of_others_that_cannot_be_read_is_a_failure(serve: Serve) -> None:
    integration = Integration()

    @integration.webhook("hook")
    async def hook(ctx: Context, request: Request) -> Any:
        return json.loads(await request.text())

    response = await (await serve(integration)).post("/hook", data=b"{bad")
    assert (response.status, (await response.json())["code"]) == (500, "execution_failed")


async def test_a_value_without_a_form_as_an_answer_is_a_failure(serve: Serve) -> None:
    integration = Integration()
    integration.webhook("hook")(object)
    assert (await (await serve(integration)).post("/hook")).status == 500


async def test_unknown_paths_are_404_and_list_nothing(serve: Serve) -> None:
    integration = Integration()
    integration.webhook("secret-hook")(lambda: None)
    client = await serve(integration)
    for path in ("/", "/other", "/secret-hook/more"):
        response = await client.get(path)
        assert response.status == 404
        assert await response.json() == {"code": "not_found", "message": "There is no such webhook"}


async def test_a_wrong_method_is_405_with_those_allowed(serve: Serve) -> None:
    integration = Integration()
    integration.webhook("hook", methods=["PUT", "POST"])(lambda: None)
    response = await (await serve(integration)).get("/hook")
    assert (response.status, response.headers["Allow"]) == (405, "POST, PUT")


async def _chunks(total: int) -> Any:
    for _ in range(total // 100):
        yield b"x" * 100


async def test_a_body_over_the_limit_is_413_however_it_is_sent(serve: Serve) -> None:
    ran: list[int] = []
    integration = Integration()

    @integration.webhook("hook")
    async def hook(_ctx: Context, request: Request) -> int:
        ran.append(1)
        return len(await request.read())

    client = await serve(integration, max_body=1000)
    assert await (await client.post("/hook", data=b"x" * 1000)).json() == 1000
    assert await (await client.post("/hook", data=_chunks(1000))).json() == 1000
    ran.clear()
    for data in (b"x" * 1001, _chunks(5000)):
        response = await client.post("/hook", data=data)
        assert (response.status, (await response.json())["code"]) == (413, "too_large")
    zipped = await client.post("/hook", data=b"x" * 100_000, compress="gzip")
    assert zipped.status == 413
    assert ran == []


async def test_a_multipart_body_of_unknown_length_is_refused(serve: Serve) -> None:
    integration = Integration()

    @integration.webhook("hook")
    async def hook(_ctx: Context, request: Request) -> list[str]:
        return list(await request.post())

    client = await serve(integration, max_body=10_000)
    assert await (
        await client.post("/hook", data=aiohttp.FormData({"file": io.BytesIO(b"x" * 99)}))
    ).json() == ["file"]
    chunked = await client.post(
        "/hook", data=_chunks(500), headers={"Content-Type": "multipart/form-data; boundary=b"}
    )
    assert chunked.status == 411


async def test_more_runs_than_allowed_are_429_with_retry_after(serve: Serve) -> None:
    entered, leave = asyncio.Event(), asyncio.Event()
    integration = Integration()

    @integration.webhook("hook")
    async def hook() -> str:
        entered.set()
        await leave.wait()
        return "done"

    client = await serve(integration, max_runs=1)
    first = asyncio.create_task(client.post("/hook"))
    await entered.wait()
    second = await client.post("/hook")
    assert (second.status, second.headers["Retry-After"]) == (429, "1")
    leave.set()
    assert await (await first).text() == "done"
    assert (await client.post("/hook")).status == 200


async def test_a_run_over_its_time_is_504_and_stopped(serve: Serve) -> None:
    stopped = asyncio.Event()
    integration = Integration()

    @integration.webhook("hook")
    async def hook() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            stopped.set()

    @integration.webhook("own-timeout")
    async def own_timeout() -> None:
        raise TimeoutError

    client = await serve(integration, run_timeout=0.05)
    response = await client.post("/hook")
    assert (response.status, (await response.json())["code"]) == (504, "execution_timed_out")
    assert stopped.is_set()
    assert (await client.post("/own-timeout")).status == 500


async def test_a_sync_function_does_not_hold_up_others(serve: Serve) -> None:
    begun, release = threading.Event(), threading.Event()
    integration = Integration()

    @integration.webhook("slow")
    def slow() -> str:
        begun.set()
        return str(release.wait(60))

    integration.webhook("fast")(lambda: "fast")

    client = await serve(integration)
    waiting = asyncio.create_task(client.post("/slow"))
    await until(begun.is_set)
    assert await (await client.post("/fast")).text() == "fast"
    assert not waiting.done()
    release.set()
    assert await (await waiting).text() == "True"


async def test_a_thread_that_goes_on_after_its_time_out_still_counts_as_a_run(serve: Serve) -> None:
    release = threading.Event()
    integration = Integration()
    integration.webhook("stuck")(lambda: str(release.wait(60)))
    integration.webhook("other")(lambda: "ok")

    client = await serve(integration, max_runs=1, run_timeout=0.05)
    assert (await client.post("/stuck")).status == 504
    assert (await client.post("/other")).status == 429
    release.set()

    async def has_room() -> bool:
        return (await client.post("/other")).status == 200

    await eventually_async("room for a run", has_room)


async def test_changed_variables_are_seen_by_the_next_run_and_not_within_one(serve: Serve) -> None:
    configuration = configured(environment("http://x"))
    entered, go_on = asyncio.Event(), asyncio.Event()
    integration = Integration()

    @integration.webhook("hook")
    async def hook(ctx: Context) -> list[str]:
        before = ctx.variables["region"]
        entered.set()
        await go_on.wait()
        return [before, ctx.variables["region"]]

    client = await serve(integration, configuration)
    first = asyncio.create_task(client.post("/hook"))
    await entered.wait()
    configuration.publish(parse(environment("http://x", variables={"region": "us"})))
    go_on.set()
    assert await (await first).json() == ["eu", "eu"]
    assert await (await client.post("/hook")).json() == ["us", "us"]


async def test_readiness_tells_why_not(aiohttp_client: AiohttpClient) -> None:
    reason: list[str | None] = ["waiting"]
    client = await aiohttp_client(health_application(ready=lambda: reason[0]))
    waiting = await client.get("/readyz")
    assert (waiting.status, await waiting.text()) == (503, "waiting")
    assert (await client.get("/livez")).status == 200
    reason[0] = None
    assert (await client.get("/readyz")).status == 200


@pytest.mark.parametrize("name", ["", "/orders", "a b", "-x", "ä"])
def test_names_that_are_no_path_segment_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="webhook name"):
        Integration().webhook(name)


def test_a_function_with_other_arguments_is_refused() -> None:
    with pytest.raises(TypeError, match=r"ctx, request"):
        Integration().webhook("hook")(lambda a, b, c: None)


def test_two_webhooks_of_one_name_and_unknown_methods_are_refused() -> None:
    integration = Integration()
    integration.webhook("hook")(lambda: None)
    with pytest.raises(ValueError, match="two webhooks"):
        integration.webhook("hook")
    with pytest.raises(ValueError, match="methods"):
        integration.webhook("other", methods=["FETCH"])


async def test_a_thousand_waiting_requests_of_one_user_hold_no_other_up(serve: Serve) -> None:
    users = {name: {"user": {"externalId": name}} for name in ("greedy", "ann")}
    ran: list[str] = []
    many = asyncio.Event()
    integration = Integration()

    @integration.webhook("hook")
    async def hook(ctx: Context) -> None:
        await asyncio.sleep(0.002)
        ran.append(ctx.activation.user.external_id if ctx.activation.user else "")
        if len(ran) == 20:
            many.set()

    test_client = await serve(
        integration,
        configured(environment("http://x", users=users)),
        max_runs=4,
        max_waiting=1000,
        run_timeout=300,  # requests wait for their turn as long
    )

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:

        async def call(user: str) -> int:
            async with client.post(test_client.make_url(f"/hook/users/{user}")) as response:
                return response.status

        greedy = [asyncio.create_task(call("greedy")) for _ in range(1000)]
        await many.wait()
        assert await call("ann") == 204
        place = ran.index("ann")
        assert {await response for response in greedy} == {204}
    # It waited for those under way, and for what came in before it: not for those that wait.
    assert place < 500


async def test_requests_wait_for_their_turn_and_those_beyond_the_queue_are_429(serve: Serve) -> None:
    entered, leave = asyncio.Event(), asyncio.Event()
    integration = Integration()

    @integration.webhook("hook")
    async def hook() -> str:
        entered.set()
        await leave.wait()
        return "done"

    client = await serve(integration, max_runs=1, max_waiting=2)
    requests = [asyncio.create_task(client.post("/hook")) for _ in range(5)]
    await entered.wait()
    await until(lambda: sum(request.done() for request in requests) == 2)
    leave.set()
    answers = [await request for request in requests]
    assert sorted(answer.status for answer in answers) == [200, 200, 200, 429, 429]
    assert {answer.headers.get("Retry-After") for answer in answers if answer.status == 429} == {"1"}
