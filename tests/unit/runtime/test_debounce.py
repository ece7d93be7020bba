"""``debounce``: a burst of events of a task is run once, with the newest."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tieline import Debounce, Integration
from tieline.events.debounce import DebounceRule
from tieline.events.event import EventTask
from tieline.events.event_file import EventFile
from tieline.events.memory import MemoryQueue
from tieline.events.queue import Delivery
from tieline.events.retry import Retry
from tieline.server.debounced_events import DebouncedEvents
from tieline.server.event_attempt import Attempt
from tieline.server.event_settlement import EventSettlement
from tieline.telemetry.redaction import Redactor
from tieline.testing import EventAttempt, Project
from tieline_protocol.events import EventMetadata
from tieline_protocol.run_records import RunRecord

pytestmark = pytest.mark.fast

HEAD = """
from tieline import CancelOn, ChildRunError, Context, Debounce, Event, Integration, Retry

integration = Integration()
done = []


@integration.event("changed", debounce=Debounce(30, key="id", timeout=100), retry=Retry(attempts=3, first=1))
async def changed(ctx: Context, event: Event) -> None:
    done.append((event.payload.get("id"), event.payload["version"]))
    if event.payload.get("fails") and event.attempt == 1:
        raise RuntimeError("the shop is away")

"""
CONNECTIONS = "connections: {}\nusers:\n  ann: {user: {externalId: ann}}\n  bob: {user: {externalId: bob}}\n"
Loaded = Callable[..., Project]


@pytest.fixture
def loaded(load_project: Callable[[str, str], Project]) -> Loaded:
    return lambda code="": load_project(HEAD + code, CONNECTIONS)


def statuses(attempts: list[EventAttempt]) -> list[str]:
    return [one.status for one in attempts]


def test_a_burst_is_run_once_with_the_newest_event(loaded: Loaded) -> None:
    project = loaded()
    attempts = []
    for version in range(3):
        project.publish("changed", {"id": "mug", "version": version})
        attempts += project.advance(20)
    newest = project.publish("changed", {"id": "mug", "version": 3})
    attempts += project.run_events()
    assert project.module.done == []
    assert statuses(attempts) == ["cancelled"] * 3
    assert attempts[-1].error == f"Superseded by a newer event (run {newest})"
    assert statuses(project.advance(29)) == []
    assert statuses(project.advance(1)) == ["succeeded"]
    assert project.module.done == [("mug", 3)]
    assert project.waiting_events == 0
    assert project.dead_letters == []


def test_events_with_other_values_or_users_are_debounced_apart(loaded: Loaded) -> None:
    project = loaded()
    for user in ("ann", "bob"):
        for product in ("mug", "cup", "mug"):
            project.publish("changed", {"id": product, "version": user}, user=user)
    attempts = project.advance(31)
    assert sorted(statuses(attempts)) == ["cancelled"] * 2 + ["succeeded"] * 4
    assert sorted(project.module.done) == [("cup", "ann"), ("cup", "bob"), ("mug", "ann"), ("mug", "bob")]


def test_a_burst_that_does_not_end_is_run_by_its_timeout(loaded: Loaded) -> None:
    project = loaded()
    for version in range(20):
        project.publish("changed", {"id": "mug", "version": version})
        project.advance(10)
    project.advance(31)
    assert [version for _, version in project.module.done] == [9, 19]


def test_an_event_without_the_field_is_run_at_once(loaded: Loaded) -> None:
    project = loaded()
    for version in range(2):
        project.publish("changed", {"version": version})
    assert statuses(project.run_events()) == ["succeeded", "succeeded"]


def test_a_retry_is_not_debounced_and_newer_events_do_not_end_it(loaded: Loaded) -> None:
    project = loaded()
    project.publish("changed", {"id": "mug", "version": 1, "fails": True})
    assert statuses(project.advance(30.1)) == ["waiting"]
    project.publish("changed", {"id": "mug", "version": 2})
    assert statuses(project.advance(5)) == ["succeeded"]
    assert statuses(project.advance(31)) == ["succeeded"]
    assert project.module.done == [("mug", 1), ("mug", 1), ("mug", 2)]


def test_an_event_that_was_published_with_a_key_is_debounced_too(loaded: Loaded) -> None:
    project = loaded()
    for version in range(3):
        project.publish("changed", {"id": "mug", "version": version}, key="mug")
    assert statuses(project.advance(31)) == ["cancelled", "cancelled", "succeeded"]
    assert project.module.done == [("mug", 2)]


def test_debounced_events_end_waits_when_they_come(loaded: Loaded) -> None:
    project = loaded("""
integration.waits_for("changed", match=["id"])


@integration.event("waits")
async def waits(ctx: Context, event: Event) -> None:
    found = await ctx.wait_for("changed", match={"id": "mug"}, timeout=1000)
    done.append(found.payload["version"])
""")
    project.publish("waits", {})
    project.run_events()
    project.publish("changed", {"id": "mug", "version": 1})
    project.run_events()
    assert project.module.done == [1]
    project.advance(31)
    assert project.module.done == [1, ("mug", 1)]


def test_the_parent_of_a_superseded_child_goes_on(loaded: Loaded) -> None:
    project = loaded("""
@integration.event("parent")
async def parent(ctx: Context, event: Event) -> None:
    try:
        await ctx.run("changed", {"id": "mug", "version": 1})
    except ChildRunError as error:
        done.append(error.status)
""")
    project.publish("parent", {})
    project.run_events()
    project.publish("changed", {"id": "mug", "version": 2})
    project.advance(31)
    assert project.module.done == ["cancelled", ("mug", 2)]


def test_another_event_cancels_one_that_waits_for_its_burst(loaded: Loaded) -> None:
    project = loaded("""
@integration.event("edited", debounce=30, cancel_on=CancelOn("deleted", match=["id"]))
async def edited(ctx: Context, event: Event) -> None:
    done.append("edited")
""")
    project.publish("edited", {"id": "mug"})
    project.run_events()
    project.publish("deleted", {"id": "mug"})
    assert [(one.task, one.status) for one in project.run_events()] == [
        ("deleted", "succeeded"),
        ("edited", "cancelled"),
    ]
    ran = [one.fields["outcome"] for one in project.logs if one.message == "Ran event edited"]
    assert ran == ["waiting", "cancelled"]
    project.publish("edited", {"id": "cup"})
    project.run_events()
    project.advance(31)
    assert project.module.done == ["edited"]
    assert project.waiting_events == 0


async def test_events_that_wait_are_superseded_in_the_next_process(tmp_path: Path) -> None:
    now, ran, ended = 1000.0, [], asyncio.Event()
    rule = DebounceRule(period=30, key=None, timeout=None)
    task = EventTask(name="edited", handler=print, is_async=False, arguments=0, debounce=rule)
    history: list[RunRecord] = []

    async def write(record: RunRecord) -> None:
        history.append(record)

    def opened() -> tuple[MemoryQueue, Callable[[Delivery], Coroutine[Any, Any, None]]]:
        queue = MemoryQueue(clock=lambda: now, file=EventFile(tmp_path / "events.db"))
        writer = cast(Any, SimpleNamespace(add=history.append, write=write))
        settlement = EventSettlement(queue, writer, redact=Redactor, version="v1", clock=lambda: now)
        debounced = DebouncedEvents(queue, settlement, clock=lambda: now)

        async def handle(delivery: Delivery) -> None:
            metadata = delivery.metadata
            attempt = Attempt(
                metadata=metadata, delivery=delivery, number=metadata.attempt, retry=Retry(), started_at=now
            )
            if await debounced.settle(attempt, task) is None:
                ran.append(metadata.run)
                await settlement.succeed(attempt)
            if len(ran) or len(history) == expected:
                ended.set()

        return queue, handle

    async def process(*runs: str, until: int) -> None:
        nonlocal expected
        expected = until
        ended.clear()
        queue, handle = opened()
        for run in runs:
            metadata = EventMetadata(run=run, kind="event", task="edited", queued_at=now)
            await queue.publish(metadata, b"{}")
        running = asyncio.create_task(queue.run(handle, capacity=1))
        await ended.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        queue.close()

    expected = 0
    await process("a", until=1)
    now += 10
    await process("b", until=3)
    now += 31
    await process(until=4)
    assert ran == ["b"]
    assert [(one.id, one.status) for one in history] == [
        ("a", "queued"),
        ("b", "queued"),
        ("a", "cancelled"),
        ("b", "succeeded"),
    ]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"debounce": 0.5}, "period"),
        ({"debounce": timedelta(days=8)}, "period"),
        ({"debounce": Debounce(30, timeout=10)}, "timeout"),
        ({"debounce": Debounce(30, key="a..b")}, "key"),
        ({"debounce": 30, "key": "id"}, "Debounce\\(..., key='id'\\)"),
        ({"debounce": "30s"}, "debounce is a number of seconds"),
        ({"debounce": True}, "debounce is a number of seconds"),
    ],
)
def test_what_cannot_be_a_debounce_is_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises((TypeError, ValueError), match=problem):
        Integration().event("changed", **options)
