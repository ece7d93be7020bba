"""Whatever dies between any two requests to the engine: each throttled event is run, and never more than may start."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict

import pytest

from tests.harness.session.seeds import seeds
from tests.unit.runtime.simulated_engine import LEASE, SimulatedEngine, SimulatedPod
from tieline.events.engine.queue import EngineQueue
from tieline.events.event import EventTask
from tieline.events.run_waits import RunWaits
from tieline.events.throttle import ThrottleRule
from tieline.execution.ulids import derived_ulid
from tieline.server.event_attempt import Attempt
from tieline_protocol.events import EventMetadata

pytestmark = pytest.mark.fast

LIMIT, PER = 3, 60.0
PODS = 3
SHOPS = 2
ROUNDS = 40


async def _nothing(*_given: object) -> None:
    """Stands for the code of a task, which the simulation calls itself."""


class Simulation:
    """Invoices that are sent to shops."""

    def __init__(self, seed: int, *, keyed: bool, behind: float = 0.0) -> None:
        self.engine = SimulatedEngine(seed, behind=behind)
        self._keyed = keyed
        rule = ThrottleRule(limit=LIMIT, per=PER, key="shop")
        task = EventTask(name="sync", handler=_nothing, is_async=True, arguments=2, throttle=rule)
        self._tasks = {"sync": task}
        self.pods: list[SimulatedPod] = []
        self.shops: dict[str, int] = {}
        self.began: dict[int, list[tuple[float, str]]] = defaultdict(list)

    async def code(self, waits: RunWaits, attempt: Attempt) -> None:
        run = attempt.metadata.run
        if attempt.metadata.attempt == 1 or attempt.metadata.throttled:
            self.began[self.shops[run]].append((self.engine.now, run))

    def new_pod(self) -> SimulatedPod:
        return SimulatedPod(self.engine, self.code, [], tasks=self._tasks)

    async def publish(self, shop: int) -> None:
        run = derived_ulid("01M8DEYCRJWCNN04VG9B6J510F", f"{len(self.shops)}")
        self.shops[run] = shop
        key = f"{shop} {len(self.shops) % 3}" if self._keyed else None
        metadata = EventMetadata(run=run, kind="event", task="sync", queued_at=self.engine.now, key=key)
        content = json.dumps({"shop": shop}).encode()
        assert await EngineQueue.publish(self.new_pod().queue, metadata, content)

    async def settle(self, moments: int) -> None:
        for _ in range(moments):
            while len(self.pods) < PODS:
                self.pods.append(self.new_pod())
            self.engine.fire()
            for stream, message in self.engine.deliverable():
                self.engine.chance.choice(self.pods).take(stream, message)
            await asyncio.sleep(0)

    async def rest(self) -> None:
        while True:
            await self.settle(30)
            while any(pod.busy for pod in self.pods):
                await self.settle(30)
            await self.pods[0].queue.keys.publish_lost_tokens()
            upcoming = self.engine.next_time
            if upcoming is None:
                return
            self.engine.now = max(self.engine.now, upcoming)

    async def live(self, *, deaths: float) -> None:
        chance = self.engine.chance
        for number in range(ROUNDS):
            for _ in range(chance.randrange(3)):
                await self.publish(chance.randrange(SHOPS))
            await self.settle(chance.choice([1, 5, 20, 60, 200]))
            if self.pods and chance.random() < deaths:
                await self.pods.pop(chance.randrange(len(self.pods))).kill()
            if self.pods and number % 5 == 0:
                await self.pods[0].queue.keys.publish_lost_tokens()
            if chance.random() < 0.5:
                # A run begins as much later than its turn as time passes between the two.
                while any(pod.busy for pod in self.pods):
                    await self.settle(5)
                self.engine.now += chance.choice([0.5, 5, LEASE + 1, 200])
        await self.rest()

    def check(self) -> None:
        ends: dict[str, set[str]] = defaultdict(set)
        for record in self.engine.history:
            if record.status in ("succeeded", "cancelled", "dead", "failed"):
                ends[record.id].add(record.status)
        assert ends.keys() == self.shops.keys(), "an event is lost"
        assert all(one == {"succeeded"} for one in ends.values()), "an event ended in another way"
        for shop, began in self.began.items():
            times = sorted(at for at, _ in began)
            for first, beyond in zip(times, times[LIMIT:], strict=False):
                # A start may count as up to a second earlier.
                assert beyond - first >= PER - 1, f"too many runs of shop {shop} began"
        assert not self.engine.later.messages, "an event still waits"
        assert not self.engine.queue.messages, "an event is still queued"


@pytest.mark.parametrize("keyed", [False, True], ids=["without keys", "with keys"])
@pytest.mark.parametrize("seed", seeds(8))
async def test_each_event_is_run_and_never_too_many(seed: int, keyed: bool) -> None:
    simulation = Simulation(seed, keyed=keyed, behind=0.15 if seed % 4 == 3 else 0.0)
    await simulation.live(deaths=0.4 if seed % 3 else 0.0)
    simulation.check()


async def test_events_start_in_their_order_where_nothing_dies() -> None:
    simulation = Simulation(99, keyed=False)
    for _ in range(20):
        await simulation.publish(0)
        await simulation.settle(300)
    await simulation.rest()
    simulation.check()
    began, published = [run for _, run in simulation.began[0]], list(simulation.shops)
    for at in range(0, len(published), LIMIT):
        # Those that start at the same time are taken by any pod.
        assert set(began[at : at + LIMIT]) == set(published[at : at + LIMIT])
    assert len([one for one in simulation.engine.runs.messages if ".~line." in one]) == 1
