"""Whatever dies between any two requests to the engine: each event runs in a batch, and ends as that does."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.harness.session.seeds import seeds
from tests.unit.runtime.simulated_engine import LEASE, SimulatedEngine, SimulatedPod
from tieline.events.batch import BatchRule
from tieline.events.engine.queue import EngineQueue
from tieline.events.event import EventTask
from tieline.events.retry import Reject
from tieline.events.run_waits import RunWaits
from tieline.events.stored_batch import events_of
from tieline.execution.ulids import derived_ulid
from tieline.server.event_attempt import Attempt
from tieline.server.event_batches import EventBatches
from tieline_protocol.events import EventMetadata

pytestmark = pytest.mark.fast

PODS = 3
SHOPS = 3
ROUNDS = 60
POISON = 13
CALM = 7200.0
RULE = BatchRule(size=4, seconds=5, key="shop")


async def _nothing(*_given: object) -> None:
    """Stands for the code of a task, which the simulation calls itself."""


TASK = EventTask(name="changed", handler=_nothing, is_async=True, arguments=2, batch=RULE)


class Simulation:
    """Events of shops, some of which fail their batch."""

    def __init__(self, seed: int, *, behind: float = 0.0) -> None:
        self.engine = SimulatedEngine(seed, behind=behind)
        self.pods: list[SimulatedPod] = []
        self.numbers: dict[str, int] = {}
        self.batches: dict[str, tuple[str, ...]] = {}

    def new_pod(self) -> SimulatedPod:
        async def code(waits: RunWaits, attempt: Attempt) -> None:
            if attempt.metadata.batch:
                self.run_batch(attempt)
            else:
                await batches.join(attempt, TASK, RULE)

        pod = SimulatedPod(self.engine, code, [], tasks={TASK.name: TASK})

        async def store_batch(metadata: EventMetadata, content: bytes, *, attempts: int) -> None:
            await pod.queue.requeue(metadata, content)

        batches = EventBatches(
            cast(Any, SimpleNamespace(store_batch=store_batch)),
            cast(Any, SimpleNamespace(active=0, most=50)),
            clock=self.engine.clock,
            waits=False,
        )
        return pod

    def run_batch(self, attempt: Attempt) -> None:
        metadata = attempt.metadata
        events = events_of(attempt.delivery.payload, metadata, attempt=attempt.number)
        assert 1 <= len(events) <= RULE.size
        assert len({one.payload["shop"] for one in events}) == 1
        members = tuple(one.run_id for one in events)
        assert self.batches.setdefault(metadata.run, members) == members, "a retry has other members"
        if any(one.payload["number"] % POISON == 0 for one in events):
            raise Reject("poisoned")

    async def publish(self) -> None:
        number = len(self.numbers)
        run = derived_ulid("01M8DEYCRJWCNN04VG9B6J510F", f"{number}")
        self.numbers[run] = number
        metadata = EventMetadata(run=run, kind="event", task="changed", queued_at=self.engine.now)
        content = json.dumps({"number": number, "shop": self.engine.chance.randrange(SHOPS)}).encode()
        assert await EngineQueue.publish(self.new_pod().queue, metadata, content)

    async def settle(self, moments: int) -> None:
        for _ in range(moments):
            while len(self.pods) < PODS:
                self.pods.append(self.new_pod())
            self.engine.fire()
            for stream, message in self.engine.deliverable():
                self.engine.chance.choice(self.pods).take(stream, message)
            await asyncio.sleep(0)

    async def rest(self, until: float) -> None:
        while True:
            await self.settle(30)
            while any(pod.busy for pod in self.pods):
                await self.settle(30)
            upcoming = self.engine.next_time
            if upcoming is None or upcoming > until:
                return
            self.engine.now = max(self.engine.now, upcoming)

    async def live(self, *, deaths: float) -> None:
        chance = self.engine.chance
        for _ in range(ROUNDS):
            for _ in range(chance.randrange(4)):
                await self.publish()
            await self.settle(chance.choice([1, 5, 20, 60, 200]))
            if self.pods and chance.random() < deaths:
                await self.pods.pop(chance.randrange(len(self.pods))).kill()
            if chance.random() < 0.5:
                self.engine.now += chance.choice([0.5, 5, 31])
        await self.rest(self.engine.now + CALM)

    def check(self) -> None:
        ends: dict[str, set[str]] = defaultdict(set)
        for record in self.engine.history:
            if record.status in ("succeeded", "cancelled", "dead", "failed"):
                ends[record.id].add(record.status)
        assert ends.keys() == self.numbers.keys() | self.batches.keys(), "a run is lost"
        assert all(len(one) == 1 for one in ends.values()), "a run ended in two ways"
        of_member: dict[str, set[str]] = defaultdict(set)
        for batch, members in self.batches.items():
            for member in members:
                of_member[member] |= ends[batch]
        for run, number in self.numbers.items():
            (end,) = ends[run]
            assert of_member[run], "an event did not run"
            assert ("failed" if end == "dead" else end) in of_member[run], "an event ended otherwise"
            assert number % POISON or end == "dead"
        assert not self.engine.later.messages, "a run still waits"
        assert not self.engine.queue.messages, "an event is still queued"


@pytest.mark.parametrize("seed", seeds(8))
async def test_each_event_ends_as_its_batch_does(seed: int) -> None:
    simulation = Simulation(seed, behind=0.15 if seed % 4 == 3 else 0.0)
    await simulation.live(deaths=0.4 if seed % 3 else 0.0)
    simulation.check()


async def test_events_that_come_together_share_a_batch() -> None:
    simulation = Simulation(99)
    for _ in range(30):
        await simulation.publish()
    await simulation.rest(simulation.engine.now + LEASE)
    simulation.check()
    assert len(simulation.batches) < len(simulation.numbers)
