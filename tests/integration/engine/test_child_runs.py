"""Child runs with a real engine between pods as processes and the API: what it cancels wakes the parent."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.harness.processes.event_pods import event_environment
from tests.harness.processes.nats_server import NatsServer
from tests.harness.session.waiting import eventually_async
from tests.integration.engine.running_history import replica
from tests.integration.engine.test_pods_and_api import Platform
from tieline_api.use_cases import run_actions

CODE = """
import os
from datetime import timedelta
from pathlib import Path
from tieline import ChildRunError, Context, Event, Integration, Reject, Retry, SyncContext

integration = Integration()
DONE = Path(os.environ["DONE"])


def write(text):
    with DONE.open("a") as file:
        file.write(f"{text}\\n")


@integration.event("parent", key="customer")
async def parent(ctx: Context, event: Event) -> None:
    key = event.payload.get("key")
    try:
        payloads = [{**event.payload, "n": n} for n in range(event.payload.get("n", 1))]
        write(await ctx.gather(*(ctx.run("child", one, key=key) for one in payloads)))
    except ChildRunError as error:
        write(f"{error.status} {error.run_id}")


@integration.event("child", retry=Retry(attempts=2, first=0.1, longest=0.1))
def child(ctx: SyncContext, event: Event) -> int:
    write(f"begun {event.payload['n']}")
    if event.payload.get("dies") and event.attempt == 1:
        os._exit(9)
    if event.payload.get("rejects"):
        raise Reject("no")
    if event.payload.get("sleeps"):
        ctx.sleep("long", timedelta(days=1))
    return event.payload["n"]
"""


@pytest.fixture
async def platform(engine: NatsServer, tmp_path: Path) -> AsyncIterator[Platform]:
    admin = await engine.admin()
    environment = await event_environment(engine, admin, tmp_path, CODE)
    environment.pod()
    environment.pod()
    async with replica(engine, tmp_path / "api") as one:

        async def is_connected() -> bool:
            return one.engine.connected

        await eventually_async("the engine", is_connected)
        yield Platform(environment, one)
    environment.stop()
    await environment.admin.close()
    await admin.close()


async def child_of(platform: Platform, parent: str) -> str:
    """The run that a waiting parent has started."""

    async def found() -> str | None:
        run = await platform.until(parent, "waiting")
        attempts = await platform.one.history.attempts(platform.streams.organisation, run)
        return next((step.child for one in attempts.attempts for step in one.steps if step.child), None)

    return await eventually_async("the child", found)


async def is_quiet(platform: Platform) -> None:
    async def nothing_waits() -> bool:
        return await platform.environment.waits() == 0

    await eventually_async("the queue to be empty", nothing_waits)


@pytest.mark.parametrize("customer", [None, "ann"], ids=["without a key", "with a key"])
async def test_children_side_by_side_end_their_parent(platform: Platform, customer: str | None) -> None:
    payload = {"n": 5, "customer": customer}
    parents = [await platform.send("parent", payload, key=customer) for _ in range(3)]
    for parent in parents:
        run = await platform.until(parent, "succeeded")
        attempts = await platform.one.history.attempts(platform.streams.organisation, run)
        children = {step.child for one in attempts.attempts for step in one.steps}
        assert len(children) == 5
        for child in children:
            assert child is not None
            assert (await platform.until(child, "succeeded")).parent == parent
    lines = platform.environment.lines()
    assert [json.loads(line) for line in lines if line.startswith("[")] == [[0, 1, 2, 3, 4]] * 3
    assert sorted(line for line in lines if line.startswith("begun")) == sorted(
        f"begun {n}" for n in range(5) for _ in range(3)
    )
    await is_quiet(platform)


@pytest.mark.parametrize("key", [None, "k"], ids=["without a key", "with a key"])
async def test_a_child_that_is_cancelled_while_it_waits_wakes_its_parent(
    platform: Platform, key: str | None
) -> None:
    parent = await platform.send("parent", {"sleeps": True, "key": key})
    child = await child_of(platform, parent)
    waiting = await platform.until(child, "waiting")
    await run_actions.cancel(platform.dependencies, platform.streams.organisation, waiting)
    await platform.until(parent, "succeeded")
    assert platform.environment.lines()[-1] == f"cancelled {child}"
    assert (await platform.until(child, "cancelled")).parent == parent
    await is_quiet(platform)


async def test_a_dead_child_ends_its_parent_and_its_replay_has_none(platform: Platform) -> None:
    parent = await platform.send("parent", {"rejects": True})
    await platform.until(parent, "succeeded")
    status, child = platform.environment.lines()[-1].split()
    assert status == "dead"
    dead = await platform.until(child, "dead")
    again = await run_actions.replay(platform.dependencies, platform.streams.organisation, dead, b'{"n": 1}')
    assert again is not None
    assert (await platform.until(again.id, "succeeded")).parent is None
    assert platform.environment.lines()[-1] == "begun 1", "the parent went on a second time"
    await is_quiet(platform)
