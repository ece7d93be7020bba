"""Debounced events, with a real engine between pods as processes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.harness.processes.event_pods import EventEnvironment, running_environment, until_logged
from tests.harness.processes.nats_server import NatsServer
from tests.harness.session.waiting import eventually_async
from tests.integration.engine.test_waits import publish, until_waiting

CODE = """
from tieline import Context, Debounce, Event, Integration

integration = Integration()


@integration.event("changed", debounce=Debounce(10, key="product"))
async def changed(ctx: Context, event: Event) -> None:
    pass
"""


@pytest.fixture
async def environment(engine: NatsServer, tmp_path: Path) -> AsyncIterator[EventEnvironment]:
    async with running_environment(engine, tmp_path, CODE) as found:
        yield found


async def test_a_burst_is_run_once_also_when_the_engine_dies(environment: EventEnvironment) -> None:
    # Pods that begin after an event's period run it at once.
    for _ in range(2):
        await until_logged(environment.pod(), "Connected to the event engine")
    other = await publish(environment, "changed", product="cup", version=0)
    # The last one comes with a key, by which it is not kept in order.
    runs = [await publish(environment, "changed", product="mug", version=one) for one in range(3)]
    runs.append(await publish(environment, "changed", "mug", product="mug", version=3))
    await until_waiting(environment, 2)
    environment.engine.kill()
    environment.engine.start()

    async def both_have_run() -> bool:
        found = [await environment.run(one) for one in (runs[-1], other)]
        return all(one is not None and one.status == "succeeded" for one in found)

    await eventually_async("the newest events have run", both_have_run, within=120)
    await environment.until_nothing_waits()
    statuses = [found.status for one in runs if (found := await environment.run(one)) is not None]
    assert statuses == ["cancelled"] * 3 + ["succeeded"]
