"""Events of several priorities, with a real engine between pods as processes."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.harness.processes.event_pods import EventEnvironment, running_environment, until_logged
from tests.harness.processes.nats_server import NatsServer
from tests.harness.session.waiting import eventually_async
from tests.integration.engine.test_waits import publish
from tieline_protocol.event_streams import LANES

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
    # Longer than the engine takes to deliver an event: so the pod has no room, rather than nothing to do.
    await asyncio.sleep(0.05)
    write(event.payload["name"])


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


async def _until_done(environment: EventEnvironment, count: int) -> None:
    async def all_are() -> bool:
        return len(set(environment.lines())) == count

    async def seen() -> object:
        return len(set(environment.lines()))

    await eventually_async(f"{count} have run", all_are, within=120, seen=seen)
    await environment.until_nothing_waits()


async def test_urgent_events_run_first_and_bulk_work_goes_on_meanwhile(environment: EventEnvironment) -> None:
    await publish(environment, "fill", bulk=60, usual=60, urgent=40)
    environment.pod(TIELINE_MAX_CONCURRENT_RUNS="4")
    await _until_done(environment, 161)
    lines = environment.lines()
    assert len(lines) == 161, "each has run once"
    tasks = [one.partition(" ")[0] for one in lines]
    # All are there from now on, so each priority has its share of those that are more urgent.
    tasks = tasks[tasks.index("filled") + 1 :]
    last = {
        task: max(number for number, one in enumerate(tasks) if one == task) for task in ("urgent", "usual")
    }
    before = {task: Counter(tasks[:number]) for task, number in last.items()}
    assert before["urgent"]["usual"] + before["urgent"]["bulk"] <= before["urgent"]["urgent"] // 4 + 8, before
    assert 0 < before["usual"]["bulk"] <= before["usual"]["usual"] // 4 + 8, before


async def test_nothing_is_lost_when_a_pod_with_events_of_all_priorities_dies(
    environment: EventEnvironment,
) -> None:
    first = environment.pod(TIELINE_MAX_CONCURRENT_RUNS="2")
    await until_logged(first, "Connected to the event engine")
    await publish(environment, "fill", bulk=60, usual=60, urgent=60)
    for number in range(12):
        await publish(environment, "keyed", of=str(number % 2), name=f"keyed {number}")
    await environment.until_written("urgent 5")
    first.signal(signal.SIGKILL)
    environment.pod(TIELINE_MAX_CONCURRENT_RUNS="2")
    await _until_done(environment, 193)
    lines = environment.lines()
    assert len(lines) <= 193 + 2, "only what was under way has run twice"
    for key in (0, 1):
        ran = list(dict.fromkeys(one for one in lines if one.startswith("keyed") and int(one[6:]) % 2 == key))
        assert ran == [f"keyed {number}" for number in range(key, 12, 2)]


async def test_bulk_events_from_rest_leave_the_way_to_those_behind_them(
    environment: EventEnvironment,
) -> None:
    for number in range(40):
        await publish(environment, "bulk", name=f"bulk {number}")
    for number in range(10):
        await publish(environment, "usual", name=f"usual {number}")
    environment.pod(TIELINE_MAX_CONCURRENT_RUNS="1")
    await _until_done(environment, 50)
    lines = environment.lines()
    assert len(lines) == 50
    assert max(number for number, one in enumerate(lines) if one.startswith("usual")) < 30
    moved = [one for one in await environment.history() if one.task == "bulk" and one.status == "queued"]
    assert moved, "they were queued again, and the history says so"
    info = await environment.admin.jetstream().stream_info(environment.streams.queue)
    assert info.state.consumer_count == len(LANES)
