"""Throttled events, with a real engine between pods as processes."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.harness.processes.event_pods import EventEnvironment, running_environment, until_logged
from tests.harness.processes.nats_server import NatsServer
from tests.harness.session.waiting import eventually_async
from tests.integration.engine.test_waits import publish
from tieline_protocol.run_records import RunRecord

CODE = """
from tieline import Context, Event, Integration, Throttle

integration = Integration()


@integration.event("hourly", throttle=Throttle(2, per=3600, key="shop"))
async def hourly(ctx: Context, event: Event) -> None:
    pass


@integration.event("quick", throttle=Throttle(2, per=2))
async def quick(ctx: Context, event: Event) -> None:
    pass
"""
HOUR = 3600


@pytest.fixture
async def environment(engine: NatsServer, tmp_path: Path) -> AsyncIterator[EventEnvironment]:
    async with running_environment(engine, tmp_path, CODE) as found:
        yield found


async def records(environment: EventEnvironment, runs: list[str]) -> list[RunRecord]:
    return [found for one in runs if (found := await environment.run(one)) is not None]


async def test_two_pods_share_a_throttle_also_when_one_and_the_engine_die(
    environment: EventEnvironment,
) -> None:
    pods = [environment.pod() for _ in range(2)]
    for pod in pods:
        await until_logged(pod, "Connected to the event engine")
    hourly = [await publish(environment, "hourly", shop="a", number=one) for one in range(8)]
    hourly.append(await publish(environment, "hourly", shop="b", number=0))

    async def have_their_turns() -> bool:
        found = await records(environment, hourly)
        return len(found) == 9 and all(one.status == "succeeded" or one.next_attempt_at for one in found)

    await eventually_async("all have their turns", have_their_turns, within=60)
    quick = [await publish(environment, "quick", number=one) for one in range(8)]
    pods[0].signal(signal.SIGKILL)
    environment.engine.kill()
    environment.engine.start()

    async def all_have_run() -> bool:
        found = await records(environment, quick)
        return len(found) == 8 and all(one.status == "succeeded" for one in found)

    await eventually_async("each has had its turn", all_have_run, within=180)
    hourly.append(await publish(environment, "hourly", shop="a", number=8))
    await eventually_async(
        "the line is known after the engine was killed",
        lambda: _waits(environment, hourly[-1]),
        within=60,
    )
    found = await records(environment, hourly)
    assert sorted(one.status for one in found) == ["queued"] * 7 + ["succeeded"] * 3
    first = min(one.next_attempt_at or 0 for one in found if one.status == "queued")
    turns = sorted(
        round(((one.next_attempt_at or 0) - first) / HOUR) for one in found if one.status == "queued"
    )
    assert turns == [0, 0, 1, 1, 2, 2, 3]


async def _waits(environment: EventEnvironment, run: str) -> bool:
    found = await environment.run(run)
    return found is not None and found.status == "queued" and found.next_attempt_at is not None
