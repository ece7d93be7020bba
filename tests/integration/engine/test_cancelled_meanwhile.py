"""Who cancels a run while a pod is about to have it wait: it does not come back, and its key goes on.

The moments are chosen: between what the pod stores there is somebody who cancels the run by the API's code.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.harness.processes.event_pods import LIMITS
from tests.harness.processes.nats_server import NatsServer
from tests.harness.session.waiting import eventually_async, until
from tests.integration.engine.running_history import replica
from tieline.events.engine.connection import EngineConnection
from tieline.events.engine.queue import EngineQueue
from tieline.events.queue import Delivery
from tieline_api.dependencies import Dependencies
from tieline_api.engine.waiting_limits import WaitingLimits
from tieline_api.use_cases import run_actions
from tieline_core.engine.streams import ensure_history
from tieline_core.identity.ids import new_id
from tieline_protocol.event_streams import EventStreams
from tieline_protocol.events import EventMetadata
from tieline_protocol.run_records import RunStatus

HOUR = 3600


class Pod(EngineQueue):
    """A pod's queue. ``moments`` are what happens once, before it stores that something waits, and after that."""

    def __init__(self, connection: EngineConnection) -> None:
        super().__init__(connection, lease=LIMITS.lease.total_seconds())
        self.moments: dict[str, Callable[[], Awaitable[None]]] = {}

    async def store_until(self, subject: str, target: str, *given: Any) -> bool:
        await self._moment("before it waits")
        stored = await super().store_until(subject, target, *given)
        await self._moment("once it waits")
        return stored

    async def _moment(self, name: str) -> None:
        if happens := self.moments.pop(name, None):
            await happens()


@dataclass
class Stage:
    """An environment with one pod, whose runs wait for an hour, or end."""

    dependencies: Dependencies
    streams: EventStreams
    pod: Pod
    waits: Callable[[], Awaitable[int]]
    fails: set[str] = field(default_factory=set)
    """Runs that are to be tried again."""
    kept: dict[str, bool] = field(default_factory=dict)
    """What became of these: whether they wait."""
    done: list[str] = field(default_factory=list)

    async def send(self, key: str | None, *, fails: bool = False) -> str:
        metadata = EventMetadata(run=new_id(), kind="event", task="task", queued_at=time.time(), key=key)
        if fails:
            self.fails.add(metadata.run)
        await run_actions.publish(self.dependencies, self.streams, metadata, b"{}")
        return metadata.run

    async def cancel(self, run: str, status: RunStatus = "waiting") -> None:
        """As somebody does who has seen it in this status."""
        organisation, environments = self.streams.organisation, (self.streams.environment,)
        found = await self.dependencies.runs.get(organisation, environments, run)
        assert found is not None
        await run_actions.cancel(self.dependencies, organisation, replace(found, status=status))

    async def handle(self, delivery: Delivery) -> None:
        run = delivery.metadata.run
        if run in self.fails:
            again = replace(delivery.metadata, attempt=2)
            self.kept[run] = await delivery.wait(again, time.time() + HOUR)
        else:
            await delivery.done()
            self.done.append(run)


@asynccontextmanager
async def _running(pod: Pod, stage: Stage) -> AsyncIterator[None]:
    connecting = asyncio.create_task(pod.connection.run())
    running = asyncio.create_task(pod.run(stage.handle, capacity=10, cancel=lambda run: None))
    try:
        yield
    finally:
        for task in (running, connecting):
            task.cancel()
        await asyncio.gather(running, connecting, return_exceptions=True)
        await pod.drain(0)
        await pod.connection.close()


@pytest.fixture
async def stage(engine: NatsServer, tmp_path: Path) -> AsyncIterator[Stage]:
    streams = EventStreams(new_id(), new_id())
    await engine.make_environment(streams, LIMITS)
    admin = await engine.admin()
    await ensure_history(admin.jetstream(), streams.organisation, LIMITS)
    own = await engine.environment(streams)
    now = datetime.now(UTC)
    credentials = tmp_path / "engine.creds"
    expires = now + timedelta(hours=1)
    credentials.write_text(engine.trust.pod_credentials(streams, at=now, expires=expires))
    pod = Pod(EngineConnection(urls=[engine.url], credentials_file=credentials, streams=streams))

    async def waits() -> int:
        jetstream = own.jetstream()
        names = (streams.queue, streams.later)
        return sum([(await jetstream.stream_info(name)).state.messages for name in names])

    async with replica(engine, tmp_path / "api") as one:

        async def is_connected() -> bool:
            return one.engine.connected

        await eventually_async("the engine", is_connected)
        dependencies = cast(
            Dependencies,
            SimpleNamespace(
                engine=one.engine,
                environments=one.environments,
                waiting_limits=WaitingLimits(one.environments),
                cluster=SimpleNamespace(namespace_of=lambda _organisation: None),
                runs=one.history,
            ),
        )
        found = Stage(dependencies, streams, pod, waits)
        async with _running(pod, found):
            yield found
    await own.close()
    await admin.close()


@pytest.mark.parametrize("moment", ["before it waits", "once it waits"])
@pytest.mark.parametrize("key", [None, "ann"])
async def test_a_run_that_is_cancelled_as_it_begins_to_wait_does_not_come_back(
    stage: Stage, key: str | None, moment: str
) -> None:
    cancelled: list[str] = []

    async def cancel() -> None:
        cancelled.extend(stage.fails)
        await stage.cancel(*stage.fails)

    stage.pod.moments[moment] = cancel
    run = await stage.send(key, fails=True)
    await _settled(stage, run)
    assert cancelled == [run]
    assert stage.kept == {run: False}
    behind = await stage.send(key)
    await _empty(stage)
    await until(lambda: stage.done == [behind])
    found = await stage.dependencies.runs.get(stage.streams.organisation, (stage.streams.environment,), run)
    assert found is not None
    assert found.status == "cancelled"


@pytest.mark.parametrize("moment", ["before it waits", "once it waits"])
async def test_a_key_goes_on_when_the_run_it_waits_with_is_cancelled_as_another_event_comes(
    stage: Stage, moment: str
) -> None:
    run = await stage.send("ann", fails=True)
    await _settled(stage, run)
    assert stage.kept == {run: True}
    # A pod looks at the key, since there is an event more, and lets it wait on.
    stage.pod.moments[moment] = lambda: stage.cancel(run)
    behind = await stage.send("ann")
    await _empty(stage)
    await until(lambda: stage.done == [behind])


async def test_pods_that_get_a_run_later_know_that_it_was_cancelled_while_it_ran(stage: Stage) -> None:
    run = await stage.send(None, fails=True)
    await _settled(stage, run)
    assert not await stage.pod.runs.is_cancelled(run)
    await stage.cancel(run, "running")
    assert await stage.pod.runs.is_cancelled(run)


async def _settled(stage: Stage, run: str) -> None:
    async def is_settled() -> bool:
        return run in stage.kept and stage.pod.in_flight == 0

    await eventually_async("the run to wait, or to end", is_settled, within=20)


async def _empty(stage: Stage) -> None:
    async def is_empty() -> bool:
        return await stage.waits() == 0 and stage.pod.in_flight == 0

    async def seen() -> object:
        return await stage.waits(), stage.done, stage.kept

    await eventually_async("nothing to wait", is_empty, within=20, seen=seen)
