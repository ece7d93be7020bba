"""What the engine refuses to store: nothing that was accepted is lost, run over and over, or in the way of others."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import nats.js.errors
import pytest
from nats.aio.client import Client

from tests.harness.processes.event_pods import LEASE, EventEnvironment, event_environment, running_environment
from tests.harness.processes.nats_server import NatsServer, running_nats_server
from tests.harness.processes.running_runtime import RunningRuntime
from tests.harness.session.waiting import eventually_async
from tieline_core.engine.publisher import publish_event
from tieline_core.engine.streams import StreamLimits
from tieline_core.identity.ids import new_id
from tieline_protocol.events import HEADER, EventMetadata, WebhookRequest

LATER_BYTES = 200_000
LIMITS = StreamLimits(
    queue_bytes=1 << 20,
    later_bytes=LATER_BYTES,
    runs_bytes=1 << 20,
    dead_letters_bytes=3000,
    history_bytes=1 << 26,
    lease=LEASE,
)
CODE = """
import asyncio, os
from pathlib import Path
from tieline import Context, Event, Integration, Reject, Request, Retry

integration = Integration()
DONE = Path(os.environ["DONE"])
QUICK = Retry(attempts=4, first=0.2, longest=0.4)


def write(text):
    with DONE.open("a") as file:
        file.write(f"{text}\\n")
        file.flush()


@integration.webhook("publish")
async def publish(ctx: Context, request: Request) -> dict:
    content = await request.json()
    try:
        return {"run": await ctx.publish(content.pop("task"), content["payload"], **content.get("options", {}))}
    except Exception as error:
        return {"error": type(error).__name__, "message": str(error)}


@integration.webhook("hello")
async def hello(ctx: Context, request: Request) -> dict:
    return {}


@integration.webhook("orders", delivery="queued", retry=QUICK)
async def orders(ctx: Context, request: Request) -> None:
    order = await request.json()
    write(f"order {order['id']} {len(request.headers.get('X-Long', ''))}")
    if order.get("reject"):
        raise Reject("\\N{GRINNING FACE}" * 1000)
    if order.get("fails") and DONE.read_text().count(f"order {order['id']} ") < 2:
        raise RuntimeError("away")


@integration.event("stepped", retry=QUICK)
async def stepped(ctx: Context, event: Event) -> None:
    await ctx.step("book", lambda: 1)
    write("booked")
    await asyncio.sleep(2)
    write("done stepped")


@integration.event("task", retry=QUICK)
@integration.event("keyed", key="key", retry=QUICK)
async def task(ctx: Context, event: Event) -> None:
    name = event.payload["id"]
    write(f"begun {name} {event.attempt}")
    await asyncio.sleep(event.payload.get("seconds", 0))
    if event.payload.get("reject"):
        raise Reject("nobody wants it")
    if event.attempt <= event.payload.get("failures", 0):
        raise RuntimeError("away")
    write(f"done {name}")
"""


@pytest.fixture
async def environment(engine: NatsServer, tmp_path: Path) -> AsyncIterator[EventEnvironment]:
    async with running_environment(engine, tmp_path, CODE, limits=LIMITS) as found:
        yield found


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def asked(
    http: aiohttp.ClientSession, pod: RunningRuntime, task: str, payload: Any, **options: Any
) -> dict[str, Any]:
    body = {"task": task, "payload": payload, "options": options}
    async with http.post(f"{pod.url}/publish", json=body) as response:
        assert response.status == 200, await response.text()
        answer: dict[str, Any] = await response.json()
        return answer


async def published(
    http: aiohttp.ClientSession, pod: RunningRuntime, task: str, payload: Any, **options: Any
) -> str:
    answer = await asked(http, pod, task, payload, **options)
    assert answer.get("run"), answer
    return str(answer["run"])


async def written(environment: EventEnvironment, *wanted: str, within: float = 30.0) -> None:
    async def all_there() -> bool:
        found = environment.lines()
        return all(one in found for one in wanted)

    async def seen() -> object:
        return environment.lines(), "\n".join(pod.log.read_text()[-3000:] for pod in environment.pods)

    await eventually_async(f"written: {wanted}", all_there, within=within, seen=seen)


async def statuses(environment: EventEnvironment, runs: list[str], wanted: str, within: float = 40.0) -> None:
    async def all_of_them() -> bool:
        found = [await environment.run(run) for run in runs]
        return all(one is not None and one.status == wanted for one in found)

    async def seen() -> object:
        found = [await environment.run(run) for run in runs]
        return [one and one.status for one in found], environment.pods[0].log.read_text()[-3000:]

    await eventually_async(f"runs {wanted}", all_of_them, within=within, seen=seen)


async def letters(environment: EventEnvironment) -> int:
    info = await environment.admin.jetstream().stream_info(environment.streams.dead_letters)
    return int(info.state.messages)


async def test_new_events_are_refused_while_too_much_waits_and_accepted_ones_go_on(
    environment: EventEnvironment, http: aiohttp.ClientSession
) -> None:
    first = environment.pod()
    await published(http, first, "task", {"id": "retried", "failures": 3, "seconds": 1})
    await published(http, first, "task", {"id": "large", "filler": "x" * LATER_BYTES}, delay=300)
    # A pod knows the bound from ten seconds ago; one that begins asks at once.
    second = environment.pod()
    for options in ({}, {"delay": 1}):
        answer = await asked(http, second, "task", {"id": "refused"}, **options)
        assert answer.get("error") == "QueueFullError", answer
        assert f"may have {LATER_BYTES:,}" in answer["message"]
    async with http.post(f"{second.url}/orders", json={"id": "refused"}) as response:
        assert response.status == 503
        assert "Retry-After" in response.headers
    await written(environment, "done retried")
    jetstream = environment.admin.jetstream()
    await jetstream.purge_stream(environment.streams.later)

    async def accepted() -> bool:
        return "run" in await asked(http, second, "task", {"id": "accepted"})

    await eventually_async("accepted again", accepted, within=30)
    await written(environment, "done accepted")


async def test_events_wait_for_room_among_the_dead_letters_and_hold_up_nobody(
    environment: EventEnvironment, http: aiohttp.ClientSession
) -> None:
    pod = environment.pod()
    filler = "x" * 600
    runs = [
        await published(http, pod, "task", {"id": f"bad {number}", "reject": True, "filler": filler})
        for number in range(6)
    ]
    keyed = await published(
        http, pod, "keyed", {"id": "bad key", "key": "ann", "reject": True, "filler": filler}
    )
    await published(http, pod, "keyed", {"id": "behind", "key": "ann"})
    await published(http, pod, "task", {"id": "other"})
    await written(environment, "done other", "done behind", "begun bad key 1", "begun bad 5 1", within=15)

    async def logged() -> bool:
        return "delete or replay dead letters" in pod.log.read_text()

    await eventually_async("said what to do", logged, within=10)
    assert await letters(environment) < 6
    # They are tried again, and not run again.
    await asyncio.sleep(LEASE.total_seconds() * 2)
    assert len([line for line in environment.lines() if line.startswith("begun bad")]) == 7
    assert pod.log.read_text().count("delete or replay dead letters") == 1
    seen: set[str] = set()

    async def all_dead() -> bool:
        await environment.admin.jetstream().purge_stream(environment.streams.dead_letters)
        for run in [*runs, keyed]:
            record = await environment.run(run)
            if record is not None and record.status == "dead":
                seen.add(run)
        return seen == {*runs, keyed}

    await eventually_async("dead letters", all_dead, within=90, seen=letters_and_log(environment))
    record = await environment.run(keyed)
    assert record is not None
    assert record.error is not None
    assert (record.error.type.rpartition(".")[2], record.error.message) == ("Reject", "nobody wants it")
    assert record.key == "ann"
    assert len([line for line in environment.lines() if line.startswith("begun bad")]) == 7
    assert await environment.waits() == 0


async def test_an_event_with_a_key_is_not_lost_where_there_is_no_room_for_its_token(
    environment: EventEnvironment, http: aiohttp.ClientSession
) -> None:
    pod, payload = environment.pod(), {"id": "A", "key": "ann"}
    jetstream, streams = environment.admin.jetstream(), environment.streams

    def subject(run: str) -> str:
        return streams.keyed_event("nobody", f"{run}.filler")

    room = 300
    while True:
        filler = await jetstream.publish(subject(new_id()), b"x" * room)
        await _fill(environment.admin, subject)
        await jetstream.delete_msg(streams.queue, filler.seq)
        answer = await asked(http, pod, "keyed", payload, id="1")
        if answer.get("error") != "QueueFullError":
            break
        room += 20
    # Whatever the first answer was: who sends it again is told that it is stored, and so it must be.
    again = await asked(http, pod, "keyed", payload, id="1")
    assert "A key waits for room" in pod.log.read_text()
    assert again == {"run": None}
    await jetstream.purge_stream(streams.queue, subject=subject("*"))
    # Pods look for keys without a token once a minute, and when they begin.
    environment.pod()
    await written(environment, "done A")


def letters_and_log(environment: EventEnvironment) -> Any:
    async def seen() -> object:
        return await letters(environment), environment.pods[0].log.read_text()[-5000:]

    return seen


@pytest.mark.parametrize(("outcome", "room"), [("reject", 7000), ("fails", 40)])
async def test_what_is_too_large_for_a_header_is_cut_rather_than_tried_for_ever(
    engine: NatsServer, tmp_path: Path, outcome: str, room: int
) -> None:
    admin = await engine.admin()
    limits = replace(LIMITS, dead_letters_bytes=1 << 20)
    environment = await event_environment(engine, admin, tmp_path, CODE, limits=limits)
    environment.pod()
    request = WebhookRequest(method="POST", path="/orders", headers=[("X-Long", "")])
    metadata = EventMetadata(
        run=new_id(), kind="webhook", task="orders", queued_at=time.time(), request=request
    )
    length = 65_535 - len(f"NATS/1.0\r\n{HEADER}: {metadata.header()}\r\n\r\n") - room
    request = replace(request, headers=[("X-Long", "a" * length)])
    await environment.admin.jetstream().publish(
        environment.streams.event("orders", metadata.run),
        json.dumps({"id": "A", outcome: True}).encode(),
        headers={HEADER: replace(metadata, request=request).header()},
    )
    await statuses(environment, [metadata.run], "dead" if outcome == "reject" else "succeeded", within=15)
    assert environment.lines() == [f"order A {length}"] + ([] if outcome == "reject" else ["order A 0"])
    environment.stop()
    await environment.admin.close()
    await admin.close()


async def _fill(client: Client, subject_of: Callable[[str], str]) -> None:
    """With messages at subjects which nobody reads."""
    jetstream, size = client.jetstream(), 400_000
    while size:
        try:
            await jetstream.publish(subject_of(new_id()), b"x" * size)
        except nats.js.errors.APIError:
            size //= 2


async def test_a_run_ends_although_there_is_no_room_for_more_steps(
    environment: EventEnvironment, http: aiohttp.ClientSession
) -> None:
    pod = environment.pod()
    run = await published(http, pod, "stepped", {})
    await written(environment, "booked")
    await _fill(environment.admin, environment.streams.run_state)
    await statuses(environment, [run], "succeeded")

    async def nothing_waits() -> bool:
        return await environment.waits() == 0

    await eventually_async("acknowledged", nothing_waits, within=5)
    # What its steps took made room to note that it has ended.
    jetstream = environment.admin.jetstream()
    await jetstream.get_last_msg(environment.streams.runs, environment.streams.ended(run))


async def test_a_retry_that_there_is_no_room_for_is_tried_again_later(
    environment: EventEnvironment, http: aiohttp.ClientSession
) -> None:
    pod = environment.pod()
    runs = [
        await published(http, pod, "task", {"id": "A", "seconds": 2, "failures": 1, "filler": "x" * 9000}),
        await published(http, pod, "keyed", {"id": "B", "key": "ann", "seconds": 2, "failures": 1}),
        await published(http, pod, "task", {"id": "C", "seconds": 2}),
    ]
    await written(environment, "begun A 1", "begun B 1", "begun C 1")
    await _fill(environment.admin, environment.streams.waiting)

    async def logged() -> bool:
        return "There is no room for retries" in pod.log.read_text()

    await eventually_async("said what to do", logged, within=15, seen=letters_and_log(environment))
    await statuses(environment, runs[2:], "succeeded")
    await asyncio.sleep(LEASE.total_seconds() * 2)
    begun = sorted(line for line in environment.lines() if line.startswith("begun"))
    assert begun == ["begun A 1", "begun B 1", "begun C 1"]
    assert pod.log.read_text().count("There is no room for retries") == 1
    await environment.admin.jetstream().purge_stream(
        environment.streams.later, subject=environment.streams.waiting("*")
    )
    await statuses(environment, runs, "succeeded", within=90)
    assert "PodDied" not in pod.log.read_text()


async def test_a_pod_that_ends_gives_up_what_it_cannot_settle_and_webhooks_do_not_wait_for_it(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    (tmp_path / "engine").mkdir()
    with running_nats_server(tmp_path / "engine") as engine:
        admin = await engine.admin()
        environment = await event_environment(engine, admin, tmp_path, CODE, limits=LIMITS)
        pod = environment.pod(TIELINE_GRACE_SECONDS="2", TIELINE_MAX_CONCURRENT_RUNS="2")
        runs = [
            await published(http, pod, "task", {"id": "A", "seconds": 0.5}),
            await published(http, pod, "task", {"id": "B", "seconds": 0.5}),
        ]
        await written(environment, "begun A 1", "begun B 1")
        engine.kill()
        await written(environment, "done A", "done B")
        await asyncio.sleep(0.5)
        async with http.post(f"{pod.url}/hello", timeout=aiohttp.ClientTimeout(total=3)) as response:
            assert response.status == 200
        pod.signal(signal.SIGTERM)
        await asyncio.to_thread(pod.stop)
        assert "comes again elsewhere" in pod.log.read_text()
        engine.start()
        environment.pod(version="v2")
        await statuses(environment, runs, "succeeded")

        async def nothing() -> bool:
            return await environment.waits() == 0

        await eventually_async("nothing waits", nothing, within=20)
        environment.stop()
        await environment.admin.close()
        await admin.close()


@pytest.mark.parametrize(("first", "second"), [({"delay": 3}, {}), ({}, {"delay": 1})])
async def test_an_id_is_that_of_one_event_whether_it_is_delayed_or_not(
    environment: EventEnvironment, http: aiohttp.ClientSession, first: Any, second: Any
) -> None:
    pod = environment.pod()
    for task in ("task", "keyed"):
        payload = {"id": task, "key": "ann"}
        assert (await asked(http, pod, task, payload, id="1", **first))["run"]
        assert await asked(http, pod, task, payload, id="1", **second) == {"run": None}
        assert (await asked(http, pod, task, payload, id="2", **second))["run"]
        # By REST.
        metadata = EventMetadata(run=new_id(), kind="event", task=task, queued_at=time.time(), event_id="1")
        for at in (None, datetime.now(UTC) + timedelta(seconds=1)):
            stored = await publish_event(
                environment.admin.jetstream(), environment.streams, metadata, b"{}", at=at, seconds=5
            )
            assert stored.duplicate
    await written(environment, "done task", "done keyed")
    await asyncio.sleep(3.5)
    assert sorted(environment.lines().count(f"done {task}") for task in ("task", "keyed")) == [2, 2]


async def test_an_engine_that_was_killed_knows_the_ids_of_what_has_not_ended(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    (tmp_path / "engine").mkdir()
    with running_nats_server(tmp_path / "engine") as engine:
        admin = await engine.admin()
        environment = await event_environment(engine, admin, tmp_path, CODE, limits=LIMITS)
        pod = environment.pod()
        await published(http, pod, "task", {"id": "ended"}, id="ended")
        await written(environment, "done ended")
        await published(http, pod, "task", {"id": "waits"}, id="waits", delay=60)
        await published(http, pod, "task", {"id": "runs", "seconds": 8}, id="runs")
        await written(environment, "begun runs 1")
        await asyncio.sleep(1)
        engine.kill()
        engine.start()

        async def again() -> bool:
            return "error" not in await asked(http, pod, "task", {"id": "connected"})

        await eventually_async("connected", again, within=30)
        for name, delay in (("waits", None), ("waits", 60), ("runs", None), ("runs", 60)):
            answer = await asked(http, pod, "task", {"id": name}, id=name, delay=delay)
            assert answer == {"run": None}, name
        # What docs/delivery.md says: its message is gone, and its id with it.
        assert (await asked(http, pod, "task", {"id": "ended"}, id="ended"))["run"]
        environment.stop()
        await environment.admin.close()
        await admin.close()
