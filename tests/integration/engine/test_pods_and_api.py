"""What the API sends pods run, and what they report the API shows: both sides of the engine at once."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.harness.processes.event_pods import EventEnvironment, event_environment
from tests.harness.processes.nats_server import NatsServer
from tests.harness.session.waiting import eventually_async
from tests.integration.engine.running_history import Replica, replica
from tieline_api.dependencies import Dependencies
from tieline_api.engine.waiting_limits import WaitingLimits
from tieline_api.runs.model import PageRequest, Run, RunFilter
from tieline_api.use_cases import run_actions
from tieline_core.identity.ids import new_id
from tieline_protocol.events import EventMetadata

CODE = """
import asyncio, os
from pathlib import Path
from tieline import Context, Event, Integration, Retry

integration = Integration()
DONE = Path(os.environ["DONE"])
QUICK = Retry(attempts=2, first=0.1, longest=0.1)


def write(text):
    with DONE.open("a") as file:
        file.write(f"{text}\\n")


@integration.event("order.created", key="customer", retry=QUICK)
async def created(ctx: Context, event: Event) -> None:
    write(f"{event.payload['customer']} {event.payload['number']}")
    await ctx.step("book", lambda: 7)


@integration.event("stubborn", retry=QUICK)
async def stubborn(ctx: Context, event: Event) -> None:
    if event.payload.get("good"):
        return
    raise ValueError("never")


@integration.event("slow", retry=Retry(attempts=5, first=3600))
async def slow(ctx: Context, event: Event) -> None:
    write("begun")
    if event.payload.get("fails"):
        raise ValueError("later")
    await asyncio.sleep(60)
"""


class Platform:
    """An environment with a pod, and a replica of the API."""

    def __init__(self, environment: EventEnvironment, one: Replica) -> None:
        self.environment = environment
        self.streams = environment.streams
        self.one = one
        self.dependencies = cast(
            Dependencies,
            SimpleNamespace(
                engine=one.engine,
                environments=one.environments,
                waiting_limits=WaitingLimits(one.environments),
                cluster=SimpleNamespace(namespace_of=lambda _organisation: None),
                runs=one.history,
            ),
        )

    async def send(self, task: str, payload: Any, *, delay: float = 0.0, **fields: Any) -> str:
        """What POST …/events does."""
        now = time.time()
        metadata = EventMetadata(run=new_id(), kind="event", task=task, queued_at=now, **fields)
        at = datetime.now(UTC) + timedelta(seconds=delay) if delay else None
        await run_actions.publish(
            self.dependencies, self.streams, metadata, json.dumps(payload).encode(), at=at
        )
        return metadata.run

    async def run(self, identifier: str) -> Run:
        found = await self.one.history.get(self.streams.organisation, (self.streams.environment,), identifier)
        assert found is not None
        return found

    async def until(self, identifier: str, status: str) -> Run:
        async def is_so() -> Run | None:
            found = await self.run(identifier)
            return found if found.status == status else None

        return await eventually_async(f"{identifier} to be {status}", is_so)


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


async def test_events_that_the_api_sends_run_and_are_shown(platform: Platform) -> None:
    runs = [
        await platform.send(
            "order.created", {"customer": "ann", "number": number}, key="ann", event_id=f"{number}"
        )
        for number in range(5)
    ]
    later = await platform.send("order.created", {"customer": "ben", "number": 1}, key="ben", delay=1.0)
    for run in (*runs, later):
        found = await platform.until(run, "succeeded")
        assert (found.attempt, found.version, found.task) == (1, "v1", "order.created")
        attempts = await platform.one.history.attempts(platform.streams.organisation, found)
        assert [step.name for one in attempts.attempts for step in one.steps] == ["book"]
        given = await platform.one.history.input(platform.streams.organisation, found)
        assert given is not None
        assert json.loads(given.payload)["customer"] in ("ann", "ben")
    lines = platform.environment.lines()
    assert [line for line in lines if line.startswith("ann")] == [f"ann {number}" for number in range(5)]
    page = await platform.one.history.page(
        RunFilter(organisation=platform.streams.organisation), PageRequest(first=10)
    )
    assert [run.id for run in page.runs] == [later, *reversed(runs)]


async def test_a_dead_run_is_run_again(platform: Platform) -> None:
    dead = await platform.until(await platform.send("stubborn", {"good": False}), "dead")
    assert dead.error is not None
    assert dead.error.type.endswith("ValueError")
    again = await run_actions.replay(platform.dependencies, platform.streams.organisation, dead)
    assert again is not None
    assert (await platform.until(again.id, "dead")).replay_of == dead.id
    good = await run_actions.replay(
        platform.dependencies, platform.streams.organisation, dead, b'{"good": true}'
    )
    assert good is not None
    assert (await platform.until(good.id, "succeeded")).replay_of == dead.id


@pytest.mark.parametrize(("payload", "status"), [({}, "running"), ({"fails": True}, "waiting")])
@pytest.mark.parametrize("key", [None, "ann"])
async def test_a_run_is_cancelled_and_what_is_behind_it_goes_on(
    platform: Platform, payload: dict[str, Any], status: str, key: str | None
) -> None:
    run = await platform.until(await platform.send("slow", payload, key=key), status)
    behind = await platform.send("order.created", {"customer": "cid", "number": 1}, key=key)
    await run_actions.cancel(platform.dependencies, platform.streams.organisation, run)
    await platform.until(run.id, "cancelled")
    await platform.until(behind, "succeeded")

    async def is_empty() -> bool:
        return await platform.environment.waits() == 0

    await eventually_async("the queue to be empty", is_empty)
