"""Every direct run has a record in the run history, whatever becomes of its trace."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from pytest_aiohttp import AiohttpClient

from tests.harness.session.waiting import until
from tests.unit.api.runs.run_records import record
from tests.unit.runtime.external_systems import RUN_METADATA, External, configured, environment
from tieline import Context, Integration, Request, ScheduledRun
from tieline.configuration.pod_api import PodApi
from tieline.configuration.users import ConfiguredUsers
from tieline.events.history import HistoryWriter
from tieline.events.queue import NoEvents
from tieline.events.run_reports import PATH, RunReports
from tieline.scheduling.records import STATIC
from tieline.server.applications import webhook_application
from tieline.server.code_loader import Tasks
from tieline.server.event_server import EventServer
from tieline.server.responses import EXECUTION_ID_HEADER
from tieline.server.scheduled_runs import ScheduledRuns
from tieline.server.webhook_runs import Limits, Runner
from tieline_protocol.run_records import RunRecord, decode

Client = TestClient[web.Request, web.Application]
integration = Integration()


@integration.webhook("orders", methods=["POST"])
async def orders(ctx: Context, request: Request) -> web.Response:
    text = await request.text()
    if text == "fail":
        raise ValueError("an order is no order")
    if text == "wait":
        await asyncio.Event().wait()
    return web.Response(status=int(text or 200))


@integration.webhook("later")
async def later(ctx: Context) -> None:
    async def good() -> None:
        await asyncio.sleep(0)

    def bad() -> None:
        raise KeyError("stock")

    ctx.background(good)
    ctx.background(bad)


@integration.schedule("nightly", "0 0 * * *")
async def nightly(ctx: Context, run: ScheduledRun) -> None:
    if run.attempt == 2:
        raise ValueError("no stock")
    if run.attempt == 3:
        await asyncio.Event().wait()


class Pod:
    """A pod's runs, and what its history has of them."""

    def __init__(self, client: aiohttp.ClientSession, external: External, *, keeps: bool = False) -> None:
        self.records: list[RunRecord] = []
        self.history = HistoryWriter(self._write)
        body = environment(external.url, activationId="01STATIC", users={"ann": {}})
        configuration = configured({**body, "settings": {"keepInputs": keeps}})
        self.runner = Runner(
            limits=Limits(max_body=1000, max_runs=10, run_timeout=0.2),
            configuration=configuration,
            client=client,
            run_metadata=RUN_METADATA,
            history=self.history,
        )
        self.scheduled = ScheduledRuns(
            self.runner.calls, users=ConfiguredUsers(configuration), counts=self.runner.counts, timeout=0
        )

    async def _write(self, content: bytes) -> None:
        self.records += decode(content)

    async def run(self, attempt: int) -> None:
        run = ScheduledRun(schedule="nightly", due=datetime(2026, 11, 2, 9, tzinfo=UTC), attempt=attempt)
        await self.scheduled.run(integration.schedules["nightly"], run, STATIC)

    async def recorded(self, count: int) -> list[RunRecord]:
        writing = asyncio.create_task(self.history.run())
        await until(lambda: len(self.records) == count)
        writing.cancel()
        return self.records


Serve = Callable[[Pod], Awaitable[Client]]


@pytest.fixture
def pod(client: aiohttp.ClientSession, external: External) -> Pod:
    return Pod(client, external)


@pytest.fixture
def serve(aiohttp_client: AiohttpClient) -> Serve:
    async def start(pod: Pod) -> Client:
        return await aiohttp_client(webhook_application(integration.webhooks, pod.runner, max_body=1000))

    return start


async def test_webhooks_have_a_record_each_and_refused_requests_have_none(pod: Pod, serve: Serve) -> None:
    http = await serve(pod)
    answers = []
    for path, text in (("/orders", ""), ("/orders", "fail"), ("/orders", "502"), ("/orders", "wait")):
        async with http.post(path, data=text) as response:
            answers.append((response.headers[EXECUTION_ID_HEADER], response.status))
    async with http.post("/orders/users/ann", data="404") as response:
        answers.append((response.headers[EXECUTION_ID_HEADER], response.status))
    for method, path, status in (("GET", "/orders", 405), ("POST", "/orders/users/nobody", 404)):
        async with http.request(method, path) as response:
            assert response.status == status
    found = await pod.recorded(len(answers))
    assert [(one.id, one.status) for one in found] == [
        (run, "failed" if status >= 500 else "succeeded") for run, status in answers
    ]
    assert [one.error and one.error.message for one in found] == [
        None,
        "an order is no order",
        "The webhook answered with 502",
        "stopped after 0.2 seconds",
        None,
    ]
    assert {(one.kind, one.task, one.attempt, one.input, one.version) for one in found} == {
        ("webhook", "orders", 1, None, RUN_METADATA.version)
    }
    assert [one.user for one in found] == [None, None, None, None, "ann"]
    assert found[0].activation_id == "01STATIC"
    assert all(one.trace_id and one.started_at == one.queued_at for one in found)


async def test_background_work_has_records_in_the_trace_of_its_run(pod: Pod, serve: Serve) -> None:
    http = await serve(pod)
    async with http.post("/later/users/ann") as response:
        assert response.status < 300
    found = {one.task: one for one in await pod.recorded(3)}
    assert {(one.kind, one.task, one.status) for one in found.values()} == {
        ("webhook", "later", "succeeded"),
        ("background", "good", "succeeded"),
        ("background", "bad", "failed"),
    }
    assert len({one.trace_id for one in found.values()}) == 1
    assert len({one.id for one in found.values()}) == 3
    assert {one.user for one in found.values()} == {"ann"}
    assert found["bad"].error is not None
    assert found["bad"].error.type == "KeyError"


async def test_schedules_have_records_also_where_the_pod_stops_them(pod: Pod) -> None:
    await pod.run(1)
    await pod.run(2)
    stopped = asyncio.create_task(pod.run(3))
    await until(lambda: pod.runner.turns.active == 1)
    await asyncio.sleep(0)
    stopped.cancel()
    found = await pod.recorded(3)
    assert [(one.kind, one.task, one.status) for one in found] == [
        ("schedule", "nightly", "succeeded"),
        ("schedule", "nightly", "failed"),
        ("schedule", "nightly", "failed"),
    ]
    assert {one.activation_id for one in found} == {"01STATIC"}


async def test_inputs_are_kept_where_the_project_says_so(
    client: aiohttp.ClientSession, external: External, serve: Serve
) -> None:
    pod = Pod(client, external, keeps=True)
    http = await serve(pod)
    async with http.post("/orders?a=1", data="201"):
        pass
    await pod.run(1)
    webhook, schedule = await pod.recorded(2)
    assert webhook.input == b"201"
    assert webhook.request is not None
    assert (webhook.request.method, webhook.request.path) == ("POST", "/orders?a=1")
    assert schedule.input == b'{"due":"2026-11-02T09:00:00+00:00"}'


class Api:
    """Stands in for the endpoint of the API that takes reports."""

    def __init__(self) -> None:
        self.answers: list[int] = []
        self.taken: list[list[RunRecord]] = []
        self.tokens: set[str] = set()
        self.asked = 0

    async def take(self, request: web.Request) -> web.Response:
        self.asked += 1
        self.tokens.add(request.headers["Authorization"])
        status = self.answers.pop(0) if self.answers else 204
        if status == 204:
            self.taken.append(decode(await request.read()))
        return web.Response(status=status)


@pytest.fixture
async def api(tmp_path: Path, client: aiohttp.ClientSession) -> AsyncIterator[tuple[Api, EventServer]]:
    found, app = Api(), web.Application()
    app.router.add_post(PATH, found.take)
    (tmp_path / "token").write_text("of-the-pod\n")
    async with TestServer(app) as server:
        reports = RunReports(PodApi(client, str(server.make_url("")).rstrip("/"), tmp_path / "token"))
        events = EventServer(Tasks(), NoEvents(), reports=reports)
        events.connect()
        yield found, events
        await events.close()


async def test_records_go_to_the_api_in_batches_until_it_takes_them(api: tuple[Api, EventServer]) -> None:
    server, events = api
    server.answers = [503, 401, 429]
    runs = [record(status="succeeded", attempt=1, kind="webhook") for _ in range(700)]
    for one in runs:
        events.direct_history.add(one)
    await until(lambda: sum(map(len, server.taken)) == 700)
    assert [len(one) for one in server.taken] == [500, 200]
    assert [one.id for batch in server.taken for one in batch] == [one.id for one in runs]
    assert server.tokens == {"Bearer of-the-pod"}
    assert events.direct_history.dropped == 0


async def test_what_the_api_never_takes_is_counted_and_holds_up_nothing(api: tuple[Api, EventServer]) -> None:
    server, events = api
    server.answers = [400]
    events.direct_history.add(record(status="succeeded", attempt=1, kind="webhook"))
    await until(lambda: server.asked == 1)
    server.answers = [413]
    large = record(status="succeeded", attempt=1, kind="webhook", input=b"x" * 1000)
    events.direct_history.add(large)
    await until(lambda: server.taken)
    assert [(one.id, one.input) for one in server.taken[0]] == [(large.id, None)]
    _, dropped = events.gauges()["tieline_run_records_dropped_total"]
    assert dropped() == 1


async def test_what_is_left_is_sent_when_the_pod_stops(api: tuple[Api, EventServer]) -> None:
    server, events = api
    events.direct_history.add(record(status="succeeded", attempt=1, kind="webhook"))
    await events.close()
    assert [len(one) for one in server.taken] == [1]
