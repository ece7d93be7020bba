"""A run begins at a step of another: with its results, in code that was corrected, on a real engine with a pod."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.harness.processes.event_pods import event_environment
from tests.harness.processes.nats_server import NatsServer
from tests.harness.session.waiting import eventually_async
from tests.integration.engine.running_history import replica
from tests.integration.engine.test_pods_and_api import Platform
from tieline_api.errors import ApiError
from tieline_api.runs.ended_steps import StepName
from tieline_api.runs.model import Run
from tieline_api.use_cases import run_forks

CODE = """
import os
from datetime import timedelta
from pathlib import Path
from tieline import Context, Event, Integration, Retry

integration = Integration()
DONE = Path(os.environ["DONE"])
FIXED = DONE.with_suffix(".fixed")
integration.waits_for("paid", match=["order"])


def write(text):
    with DONE.open("a") as file:
        file.write(f"{text}\\n")


def book():
    write("book")
    return {"booking": 7}


def ship(booking, amount):
    if not FIXED.exists():
        raise ValueError("a bug")
    write(f"ship {booking} {amount}")
    return "shipped"


@integration.event("order", retry=Retry(attempts=1))
async def order(ctx: Context, event: Event) -> None:
    booked = await ctx.step("book", book)
    paid = await ctx.wait_for("paid", match={"order": event.payload["id"]}, timeout=timedelta(days=1))
    await ctx.sleep("nap", 0.1)
    if FIXED.exists() and event.payload.get("changes"):
        await ctx.step("check", write, "check")
    await ctx.step("ship", ship, booked["booking"], paid.payload["amount"])
"""


@pytest.fixture
async def platform(engine: NatsServer, tmp_path: Path) -> AsyncIterator[Platform]:
    admin = await engine.admin()
    environment = await event_environment(engine, admin, tmp_path, CODE)
    environment.pod()
    async with replica(engine, tmp_path / "api") as one:

        async def is_connected() -> bool:
            return one.engine.connected

        await eventually_async("the engine", is_connected)
        yield Platform(environment, one)
    environment.stop()
    await environment.admin.close()
    await admin.close()


async def dead_order(platform: Platform, **payload: object) -> Run:
    run = await platform.send("order", {"id": "A-1", **payload})
    await platform.until(run, "waiting")
    await platform.send("paid", {"order": "A-1", "amount": 480})
    return await platform.until(run, "dead")


def fix(platform: Platform) -> None:
    platform.environment.done.with_suffix(".fixed").touch()


async def test_a_dead_run_goes_on_at_the_step_that_failed(platform: Platform) -> None:
    organisation = platform.streams.organisation
    dead = await dead_order(platform)
    fix(platform)
    made = await run_forks.fork(platform.dependencies, organisation, dead, StepName("ship"))
    ended = await platform.until(made.id, "succeeded")
    # Neither booked nor waited again: the payment is that of the first run.
    assert [line.split()[0] for line in platform.environment.lines()] == ["book", "ship"]
    assert platform.environment.lines()[-1] == "ship 7 480"
    assert ended.replay_of == dead.id
    assert (await platform.run(dead.id)).replayed_by == made.id
    (attempt,) = (await platform.one.history.attempts(organisation, ended)).attempts
    assert [(one.name, one.recorded) for one in attempt.steps] == [
        ("book", True), ("wait: paid", True), ("sleep: nap", True), ("ship", False),
    ]  # fmt: skip
    # The dead letter is gone, and its results are kept: what was run again can be once more, and so can the new run.
    for origin in (await platform.run(dead.id), ended):
        again = await run_forks.fork(platform.dependencies, organisation, origin, StepName("ship"))
        await platform.until(again.id, "succeeded")
    assert [line.split()[0] for line in platform.environment.lines()] == ["book", "ship", "ship", "ship"]


async def test_code_that_asks_for_other_steps_before_it_is_stopped(platform: Platform) -> None:
    organisation = platform.streams.organisation
    dead = await dead_order(platform, changes=True)
    fix(platform)
    made = await run_forks.fork(platform.dependencies, organisation, dead, StepName("ship"))
    await platform.until(made.id, "succeeded")
    platform.environment.done.with_suffix(".fixed").unlink()
    stopped = await run_forks.fork(
        platform.dependencies, organisation, await platform.run(made.id), StepName("ship")
    )
    found = await platform.until(stopped.id, "dead")
    assert found.error is not None
    assert found.error.type.endswith("StepsChangedError")
    assert "'check'" in found.error.message


async def test_a_step_that_does_not_exist_begins_nothing(platform: Platform) -> None:
    dead = await dead_order(platform)
    with pytest.raises(ApiError) as refused:
        await run_forks.fork(platform.dependencies, platform.streams.organisation, dead, StepName("nope"))
    assert refused.value.status == 422
    assert (await platform.run(dead.id)).replayed_by is None
