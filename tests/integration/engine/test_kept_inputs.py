"""With ``settings.keepInputs`` direct webhooks and schedules are in the run history, and run again from there."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.harness.processes.event_pods import EventEnvironment, event_environment, running_environment
from tests.harness.processes.nats_server import NatsServer, running_nats_server
from tests.harness.session.waiting import eventually_async
from tieline_core.engine.publisher import publish_event
from tieline_core.identity.ids import new_id
from tieline_protocol.event_streams import history_stream
from tieline_protocol.events import EventMetadata
from tieline_protocol.run_records import RunRecord

CODE = """
import asyncio, os
from pathlib import Path
from aiohttp import web
from tieline import Context, Integration, Request, ScheduledRun, SyncContext, SyncRequest

integration = Integration()
DONE = Path(os.environ["DONE"])


def write(text):
    with DONE.open("a") as file:
        file.write(f"{text}\\n")
        file.flush()


@integration.webhook("orders", connection="shop", methods=["POST", "PUT"])
async def orders(ctx: Context, request: Request) -> dict:
    body = await request.content.read()
    user = ctx.activation.user.external_id if ctx.activation.user else None
    write(f"{request.method} {request.path_qs} {request.headers.get('X-Shop')} {user} {len(body)} {body[:40]!r}")
    if body == b"fail":
        raise ValueError("an order is no secret-key")
    if body == b"502":
        return web.Response(status=502)
    return {"bytes": len(body)}


@integration.webhook("plain")
def plain(ctx: SyncContext, request: SyncRequest) -> None:
    write(f"plain {request.json()}")


@integration.webhook("stream")
async def stream(ctx: Context, request: Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    for number in range(3):
        await response.write(f"{number}\\n".encode())
    await response.write_eof()
    write("streamed")
    return response


@integration.webhook("die")
async def die(ctx: Context) -> None:
    write("die")
    os.kill(os.getpid(), 9)


@integration.schedule("nightly", os.environ.get("TIMES", "0 0 1 1 *"), timezone="Europe/Berlin")
async def nightly(ctx: Context, run: ScheduledRun) -> None:
    write(f"nightly {run.due.isoformat()} {run.attempt}")
    if os.environ.get("FAILS"):
        raise ValueError("no stock")
"""
USERS = "users:\n  ann: {user: {externalId: ann, displayName: Ann}}\n"
CONNECTION = """
connections:
  shop:
    baseUrl: http://127.0.0.1:1
    credentials:
      - type: string
        authScheme: {type: api-key, apiKey: {name: X-API-Key, in: header}}
        data: {value: secret-key}
"""
KEY = {"X-API-Key": "secret-key"}


@pytest.fixture
async def environment(engine: NatsServer, tmp_path: Path) -> AsyncIterator[EventEnvironment]:
    async with running_environment(engine, tmp_path, CODE) as found:
        found.connections = f"{CONNECTION}settings: {{keepInputs: true}}\n{USERS}"
        yield found


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def lines(environment: EventEnvironment, count: int) -> list[str]:
    async def there() -> list[str] | None:
        return found if len(found := environment.lines()) >= count else None

    async def seen() -> object:
        return environment.lines(), environment.pods[-1].log.read_text()[-3000:]

    return await eventually_async(f"{count} lines", there, within=30, seen=seen)


async def recorded(environment: EventEnvironment, run: str) -> RunRecord:
    async def there() -> RunRecord | None:
        found = await environment.run(run)
        return found if found and found.status in ("succeeded", "failed", "dead") else None

    async def seen() -> object:
        return await environment.history(), environment.pods[-1].log.read_text()[-3000:]

    return await eventually_async(f"a record of {run}", there, within=30, seen=seen)


async def replay(environment: EventEnvironment, record: RunRecord, payload: bytes | None = None) -> str:
    """What the API does."""
    metadata = EventMetadata(
        run=new_id(),
        kind=record.kind,
        task=record.task,
        queued_at=time.time(),
        user=record.user,
        replay_of=record.id,
        request=record.request,
    )
    content = (record.input or b"") if payload is None else payload
    await publish_event(environment.admin.jetstream(), environment.streams, metadata, content, seconds=5)
    return metadata.run


async def call(
    http: aiohttp.ClientSession, url: str, body: Any = b"", *, method: str = "POST", **headers: str
) -> tuple[str, int]:
    """The execution and the status."""
    async with http.request(method, url, data=body, headers={**KEY, **headers}) as response:
        await response.read()
        return response.headers["X-Tieline-Execution-Id"], response.status


async def test_a_direct_webhook_s_run_is_kept_with_its_request_and_runs_again_as_it_came(
    environment: EventEnvironment, http: aiohttp.ClientSession
) -> None:
    pod = environment.pod()
    headers = {"X-Shop": "berlin", "Authorization": "Bearer other", "Content-Type": "application/json"}
    run, status = await call(
        http, f"{pod.url}/orders/users/ann?x=1", b'{"pin": "secret-key"}', method="PUT", **headers
    )
    assert status == 200
    record = await recorded(environment, run)
    assert (record.kind, record.task, record.status, record.user) == ("webhook", "orders", "succeeded", "ann")
    assert (record.attempt, record.attempts, record.version) == (1, 1, "v1")
    assert record.started_at is not None
    assert record.ended_at is not None
    assert time.time() - 60 < record.queued_at <= record.started_at <= record.ended_at
    assert len(record.trace_id) == 32
    assert json.loads(record.input or b"") == {"pin": "***"}
    assert record.request is not None
    kept = dict(record.request.headers)
    assert (record.request.method, record.request.path) == ("PUT", "/orders/users/ann?x=1")
    assert (kept["X-Shop"], kept["X-API-Key"], "Authorization" in kept) == ("berlin", "***", False)

    again = await recorded(environment, await replay(environment, record))
    assert (again.status, again.replay_of, again.user, again.attempts) == ("succeeded", run, "ann", 1)
    first, second = await lines(environment, 2)
    assert first.split()[:4] == second.split()[:4] == ["PUT", "/orders/users/ann?x=1", "berlin", "ann"]
    assert "***" in second


async def test_a_failed_direct_webhook_is_kept_with_its_error_and_a_replay_fails_once_or_is_mended(
    environment: EventEnvironment, http: aiohttp.ClientSession
) -> None:
    pod = environment.pod()
    run, status = await call(http, f"{pod.url}/orders", b"fail")
    assert status == 500
    record = await recorded(environment, run)
    assert (record.status, record.input, record.user) == ("failed", b"fail", None)
    assert record.error is not None
    assert (record.error.type, record.error.message) == ("ValueError", "an order is no ***")
    again = await recorded(environment, await replay(environment, record))
    assert (again.status, again.attempt) == ("dead", 1)
    mended = await recorded(environment, await replay(environment, record, b"good"))
    assert mended.status == "succeeded"
    assert len(await lines(environment, 3)) == 3

    run, status = await call(http, f"{pod.url}/orders", b"502")
    assert (status, (await recorded(environment, run)).status) == (502, "failed")


async def test_a_request_that_was_not_admitted_is_not_kept(
    environment: EventEnvironment, http: aiohttp.ClientSession
) -> None:
    pod = environment.pod()
    refused, status = await call(http, f"{pod.url}/orders", b"{}", **{"X-API-Key": "wrong"})
    assert status == 401
    nobody, status = await call(http, f"{pod.url}/orders/users/nobody", b"{}")
    assert status == 404
    run, _ = await call(http, f"{pod.url}/orders", b"{}")
    await recorded(environment, run)
    assert {record.id for record in await environment.history()} == {run}
    assert not {refused, nobody} & {run}


async def test_inputs_of_more_than_a_mebibyte_are_left_out_and_the_code_reads_them_all_the_same(
    environment: EventEnvironment, http: aiohttp.ClientSession
) -> None:
    pod = environment.pod()
    large = b"a" * (1024 * 1024 + 1)
    run, status = await call(http, f"{pod.url}/orders", large)
    assert status == 200
    record = await recorded(environment, run)
    assert (record.input, record.request) == (None, None)

    async def in_parts() -> AsyncIterator[bytes]:
        yield large[: len(large) // 2]
        yield large[len(large) // 2 :]

    run, status = await call(http, f"{pod.url}/orders", in_parts())
    assert (status, (await recorded(environment, run)).input) == (200, None)
    run, status = await call(http, f"{pod.url}/orders", large[:-1])
    assert (await recorded(environment, run)).input == large[:-1]
    assert [line.split()[4] for line in await lines(environment, 3)] == ["1048577", "1048577", "1048576"]


async def test_a_plain_function_reads_the_request_that_is_run_again(
    environment: EventEnvironment, http: aiohttp.ClientSession
) -> None:
    pod = environment.pod()
    run, _ = await call(http, f"{pod.url}/plain", b'{"a": 1}')
    await replay(environment, await recorded(environment, run))
    assert await lines(environment, 2) == ["plain {'a': 1}"] * 2


async def test_a_webhook_that_sends_its_answer_in_parts_is_run_again_with_nobody_to_read_it(
    environment: EventEnvironment, http: aiohttp.ClientSession
) -> None:
    pod = environment.pod()
    async with http.post(f"{pod.url}/stream", data=b"{}") as response:
        assert await response.text() == "0\n1\n2\n"

    async def reported() -> RunRecord | None:
        return found[0] if (found := await environment.history()) else None

    record = await eventually_async("its record", reported, within=30)
    assert (record.task, record.status) == ("stream", "succeeded")
    again = await recorded(environment, await replay(environment, record))
    assert again.status == "succeeded"
    assert environment.lines() == ["streamed"] * 2


async def test_a_replay_of_a_direct_webhook_that_kills_its_pod_is_not_tried_again(
    environment: EventEnvironment,
) -> None:
    environment.pod()
    record = RunRecord(
        id=new_id(), kind="webhook", task="die", status="failed", attempt=1, queued_at=1, at=1, input=b""
    )
    run = await replay(environment, record)
    await lines(environment, 1)
    environment.pod()
    died = await recorded(environment, run)
    assert died.status == "dead"
    assert died.error is not None
    assert died.error.type.endswith("PodDiedError")
    assert environment.lines() == ["die"]


async def test_a_schedule_s_run_is_kept_and_runs_again_for_its_due_time(
    environment: EventEnvironment,
) -> None:
    first = environment.pod(TIMES="* * * * * *", FAILS="1")
    due = (await lines(environment, 1))[0].split()[1]
    first.stop()
    record = next(
        one
        for one in await environment.history()
        if one.input == json.dumps({"due": due}, separators=(",", ":")).encode()
    )
    assert (record.kind, record.task, record.status, record.user) == ("schedule", "nightly", "failed", None)
    assert record.error is not None
    assert record.error.message == "no stock"
    before = len(environment.lines())
    environment.pod()
    again = await recorded(environment, await replay(environment, record))
    assert (again.kind, again.status, again.replay_of) == ("schedule", "succeeded", record.id)
    assert (await lines(environment, before + 1))[before:] == [f"nightly {due} 1"]
    wrong = await recorded(environment, await replay(environment, record, b'{"due": "tomorrow"}'))
    assert wrong.status == "dead"
    assert wrong.error is not None
    assert "The input of a schedule is" in wrong.error.message


async def test_without_the_setting_nothing_is_sent_to_the_engine(
    environment: EventEnvironment, http: aiohttp.ClientSession
) -> None:
    environment.connections = f"{CONNECTION}{USERS}"
    pod = environment.pod(TIMES="* * * * * *")
    for body in (b"good", b"fail"):
        await call(http, f"{pod.url}/orders", body)
    await lines(environment, 4)
    # The pod tries for seconds to write the records of its runs.
    await asyncio.to_thread(pod.stop)
    jetstream = environment.admin.jetstream()
    found = [await jetstream.stream_info(name) for name in environment.streams.names]
    history = history_stream(environment.streams.organisation)
    found.append(await environment.platform.jetstream().stream_info(history))
    assert [one.state.last_seq + 1 - (one.config.first_seq or 1) for one in found] == [0] * 5


async def test_answers_do_not_wait_for_an_engine_that_is_away(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    (tmp_path / "engine").mkdir()
    with running_nats_server(tmp_path / "engine") as engine:
        admin = await engine.admin()
        environment = await event_environment(engine, admin, tmp_path, CODE)
        environment.connections = f"{CONNECTION}settings: {{keepInputs: true}}\n{USERS}"
        pod = environment.pod()
        first, _ = await call(http, f"{pod.url}/orders", b"first")
        await recorded(environment, first)
        engine.kill()
        # Each would wait for seconds, if it did.
        async with asyncio.timeout(20):
            runs = [(await call(http, f"{pod.url}/orders", b"good"))[0] for _ in range(20)]
        engine.start()
        for run in runs:
            await recorded(environment, run)
        environment.stop()
        await admin.close()
