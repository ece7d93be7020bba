"""Runs that wait for events, with a real engine between pods as processes."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import nats.errors
import pytest

from tests.harness.processes.event_pods import EventEnvironment, running_environment
from tests.harness.processes.nats_server import NatsServer
from tests.harness.session.waiting import eventually_async
from tieline_core.engine.publisher import publish_event, publish_waking
from tieline_core.identity.ids import new_id
from tieline_protocol.events import EventMetadata
from tieline_protocol.signals import SentSignal, signal_event

CODE = """
import os
from datetime import timedelta
from pathlib import Path
from tieline import Context, Event, Integration, NewEvent, SyncContext

integration = Integration()
integration.waits_for("paid", match=["order"])
DONE = Path(os.environ["DONE"])


def write(text):
    with DONE.open("a") as file:
        file.write(f"{text}\\n")


@integration.event("ordered")
async def ordered(ctx: Context, event: Event) -> None:
    order, seconds = event.payload["order"], event.payload.get("seconds", 3600)
    await ctx.step("reserve", write, f"reserved {order}")
    paid = await ctx.wait_for("paid", match={"order": order}, timeout=seconds)
    write(f"{order} {paid.payload['by'] if paid else 'timed out'}")


@integration.event("signalled")
async def signalled(ctx: Context, event: Event) -> None:
    ctx.progress("waits", 0.5)
    first = await ctx.wait_for_signal("go", timeout=timedelta(hours=1))
    orders = [NewEvent("ordered", {"order": f"{first.payload}-{number}"}) for number in range(20)]
    await ctx.step("publish", ctx.publish_many, orders)
    second = await ctx.wait_for_signal("go", timeout=timedelta(hours=1))
    write(f"signals {first.payload} {second.payload} of {second.by}")


@integration.event("keyed", key="customer")
def keyed(ctx: SyncContext, event: Event) -> None:
    write(f"begun {event.payload['order']}")
    paid = ctx.wait_for("paid", match={"order": event.payload["order"]}, timeout=timedelta(hours=1))
    write(f"{event.payload['order']} {paid.payload['by']}")
"""


OTHER_VERSION = """
from tieline import Context, Event, Integration

integration = Integration()


@integration.event("other")
async def other(ctx: Context, event: Event) -> None:
    pass
"""


@pytest.fixture
async def environment(engine: NatsServer, tmp_path: Path) -> AsyncIterator[EventEnvironment]:
    async with running_environment(engine, tmp_path, CODE) as found:
        yield found


async def publish(environment: EventEnvironment, task: str, key: str | None = None, **payload: Any) -> str:
    """As the API does, which tries again while the engine is away."""
    metadata = EventMetadata(run=new_id(), kind="event", task=task, queued_at=time.time(), key=key)
    content = json.dumps(payload).encode()

    async def is_published() -> bool:
        jetstream = environment.admin.jetstream()
        try:
            await publish_event(jetstream, environment.streams, metadata, content, seconds=5)
        except (nats.errors.Error, OSError):
            return False
        return True

    await eventually_async(f"published: {task}", is_published, within=60)
    return metadata.run


async def until_waiting(environment: EventEnvironment, waits: int) -> None:
    """Returns once so many runs wait."""

    async def are_there() -> bool:
        subjects = f"run.{environment.streams.organisation}.{environment.streams.environment}.~wait.>"
        info = await environment.admin.jetstream().stream_info(
            environment.streams.runs, subjects_filter=subjects
        )
        return len(info.state.subjects or {}) == waits

    await eventually_async(f"{waits} waits", are_there, within=60)


async def send(environment: EventEnvironment, run: str, payload: str) -> None:
    """A signal, as the API sends it."""
    sent = SentSignal(run=run, name="go", payload=json.dumps(payload), by="ann", at=time.time())
    event = signal_event(new_id(), sent.at)
    await publish_waking(environment.admin.jetstream(), environment.streams, event, sent.encode(), seconds=5)


async def test_a_run_gets_its_signals_and_publishes_many_events(environment: EventEnvironment) -> None:
    environment.pod()
    run = await publish(environment, "signalled")
    await send(environment, new_id(), "somebody else's")
    await until_waiting(environment, 1)
    await send(environment, run, "a")
    await until_waiting(environment, 21)
    await send(environment, run, "b")
    await environment.until_written("signals a b of ann")
    reserved = sorted(line for line in environment.lines() if line.startswith("reserved"))
    assert reserved == sorted(f"reserved a-{number}" for number in range(20))

    async def is_shown() -> bool:
        found = await environment.run(run)
        return found is not None and found.status == "succeeded" and found.progress is not None

    await eventually_async("the progress in the history", is_shown)


async def test_runs_go_on_with_their_events_in_any_pod(environment: EventEnvironment) -> None:
    environment.pod()
    environment.pod()
    for order in (1, 2, 3):
        await publish(environment, "ordered", order=order)
    for order in (4, 5):
        await publish(environment, "keyed", "ann", customer="ann", order=order)
    await until_waiting(environment, 4)
    # The second event of the key has not begun, and finds what came before.
    for order in (5, 2, 4, 1):
        await publish(environment, "paid", order=str(order), by=f"payer {order}")
    for order in (1, 2, 4, 5):
        await environment.until_written(f"{order} payer {order}")
    await until_waiting(environment, 1)
    await publish(environment, "paid", order=3, by="payer 3")
    await environment.until_nothing_waits()
    lines = environment.lines()
    # A plain part of the code runs once more for each attempt, and a step does not.
    assert sorted(lines) == sorted(
        [f"reserved {order}" for order in (1, 2, 3)]
        + [f"{order} payer {order}" for order in (1, 2, 3, 4, 5)]
        + ["begun 4", "begun 4", "begun 5"]
    )
    assert lines.index("4 payer 4") < lines.index("begun 5")


async def test_an_event_from_before_ends_a_wait_and_a_time_that_is_over_too(
    environment: EventEnvironment,
) -> None:
    environment.pod()
    paid = await publish(environment, "paid", order=1, by="ann")

    async def has_ended() -> bool:
        run = await environment.run(paid)
        return run is not None and run.status == "succeeded"

    await eventually_async("the event is kept", has_ended, within=60)
    await publish(environment, "ordered", order=1)
    await environment.until_written("1 ann")
    await publish(environment, "ordered", order=2, seconds=1)
    await environment.until_written("2 timed out")
    await until_waiting(environment, 0)
    await environment.until_nothing_waits()


async def test_another_version_wakes_what_it_does_not_know(environment: EventEnvironment) -> None:
    pod = environment.pod()
    await publish(environment, "ordered", order=1)
    await until_waiting(environment, 1)
    pod.stop()
    environment.code = OTHER_VERSION
    other = environment.pod(version="v0")
    await publish(environment, "paid", order=1, by="ann")
    await until_waiting(environment, 0)
    environment.code = CODE
    environment.pod()
    other.stop()
    await environment.until_written("1 ann")


async def test_a_wait_outlives_an_engine_that_is_killed(environment: EventEnvironment) -> None:
    environment.pod()
    await publish(environment, "ordered", order=1)
    await until_waiting(environment, 1)
    environment.engine.kill()
    environment.engine.start()
    environment.pods[0].signal(signal.SIGKILL)
    environment.pod()

    await publish(environment, "paid", order=1, by="ann")
    await environment.until_written("1 ann")
    assert environment.lines().count("reserved 1") == 1
