"""What was accepted runs to its end: pods as processes, with a real engine between them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import shutil
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import nats.js.errors
import pytest

from tests.faults.ha_platform import FAKETIME
from tests.harness.processes.event_pods import (
    LEASE,
    LIMITS,
    EventEnvironment,
    event_environment,
    running_environment,
)
from tests.harness.processes.nats_server import NatsServer, running_nats_server
from tests.harness.processes.running_runtime import RunningRuntime
from tests.harness.processes.tcp_relay import Relay
from tests.harness.session.waiting import eventually_async
from tieline_core.engine.publisher import publish_event
from tieline_core.engine.streams import ensure_history
from tieline_core.identity.ids import new_id
from tieline_protocol.events import HEADER, EventMetadata
from tieline_protocol.exit_codes import BLOCKED

CODE = """
import asyncio, json, os, time
from pathlib import Path
from tieline import Context, Event, Integration, Reject, Request, Retry, RetryLater, SyncContext

integration = Integration()
DONE = Path(os.environ["DONE"])
QUICK = Retry(attempts=4, first=0.2, longest=0.4)
PATIENT = Retry(attempts=20, first=0.2, longest=0.4)  # a pod that stands still can be given the next attempts, too


def write(text):
    with DONE.open("a") as file:
        file.write(f"{text}\\n")
        file.flush()


def failures(name):
    return len([line for line in (DONE.read_text() if DONE.exists() else "").splitlines() if line == f"failed {name}"])


def fail(name, times):
    if failures(name) < times:
        write(f"failed {name}")
        raise RuntimeError(f"{name} is away")


@integration.webhook("orders", delivery="queued", retry=QUICK)
async def orders(ctx: Context, request: Request) -> None:
    order = await request.json()
    fail(order["id"], order.get("failures", 0))
    write(f"order {order['id']} {request.path} {request.headers.get('X-Shop')} {ctx.activation.user.external_id}")
    await ctx.publish("booked", {"id": order["id"]})


@integration.webhook("plain-orders", delivery="queued", retry=QUICK)
def plain_orders(ctx: SyncContext, request) -> None:
    value = ctx.step("double", lambda: request.json()["number"] * 2)
    write(f"plain {value} {request.headers.get('Authorization')}")


@integration.webhook("publish")
async def publish(ctx: Context, request: Request) -> dict:
    content = await request.json()
    return {"run": await ctx.publish(content.pop("task"), content["payload"], **content.get("options", {}))}


@integration.event("booked", retry=QUICK)
def booked(ctx: SyncContext, event: Event) -> None:
    write(f"booked {event.payload['id']}")


@integration.event("ordered", key="customer", retry=QUICK)
async def ordered(ctx: Context, event: Event) -> None:
    fail(f"{event.payload['customer']}-{event.payload['number']}", event.payload.get("failures", 0))
    if seconds := event.payload.get("seconds"):
        write(f"begun {event.payload['customer']} {event.payload['number']}")
        await asyncio.sleep(seconds)
    write(f"{event.payload['customer']} {event.payload['number']}")


@integration.event("slow", retry=QUICK)
async def slow(ctx: Context, event: Event) -> None:
    write(f"begun {event.payload['id']} {event.attempt}")
    await asyncio.sleep(event.payload["seconds"])
    write(f"ended {event.payload['id']}")


@integration.event("poison", retry=Retry(attempts=10, first=0.1))
async def poison(ctx: Context, event: Event) -> None:
    write("poison")
    os.kill(os.getpid(), 9)


@integration.event("blocking", retry=Retry(attempts=10, first=0.1))
async def blocking(ctx: Context, event: Event) -> None:
    write("blocks")
    while True:
        pass


@integration.event("stubborn", retry=QUICK)
async def stubborn(ctx: Context, event: Event) -> None:
    if event.payload.get("reject"):
        raise Reject("an order needs an id")
    if later := event.payload.get("later"):
        if failures("later") < later:
            write("failed later")
            raise RetryLater(after=0.1)
        write(f"later {event.attempt}")
        return
    write("failed stubborn")
    raise ValueError("never")


@integration.event("napping", retry=QUICK)
@integration.event("napping-with-key", key="key", retry=QUICK)
async def napping(ctx: Context, event: Event) -> None:
    write("napping")
    await ctx.sleep("nap", event.payload["seconds"])


@integration.event("saga", retry=PATIENT, timeout=20)
async def saga(ctx: Context, event: Event) -> None:
    order = await ctx.step("fetch", lambda: write("fetched") or {"lines": (1, 2)})
    await ctx.sleep("cool off", 0.5)
    keys = []

    async def book(line):
        write(f"booked line {line}")
        keys.append(ctx.idempotency_key)
        return line

    for line in order["lines"]:
        await ctx.step("book", book, line)
    fail("saga", 1)
    write(f"saga {order['lines']} {len(set(keys))}")
"""


@pytest.fixture
async def environment(engine: NatsServer, tmp_path: Path) -> AsyncIterator[EventEnvironment]:
    async with running_environment(engine, tmp_path, CODE) as found:
        yield found


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


Publish = Callable[..., Awaitable[str]]


async def published(
    http: aiohttp.ClientSession, pod: RunningRuntime, task: str, payload: Any, **options: Any
) -> str:
    body = {"task": task, "payload": payload, "options": options}
    async with http.post(f"{pod.url}/publish", json=body) as response:
        assert response.status == 200, await response.text()
        run: str = (await response.json())["run"]
        return run


async def lines(environment: EventEnvironment, *wanted: str, within: float = 30.0) -> list[str]:
    """What the code has written, once all of ``wanted`` is among it."""

    async def all_there() -> list[str] | None:
        found = environment.lines()
        return found if all(found.count(one) >= wanted.count(one) for one in wanted) else None

    async def seen() -> object:
        logs = [pod.log.read_text()[-3000:] for pod in environment.pods]
        return environment.lines(), "\n".join(logs)

    return await eventually_async(f"written: {wanted}", all_there, within=within, seen=seen)


async def nothing_waits(environment: EventEnvironment) -> None:
    async def none() -> bool:
        return await environment.waits() == 0

    await eventually_async("nothing queued", none, within=10, seen=environment.waits)


async def status_of(environment: EventEnvironment, run: str, wanted: str) -> Any:
    async def ended() -> Any:
        found = await environment.run(run)
        return found if found and found.status == wanted else None

    async def seen() -> object:
        return await environment.run(run), environment.pods[0].log.read_text()[-3000:]

    return await eventually_async(f"run {run} {wanted}", ended, within=30, seen=seen)


async def step_recorded(environment: EventEnvironment, run: str, name: str) -> None:
    async def recorded() -> bool:
        subject = environment.streams.step(run, name, 1, place=1)
        try:
            await environment.admin.jetstream().get_last_msg(environment.streams.runs, subject)
        except nats.js.errors.NotFoundError:
            return False
        return True

    await eventually_async(f"step {name} recorded", recorded, within=10)


async def test_a_queued_webhook_is_answered_at_once_and_runs_until_it_succeeds(
    environment: EventEnvironment, http: aiohttp.ClientSession
) -> None:
    pod = environment.pod()
    order = {"id": "A-1", "failures": 2}
    headers = {"X-Shop": "berlin", "Authorization": "Bearer secret", "Webhook-Id": "evt-1"}
    async with http.post(f"{pod.url}/orders/users/ann?x=1", json=order, headers=headers) as response:
        assert response.status == 202
        run = (await response.json())["runId"]
        assert response.headers["X-Tieline-Execution-Id"] == run
    found = await lines(environment, "order A-1 /orders/users/ann berlin ann", "booked A-1")
    assert found.count("failed A-1") == 2
    record = await status_of(environment, run, "succeeded")
    assert (record.kind, record.task, record.attempt, record.user) == ("webhook", "orders", 3, "ann")
    assert json.loads(record.input) == order
    assert "Authorization" not in dict(record.request.headers)
    attempts = [one for one in await environment.history() if one.id == run and one.error]
    assert [one.error.message for one in attempts if one.error] == ["A-1 is away"] * 2
    async with http.post(f"{pod.url}/orders/users/ann?x=1", json=order, headers=headers) as response:
        assert (response.status, await response.json()) == (202, {"duplicate": True})
    await nothing_waits(environment)


async def test_a_queued_webhook_of_a_plain_function_has_steps_and_no_credentials(
    environment: EventEnvironment, http: aiohttp.ClientSession
) -> None:
    pod = environment.pod()
    headers = {"Authorization": "Bearer secret"}
    async with http.post(f"{pod.url}/plain-orders", json={"number": 21}, headers=headers) as response:
        assert response.status == 202
    await lines(environment, "plain 42 None")


async def test_a_request_is_refused_when_it_cannot_be_stored(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    (tmp_path / "engine").mkdir()
    with running_nats_server(tmp_path / "engine") as engine:
        admin = await engine.admin()
        environment = await event_environment(engine, admin, tmp_path, CODE)
        pod = environment.pod()
        async with http.post(f"{pod.url}/orders/users/ann", json={"id": "A-0"}) as response:
            assert response.status == 202
        await lines(environment, "booked A-0")
        engine.kill()
        async with http.post(f"{pod.url}/orders", json={"id": "A-1"}) as response:
            assert response.status == 503
            assert "Retry-After" in response.headers
            assert (await response.json())["code"] == "unavailable"
        engine.start()

        async def accepted() -> bool:
            async with http.post(f"{pod.url}/orders/users/ann", json={"id": "A-2"}) as response:
                return response.status == 202

        await eventually_async("accepted again", accepted, within=30)
        await lines(environment, "booked A-2")
        assert "booked A-1" not in environment.lines()
        environment.stop()
        await admin.close()


async def test_events_of_one_key_run_in_order_and_a_retry_holds_up_its_own_key_alone(
    environment: EventEnvironment, http: aiohttp.ClientSession
) -> None:
    pods = [environment.pod(), environment.pod()]
    await published(http, pods[0], "ordered", {"customer": "slow", "number": 0, "failures": 3})
    for number in range(1, 5):
        for customer in ("slow", "ben", "eve"):
            await published(http, pods[number % 2], "ordered", {"customer": customer, "number": number})
    wanted = [f"{customer} {number}" for customer in ("slow", "ben", "eve") for number in range(1, 5)]
    found = await lines(environment, *wanted, "slow 0")
    for customer in ("slow", "ben", "eve"):
        numbers = [line for line in found if line.startswith(f"{customer} ")]
        assert numbers == sorted(numbers)
    assert found.index("ben 4") < found.index("slow 0")
    await nothing_waits(environment)


async def test_a_pod_that_is_killed_loses_nothing(
    environment: EventEnvironment, http: aiohttp.ClientSession
) -> None:
    first = environment.pod()
    run = await published(http, first, "slow", {"id": "A", "seconds": 1})
    await published(http, first, "ordered", {"customer": "ann", "number": 1, "seconds": 1})
    await published(http, first, "ordered", {"customer": "ann", "number": 2})
    await lines(environment, "begun A 1", "begun ann 1")
    first.signal(signal.SIGKILL)
    environment.pod()
    found = await lines(environment, "ended A", "ann 1", "ann 2")
    assert found.count("begun A 2") == 1
    assert found.index("ann 1") < found.index("ann 2")
    assert (await status_of(environment, run, "succeeded")).attempt == 2


async def test_a_pod_that_is_told_to_stop_hands_its_events_on_and_no_attempt_is_counted(
    environment: EventEnvironment, http: aiohttp.ClientSession
) -> None:
    first = environment.pod(TIELINE_GRACE_SECONDS="1")
    run = await published(http, first, "slow", {"id": "A", "seconds": 3})
    await published(http, first, "ordered", {"customer": "ann", "number": 1, "seconds": 3})
    await lines(environment, "begun A 1", "begun ann 1")
    stopping = asyncio.create_task(asyncio.to_thread(first.stop))
    await asyncio.to_thread(environment.pod, version="v2")
    await stopping
    await lines(environment, "ended A", "ann 1")
    record = await status_of(environment, run, "succeeded")
    assert (record.attempt, record.version) == (1, "v2")
    assert environment.lines().count("begun A 1") == 2


async def test_a_paused_pod_does_not_run_its_events_beside_the_one_that_took_them_over(
    environment: EventEnvironment, http: aiohttp.ClientSession
) -> None:
    first = environment.pod()
    run = await published(http, first, "saga", {})
    await step_recorded(environment, run, "fetch")
    first.signal(signal.SIGSTOP)
    second = environment.pod()
    found = await lines(environment, "saga [1, 2] 0", within=60)
    first.signal(signal.SIGCONT)
    await published(http, second, "booked", {"id": "last"})
    await lines(environment, "booked last")
    await asyncio.sleep(1)
    assert environment.lines().count("fetched") == 1
    assert [environment.lines().count(f"booked line {line}") for line in (1, 2)] == [1, 1]
    assert found.count("saga [1, 2] 0") == environment.lines().count("saga [1, 2] 0")


async def test_an_event_that_kills_its_pods_becomes_a_dead_letter(
    environment: EventEnvironment, http: aiohttp.ClientSession
) -> None:
    run = await published(http, environment.pod(), "poison", {})
    for number in range(1, 4):
        await lines(environment, *["poison"] * number)
        with contextlib.suppress(AssertionError):  # it may die before it is seen to be ready
            environment.pod()
    record = await status_of(environment, run, "dead")
    assert record.error.type.endswith("PodDiedError")
    assert environment.lines().count("poison") == 3
    await nothing_waits(environment)


async def test_a_run_that_blocks_its_pods_shows_its_attempts_meanwhile(
    environment: EventEnvironment, http: aiohttp.ClientSession
) -> None:
    first = environment.pod(TIELINE_BLOCKED_SECONDS="0.5")
    run = await published(http, first, "blocking", {})
    assert await asyncio.to_thread(first.wait) == BLOCKED
    assert "Event blocking blocked the event loop" in (first.folder / "termination").read_text()
    second = environment.pod(ready=False, TIELINE_BLOCKED_SECONDS="0.5")
    assert await asyncio.to_thread(second.wait) == BLOCKED
    records = [one for one in await environment.history() if one.id == run]
    assert {(one.attempt, one.status) for one in records} >= {(1, "waiting"), (2, "running")}
    ended = next(one for one in records if one.status == "waiting")
    assert ended.error
    line = re.compile(r"Event blocking blocked the event loop for 0\.5 seconds at main\.py:\d+ in blocking")
    assert line.match(ended.error.message)
    third = environment.pod(ready=False, TIELINE_BLOCKED_SECONDS="0.5")
    assert await asyncio.to_thread(third.wait) == BLOCKED
    environment.pod()
    dead = await status_of(environment, run, "dead")
    assert dead.attempt == 3, "the one that is not begun is no attempt"
    assert line.match(dead.error.message.removeprefix("3 pods died while running it. The last one: "))


async def test_a_pod_whose_port_is_taken_ends_and_says_so(environment: EventEnvironment) -> None:
    serving = environment.pod()
    taken = environment.pod(ready=False, TIELINE_HEALTH_PORT=str(serving.health_port))
    assert await asyncio.to_thread(taken.wait) == 1
    assert f"Port {serving.health_port} cannot be listened on" in taken.log.read_text()


async def test_events_that_run_beside_one_that_kills_its_pods_survive_it(
    environment: EventEnvironment, http: aiohttp.ClientSession
) -> None:
    pod = environment.pod()
    for number in range(4):
        await published(http, pod, "slow", {"id": f"beside {number}", "seconds": 1})
    run = await published(http, pod, "poison", {})
    for number in range(1, 4):
        await lines(environment, *["poison"] * number)
        with contextlib.suppress(AssertionError):  # it may die before it is seen to be ready
            environment.pod()
    await status_of(environment, run, "dead")
    await lines(environment, *(f"ended beside {number}" for number in range(4)))
    assert {record.id for record in await environment.history() if record.status == "dead"} == {run}
    await nothing_waits(environment)


@pytest.mark.parametrize(
    ("payload", "error", "attempt"),
    [({"reject": True}, "an order needs an id", 1), ({}, "never", 4)],
    ids=["rejected", "its last attempt failed"],
)
async def test_what_cannot_succeed_is_a_dead_letter_with_its_reason(
    environment: EventEnvironment, http: aiohttp.ClientSession, payload: Any, error: str, attempt: int
) -> None:
    run = await published(http, environment.pod(), "stubborn", payload)
    record = await status_of(environment, run, "dead")
    assert (record.error.message, record.attempt) == (error, attempt)
    jetstream = environment.admin.jetstream()
    letter = await jetstream.get_last_msg(environment.streams.dead_letters, environment.streams.dead(run))
    assert json.loads(letter.data or b"") == payload
    await nothing_waits(environment)


async def test_a_retry_that_code_asks_for_counts_no_attempt(
    environment: EventEnvironment, http: aiohttp.ClientSession
) -> None:
    await published(http, environment.pod(), "stubborn", {"later": 6})
    await lines(environment, "later 1")


async def test_steps_are_done_once_and_a_run_that_sleeps_goes_on(
    environment: EventEnvironment, http: aiohttp.ClientSession
) -> None:
    run = await published(http, environment.pod(), "saga", {})
    found = await lines(environment, "saga [1, 2] 0")
    assert [found.count(line) for line in ("fetched", "booked line 1", "booked line 2")] == [1, 1, 1]
    record = await status_of(environment, run, "succeeded")
    assert [(step.name, step.occurrence, step.recorded) for step in record.steps] == [
        ("fetch", 1, True), ("sleep: cool off", 1, True), ("book", 1, True), ("book", 2, True),
    ]  # fmt: skip
    assert record.attempt == 2

    async def forgotten() -> bool:
        jetstream = environment.admin.jetstream()
        try:
            await jetstream.get_last_msg(
                environment.streams.runs, environment.streams.step(run, "fetch", 1, place=1)
            )
        except nats.js.errors.NotFoundError:
            return True
        return False

    await eventually_async("steps forgotten", forgotten, within=10)


async def test_a_delayed_event_comes_when_its_time_has_come_and_an_id_is_stored_once(
    environment: EventEnvironment, http: aiohttp.ClientSession
) -> None:
    pod = environment.pod()
    await published(http, pod, "booked", {"id": "later"}, delay=1.5)
    await published(http, pod, "ordered", {"customer": "ann", "number": 1}, delay=1.5)
    for _ in range(3):
        await published(http, pod, "booked", {"id": "once"}, id="same")
    await published(http, pod, "booked", {"id": "now"})
    found = await lines(environment, "booked later", "ann 1")
    assert found.index("booked now") < found.index("booked later")
    assert found.count("booked once") == 1


async def test_a_run_that_somebody_cancels_ends_and_its_key_goes_on(
    environment: EventEnvironment, http: aiohttp.ClientSession
) -> None:
    pod = environment.pod()
    run = await published(http, pod, "ordered", {"customer": "ann", "number": 1, "seconds": 30})
    await published(http, pod, "ordered", {"customer": "ann", "number": 2})
    await lines(environment, "begun ann 1")
    await environment.admin.publish(environment.streams.control, json.dumps({"run": run}).encode())
    await lines(environment, "ann 2")
    await status_of(environment, run, "cancelled")


@pytest.mark.parametrize("task", ["slow", "ordered"])
async def test_a_run_whose_pod_dies_before_it_hears_that_the_run_is_cancelled_is_not_tried_again(
    environment: EventEnvironment, http: aiohttp.ClientSession, task: str
) -> None:
    first, streams = environment.pod(), environment.streams
    payload = {"id": "A", "customer": "ann", "number": 1, "seconds": 30}
    run = await published(http, first, task, payload)
    begun = "begun A 1" if task == "slow" else "begun ann 1"
    await lines(environment, begun)
    first.signal(signal.SIGSTOP)
    await environment.admin.jetstream().publish(streams.cancelled(run), stream=streams.runs)
    first.signal(signal.SIGKILL)
    second = environment.pod()
    await published(http, second, "ordered", {"customer": "ann", "number": 2})
    await lines(environment, "ann 2")
    await status_of(environment, run, "cancelled")
    await environment.until_nothing_waits()
    assert environment.lines() == [begun, "ann 2"]


async def test_keys_whose_token_got_lost_are_found(
    environment: EventEnvironment, http: aiohttp.ClientSession
) -> None:
    first = environment.pod()
    await published(http, first, "ordered", {"customer": "ann", "number": 1, "seconds": 1})
    await published(http, first, "ordered", {"customer": "ann", "number": 2})
    await lines(environment, "begun ann 1")
    first.signal(signal.SIGKILL)
    # As if the pod had died between the end of its token and the next one.
    jetstream = environment.admin.jetstream()
    await jetstream.purge_stream(environment.streams.queue, subject=environment.streams.queue_subjects[0])
    environment.pod()
    await lines(environment, "ann 1", "ann 2")


async def test_a_pod_whose_credentials_expire_goes_on_with_those_that_it_got_meanwhile(
    environment: EventEnvironment, http: aiohttp.ClientSession
) -> None:
    # As long as a pod may take to start.
    pod = environment.pod(valid=timedelta(seconds=20))
    await published(http, pod, "booked", {"id": "before"})
    await lines(environment, "booked before")

    async def refused() -> bool:
        return "Expired" in pod.log.read_text() or "Violation" in pod.log.read_text()

    await eventually_async("credentials refused", refused, within=60)
    environment.renew_credentials(pod)

    async def accepted() -> bool:
        body = {"task": "booked", "payload": {"id": "after"}}
        async with http.post(f"{pod.url}/publish", json=body) as response:
            return response.status == 200

    await eventually_async("published again", accepted, within=60)
    await lines(environment, "booked after")
    run = await published(http, pod, "ordered", {"customer": "ann", "number": 1, "seconds": 30})
    await lines(environment, "begun ann 1")
    await environment.admin.publish(environment.streams.control, json.dumps({"run": run}).encode())
    await status_of(environment, run, "cancelled")


async def test_an_event_that_came_without_its_key_by_rest_runs_behind_its_key(
    environment: EventEnvironment, http: aiohttp.ClientSession
) -> None:
    pod = environment.pod()
    await published(http, pod, "ordered", {"customer": "ann", "number": 1, "seconds": 1})
    await lines(environment, "begun ann 1")
    metadata = EventMetadata(
        run=new_id(), kind="event", task="ordered", queued_at=time.time(), event_id="e-1"
    )
    payload = json.dumps({"customer": "ann", "number": 2}).encode()
    await publish_event(environment.admin.jetstream(), environment.streams, metadata, payload, seconds=5)
    found = await lines(environment, "ann 1", "ann 2")
    assert found.index("ann 1") < found.index("ann 2")

    async def queued_record() -> Any:
        records = [one for one in await environment.history() if one.id == metadata.run]
        return next((one for one in records if one.status == "queued"), None)

    queued = await eventually_async("it says behind which key it is queued", queued_record)
    assert (queued.key, queued.attempt, queued.attempts) == ("ann", 0, 4)


@pytest.mark.skipif(not FAKETIME.exists(), reason="needs libfaketime")
@pytest.mark.parametrize("task", ["napping", "napping-with-key"])
async def test_a_pod_whose_clock_is_behind_does_not_run_what_waits_over_and_over(
    environment: EventEnvironment, http: aiohttp.ClientSession, task: str
) -> None:
    wrong = {"LD_PRELOAD": str(FAKETIME), "FAKETIME": "-120", "DONT_FAKE_MONOTONIC": "1"}
    run = await published(http, environment.pod(**wrong), task, {"key": "ann", "seconds": 4})
    await status_of(environment, run, "succeeded")
    assert 2 <= environment.lines().count("napping") <= 4
    await nothing_waits(environment)


async def test_a_message_that_was_on_its_way_for_too_long_is_not_run_beside_the_one_that_has_it(
    environment: EventEnvironment, http: aiohttp.ClientSession
) -> None:
    relay = Relay(environment.engine.port)
    first = environment.pod(TIELINE_ENGINE_URL=f"nats://127.0.0.1:{relay.port}")
    await published(http, first, "booked", {"id": "it works"})
    await lines(environment, "booked it works")
    relay.hold()
    metadata = EventMetadata(run=new_id(), kind="event", task="slow", queued_at=time.time())
    jetstream = environment.admin.jetstream()
    subject = environment.streams.event("slow", metadata.run)
    await jetstream.publish(subject, b'{"id": "A", "seconds": 3}', headers={HEADER: metadata.header()})
    await asyncio.sleep(LEASE.total_seconds() * 1.2)
    environment.pod()

    async def begun() -> list[str]:
        return [line for line in environment.lines() if line.startswith("begun")]

    await eventually_async("begun", begun, within=30)
    relay.release()
    await lines(environment, "ended A")
    assert len(await begun()) == 1
    await nothing_waits(environment)


async def test_pods_go_on_with_the_new_streams_when_the_volume_of_the_engine_is_lost(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    (tmp_path / "engine").mkdir()
    with running_nats_server(tmp_path / "engine") as engine:
        admin = await engine.admin()
        environment = await event_environment(engine, admin, tmp_path, CODE)
        pod = environment.pod()
        await published(http, pod, "slow", {"id": "A", "seconds": 6})
        await published(http, pod, "booked", {"id": "lost"}, delay=30)
        await lines(environment, "begun A 1")
        engine.kill()
        shutil.rmtree(tmp_path / "engine" / "data")
        engine.start()
        # As the operator does it.
        operator = await engine.admin()
        await engine.make_environment(environment.streams, LIMITS)
        await ensure_history(operator.jetstream(), environment.streams.organisation, LIMITS)
        await operator.close()
        # The test's client does not come back by itself, as pods do: it was refused until there was the account.
        await environment.admin.close()
        environment.admin = await engine.environment(environment.streams)

        async def accepted() -> bool:
            body = {"task": "slow", "payload": {"id": "B", "seconds": 10}}
            async with http.post(f"{pod.url}/publish", json=body) as response:
                return response.status == 200

        await eventually_async("published again", accepted, within=60)
        await published(http, pod, "ordered", {"customer": "ann", "number": 1})
        await lines(environment, "begun B 1", "ann 1", "ended A")
        # What A ends with has nothing to do with B, which has its number in the new stream.
        await asyncio.sleep(1)
        assert await environment.waits() == 1
        await lines(environment, "ended B")
        await nothing_waits(environment)
        assert "booked lost" not in environment.lines()
        environment.stop()
        await environment.admin.close()
        await admin.close()
