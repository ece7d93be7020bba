"""``priority``: of the events that wait because pods are full, the urgent ones start first, and none waits for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tieline import Integration
from tieline.events.engine.lanes import Due, InFlightMessages, room
from tieline.events.event_file import EventFile
from tieline.events.memory import MemoryQueue
from tieline.events.queue import Delivery
from tieline.execution.fair_limiter import FairLimiter
from tieline.execution.priorities import MAX_PASSED, PriorityOrder
from tieline.execution.ulids import new_ulid
from tieline.testing import Project
from tieline_engine.publishing import placement
from tieline_protocol.event_streams import EventStreams
from tieline_protocol.events import EventMetadata, InvalidEventError

pytestmark = pytest.mark.fast

STREAMS = EventStreams("O", "E")
CODE = """
from tieline import Context, Event, Integration

integration = Integration()
done = []


@integration.event("bulk", priority=-1)
async def bulk(ctx: Context, event: Event) -> None:
    done.append("bulk")


@integration.event("usual")
async def usual(ctx: Context, event: Event) -> None:
    done.append("usual")


@integration.event("urgent", priority=1)
async def urgent(ctx: Context, event: Event) -> None:
    done.append("urgent")
"""


def test_urgent_events_run_before_those_that_were_published_earlier(
    load_project: Callable[[str, str], Project],
) -> None:
    project = load_project(CODE, "connections: {}\n")
    for task in ("bulk", "usual", "urgent", "usual", "bulk", "urgent"):
        project.publish(task, {})
    project.run_events()
    assert project.module.done == ["urgent"] * 2 + ["usual"] * 2 + ["bulk"] * 2


def test_each_lower_priority_gets_its_start_however_much_is_urgent() -> None:
    order = PriorityOrder()
    starts = [order.choose((-1, 0, 1)) for _ in range(600)]
    for low in (-1, 0):
        places = [number for number, one in enumerate(starts) if one == low]
        gaps = [after - before for before, after in zip([-1, *places], places, strict=False)]
        assert max(gaps) <= MAX_PASSED + 2
        assert starts[:MAX_PASSED] == [1] * MAX_PASSED
    assert starts.count(1) > 480


def test_what_does_not_wait_is_not_owed_a_start() -> None:
    order = PriorityOrder()
    for _ in range(MAX_PASSED - 1):
        order.choose((-1, 1))
    order.choose((1,))
    assert order.choose((-1, 1)) == 1


async def started(limiter: FairLimiter, waiting: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """The order in which those that wait get the turn that one of another key holds, each for a moment."""
    order: list[tuple[str, int]] = []

    async def run(key: str, priority: int) -> None:
        await limiter.wait(key, priority=priority, bounded=False)
        order.append((key, priority))
        limiter.release(key)

    assert limiter.take("first")
    tasks = [asyncio.create_task(run(*one)) for one in waiting]
    await asyncio.sleep(0)
    assert limiter.is_full
    limiter.release("first")
    await asyncio.gather(*tasks)
    assert (limiter.active, limiter.waiting) == (0, 0)
    return order


async def test_the_users_of_one_priority_still_take_turns() -> None:
    waiting = [("ann", 0), ("ann", 1), ("ann", 1), ("ben", 0), ("ben", 1)]
    found = await started(FairLimiter(most=1), waiting)
    assert found == [("ann", 1), ("ben", 1), ("ann", 1), ("ann", 0), ("ben", 0)]


async def test_a_user_with_a_full_share_holds_up_nobody_who_is_less_urgent() -> None:
    limiter = FairLimiter(most=2, share=1)
    assert limiter.take("ann")
    urgent = asyncio.create_task(limiter.wait("ann", priority=1, bounded=False))
    await asyncio.sleep(0)
    await asyncio.wait_for(limiter.wait("ben", priority=-1, bounded=False), 5)
    assert not urgent.done()
    limiter.release("ann")
    await asyncio.wait_for(urgent, 5)


async def test_one_that_stops_waiting_leaves_nothing_behind() -> None:
    limiter = FairLimiter(most=1)
    assert limiter.take("ann")
    waiting = asyncio.create_task(limiter.wait("ben", priority=1, bounded=False))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert limiter.waiting == 0
    limiter.release("ann")
    assert limiter.take("ben")


def test_a_full_pod_takes_a_few_of_each_priority_ahead_and_no_more() -> None:
    messages = InFlightMessages(capacity=20)
    for _ in range(20):
        messages.add(0)
        messages.runs(0, True)
    assert {lane: messages.room(lane) for lane in (1, 0, -1, Due.DUE)} == {1: 10, 0: 10, -1: 10, Due.DUE: 10}
    for _ in range(10):
        messages.add(-1)
    assert (messages.room(-1), messages.room(1)) == (0, 10)
    messages.remove(0, has_run=True)
    messages.runs(-1, True)
    assert messages.room(-1) == 1
    assert room(capacity=1, in_flight=1, waiting=0) == 1
    assert room(capacity=20, in_flight=5, waiting=0) == 15


def test_a_pod_whose_events_have_no_slot_and_are_not_settled_stops_to_take_more() -> None:
    messages = InFlightMessages(capacity=20)
    for _ in range(200):
        if messages.room(0):
            messages.add(0)
            messages.runs(0, True)
    assert messages.count == 60


def metadata(priority: int, **more: Any) -> EventMetadata:
    return EventMetadata(run=new_ulid(), kind="event", task="sync", queued_at=1e9, priority=priority, **more)


@pytest.mark.parametrize(
    ("priority", "lane"), [(1, "high"), (0, "normal"), (-1, "low"), (7, "high"), (-9, "low")]
)
def test_an_event_is_stored_among_those_of_its_priority(priority: int, lane: str) -> None:
    event = metadata(priority)
    assert placement(STREAMS, event).subject == f"ev.O.E.{lane}.sync.{event.run}"
    assert EventMetadata.parse({"Tieline-Event": event.header()}).priority == priority


def test_the_token_of_a_key_is_one_whatever_the_priority() -> None:
    hashes = {metadata(priority, key="ann").key_hash for priority in (-1, 0, 1)}
    assert len(hashes) == 1


@pytest.mark.parametrize("priority", ['"1"', "0.5", "true", "null", "[1]", "1e999"])
def test_a_priority_that_is_no_number_is_no_event(priority: str) -> None:
    header = metadata(1).header().replace('"priority":1', f'"priority":{priority}')
    with pytest.raises(InvalidEventError):
        EventMetadata.parse({"Tieline-Event": header})


async def test_events_that_were_left_in_the_file_run_by_their_priority(tmp_path: Path) -> None:
    path = tmp_path / "events.db"
    before = MemoryQueue(file=EventFile(path))
    for priority in (-1, 0, 1):
        await before.publish(metadata(priority), b"{}")
    before.close()
    after = MemoryQueue(file=EventFile(path))
    found: list[int] = []
    ended = asyncio.Event()

    async def handle(delivery: Delivery) -> None:
        found.append(delivery.metadata.priority)
        await delivery.done()
        if len(found) == 3:
            ended.set()

    running = asyncio.create_task(after.run(handle, capacity=1))
    await asyncio.wait_for(ended.wait(), 20)
    running.cancel()
    after.close()
    assert found == [1, 0, -1]


@pytest.mark.parametrize(
    ("priority", "error", "text"),
    [
        (2, ValueError, "must be from -1 to 1"),
        (-2, ValueError, "must be from -1 to 1"),
        (True, TypeError, "a whole number"),
        ("high", TypeError, "a whole number"),
        (0.5, TypeError, "a whole number"),
    ],
)
def test_priorities_that_cannot_be_are_refused(priority: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        Integration().event("sync", priority=priority)
