"""Events that cancel runs, with a real engine between pods as processes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.harness.processes.event_pods import EventEnvironment, running_environment
from tests.harness.processes.nats_server import NatsServer
from tests.harness.session.waiting import eventually_async
from tests.integration.engine.test_waits import publish, until_waiting

CODE = """
from datetime import timedelta
from tieline import CancelOn, Context, Event, Integration, SyncContext

integration = Integration()


@integration.event("ordered", cancel_on=CancelOn("cancelled", match=["order"]))
async def ordered(ctx: Context, event: Event) -> None:
    await ctx.sleep("until it is due", timedelta(hours=1))


@integration.event("keyed", key="order", cancel_on="cancelled")
def keyed(ctx: SyncContext, event: Event) -> None:
    ctx.sleep("until it is due", timedelta(hours=1))
"""


@pytest.fixture
async def environment(engine: NatsServer, tmp_path: Path) -> AsyncIterator[EventEnvironment]:
    async with running_environment(engine, tmp_path, CODE) as found:
        yield found


async def until_cancelled(environment: EventEnvironment, run: str, by: str) -> None:
    async def is_cancelled() -> bool:
        found = await environment.run(run)
        return found is not None and found.status == "cancelled"

    await eventually_async(f"{run} is cancelled", is_cancelled, within=60)
    found = await environment.run(run)
    assert found is not None
    assert found.error is not None
    assert found.error.message == f"Cancelled by the event cancelled (run {by})"


async def test_sleeping_and_queued_runs_are_cancelled_in_any_pod(environment: EventEnvironment) -> None:
    environment.pod()
    environment.pod()
    cancelled = [await publish(environment, "ordered", order=7), await publish(environment, "keyed", order=7)]
    other = await publish(environment, "ordered", order=8)
    await until_waiting(environment, 3)
    # It stands behind the one that sleeps.
    cancelled.append(await publish(environment, "keyed", order=7))
    by = await publish(environment, "cancelled", order="7")
    for run in cancelled:
        await until_cancelled(environment, run, by)
    await until_waiting(environment, 1)
    still = await environment.run(other)
    assert still is not None
    assert still.status == "waiting"


async def test_a_run_is_cancelled_that_slept_while_no_pod_was_there(environment: EventEnvironment) -> None:
    pod = environment.pod()
    run = await publish(environment, "ordered", order=7)
    await until_waiting(environment, 1)
    pod.stop()
    by = await publish(environment, "cancelled", order=7)
    environment.engine.kill()
    environment.engine.start()
    environment.pod()
    await until_cancelled(environment, run, by)
    await until_waiting(environment, 0)
