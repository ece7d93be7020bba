"""Events in batches, with a real engine between pods as processes."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.harness.processes.event_pods import EventEnvironment, running_environment, until_logged
from tests.harness.processes.nats_server import NatsServer
from tests.harness.session.waiting import eventually_async
from tests.integration.engine.test_waits import publish

CODE = """
import os
from pathlib import Path
from tieline import Batch, Context, Event, Integration, Retry

integration = Integration()
DONE = Path(os.environ["DONE"])


@integration.event("changed", batch=Batch(100, seconds=30, key="shop"), retry=Retry(attempts=1))
async def changed(ctx: Context, events: list[Event]) -> None:
    with DONE.open("a") as file:
        file.write(" ".join(str(one.payload["number"]) for one in events) + "\\n")
    if any(one.payload["number"] < 0 for one in events):
        raise RuntimeError("poisoned")
"""


@pytest.fixture
async def environment(engine: NatsServer, tmp_path: Path) -> AsyncIterator[EventEnvironment]:
    async with running_environment(engine, tmp_path, CODE) as found:
        yield found


async def test_batches_survive_pods_and_the_engine(environment: EventEnvironment) -> None:
    first = environment.pod()
    await until_logged(first, "Connected to the event engine")
    runs = [await publish(environment, "changed", shop="de", number=one) for one in range(10)]
    poisoned = [await publish(environment, "changed", shop="fr", number=one) for one in (-1, 50)]
    # It dies while it holds them, long before their time: that is no attempt.
    first.signal(signal.SIGKILL)
    await until_logged(environment.pod(), "Connected to the event engine")
    environment.engine.kill()
    environment.engine.start()

    async def have_ended() -> bool:
        good = [await environment.run(one) for one in runs]
        bad = [await environment.run(one) for one in poisoned]
        return all(one is not None and one.status == "succeeded" for one in good) and all(
            one is not None and one.status == "dead" for one in bad
        )

    await eventually_async("all events have ended", have_ended, within=180)
    await environment.until_nothing_waits()
    lines = [[int(one) for one in line.split()] for line in environment.lines()]
    assert {number for line in lines for number in line} == {*range(10), -1, 50}
    assert any(len(line) > 1 for line in lines)
