"""Events of several priorities, with a real engine between pods as processes."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.harness.processes.event_pods import EventEnvironment, running_environment, until_logged
from tests.harness.processes.nats_server import NatsServer
from tests.harness.session.waiting import eventually_async
from tests.integration.engine.test_waits import publish
from tieline_protocol.event_streams import LANES, consumer_of

CODE = """
import asyncio, os
from tieline import Context, Event, Integration, NewEvent

integration = Integration()


@integration.event("fill")
async def fill(ctx: Context, event: Event) -> None:
    for task in ("bulk", "usual", "urgent"):
        count = event.payload[task]
        await ctx.publish_many([NewEvent(task, {"name": f"{task} {one}"}) for one in range(count)])
    write("filled")


async def work(ctx: Context, event: Event) -> None:
    write(event.payload["name"])
    while not os.path.exists(os.environ["GATE"]):
        await asyncio.sleep(0.01)


def write(text: str) -> None:
    with open(os.environ["DONE"], "a") as file:
        file.write(text + "\\n")


integration.event("bulk", priority=-1)(work)
integration.event("usual")(work)
integration.event("urgent", priority=1)(work)
integration.event("keyed", key="of", priority=1)(work)
"""


@pytest.fixture
async def environment(engine: NatsServer, tmp_path: Path) -> AsyncIterator[EventEnvironment]:
    async with running_environment(engine, tmp_path, CODE) as found:
        yield found


class Gate:
    """Runs end once it is open."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __str__(self) -> str:
        return str(self._path)

    def open(self) -> None:
        self._path.touch()


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path / "gate")


async def _until_done(environment: EventEnvironment, count: int) -> None:
    async def all_are() -> bool:
        return len(set(environment.lines())) == count

    async def seen() -> object:
        return len(set(environment.lines()))

    await eventually_async(f"{count} have run", all_are, within=120, seen=seen)
    await environment.until_nothing_waits()


async def _taken(environment: EventEnvironment, priority: int) -> int:
    """Events of a priority that the pod has, running or waiting for a slot."""
    info = await environment.admin.jetstream().consumer_info(environment.streams.queue, consumer_of(priority))
    return int(info.num_ack_pending or 0)


def _tasks(environment: EventEnvironment) -> list[str]:
    return [one.partition(" ")[0] for one in environment.lines()]


async def test_urgent_events_run_first_and_bulk_work_goes_on_meanwhile(
    environment: EventEnvironment, gate: Gate
) -> None:
    await publish(environment, "fill", bulk=60, usual=60, urgent=40)
    environment.pod(TIELINE_MAX_CONCURRENT_RUNS="10", GATE=str(gate))

    async def is_full() -> bool:
        began = _tasks(environment)
        return len(began) == 10 and await _taken(environment, 1) == 10 + began.count("urgent")

    await eventually_async("the pod is full, and urgent events wait", is_full, within=120)
    gate.open()
    await _until_done(environment, 161)
    tasks = _tasks(environment)
    assert len(tasks) == 161, "each has run once"
    assert tasks[10:18].count("urgent") >= 5, (
        "some may be on their way to the pod, and one of another priority goes"
    )


async def test_nothing_is_lost_when_a_pod_with_events_of_all_priorities_dies(
    environment: EventEnvironment, gate: Gate
) -> None:
    first = environment.pod(TIELINE_MAX_CONCURRENT_RUNS="2", GATE=str(gate))
    await until_logged(first, "Connected to the event engine")
    for number in range(12):
        await publish(environment, "keyed", of=str(number % 2), name=f"keyed {number}")
    streams = environment.streams

    async def are_queued() -> bool:
        found = await environment.admin.jetstream().stream_info(
            streams.queue, subjects_filter=streams.keyed_event("*", "*")
        )
        return len(found.state.subjects or ()) == 12

    await eventually_async("each is queued behind its key", are_queued, within=120)
    await publish(environment, "fill", bulk=60, usual=60, urgent=60)
    gate.open()
    await environment.until_written("urgent 5")
    first.signal(signal.SIGKILL)
    environment.pod(TIELINE_MAX_CONCURRENT_RUNS="2", GATE=str(gate))
    await _until_done(environment, 193)
    lines = environment.lines()
    assert len(lines) <= 193 + 40, "only what the pod had, or had not acknowledged, has run twice"
    for key in (0, 1):
        ran = list(dict.fromkeys(one for one in lines if one.startswith("keyed") and int(one[6:]) % 2 == key))
        assert ran == [f"keyed {number}" for number in range(key, 12, 2)]


async def test_bulk_events_from_rest_leave_the_way_to_those_behind_them(
    environment: EventEnvironment, gate: Gate
) -> None:
    for number in range(40):
        await publish(environment, "bulk", name=f"bulk {number}")
    for number in range(10):
        await publish(environment, "usual", name=f"usual {number}")
    environment.pod(TIELINE_MAX_CONCURRENT_RUNS="1", GATE=str(gate))

    async def is_open() -> bool:
        bulk = await environment.admin.jetstream().consumer_info(environment.streams.queue, consumer_of(-1))
        return (bulk.num_pending or 0) + (bulk.num_ack_pending or 0) == 39 and await _taken(
            environment, 0
        ) == 2

    await eventually_async("one bulk event runs, and a usual one waits behind it", is_open, within=120)
    gate.open()
    await _until_done(environment, 50)
    assert len(environment.lines()) == 50, "each has run once"
    moved = [one for one in await environment.history() if one.task == "bulk" and one.status == "queued"]
    assert moved, "they were queued again, and the history says so"
    info = await environment.admin.jetstream().stream_info(environment.streams.queue)
    assert info.state.consumer_count == len(LANES)
