"""Whatever dies between any two requests to the engine: each burst of events is run, once, with its newest event."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict

import pytest

from tests.harness.session.seeds import seeds
from tests.unit.runtime.simulated_engine import LEASE, SimulatedEngine, SimulatedPod
from tieline.events.debounce import DebounceRule
from tieline.events.engine.queue import EngineQueue
from tieline.events.engine.run_storage import RunStorage
from tieline.events.event import EventTask
from tieline.events.run_waits import RunWaits
from tieline.execution.ulids import derived_ulid
from tieline.server.event_attempt import Attempt
from tieline_protocol.events import EventMetadata

pytestmark = pytest.mark.fast

PERIOD, TIMEOUT = 40.0, 150.0
PODS = 3
PRODUCTS = 4
ROUNDS = 60
SLACK = 10 * LEASE


async def _nothing(*_given: object) -> None:
    """Stands for the code of a task, which the simulation calls itself."""


class Simulation:
    """Products that change."""

    def __init__(self, seed: int, *, keyed: bool, timeout: float | None, behind: float = 0.0) -> None:
        self.engine = SimulatedEngine(seed, behind=behind)
        self._keyed = keyed
        rule = DebounceRule(period=PERIOD, key="product", timeout=timeout)
        self._tasks = {
            "changed": EventTask(name="changed", handler=_nothing, is_async=True, arguments=2, debounce=rule)
        }
        self.pods: list[SimulatedPod] = []
        self.products: dict[str, int] = {}
        self.published_at: dict[str, float] = {}
        self.began: dict[str, list[float]] = defaultdict(list)

    async def code(self, waits: RunWaits, attempt: Attempt) -> None:
        run = attempt.metadata.run
        self.began[run].append(self.engine.now)

    def new_pod(self) -> SimulatedPod:
        return SimulatedPod(self.engine, self.code, [], tasks=self._tasks)

    async def publish(self, product: int, *, delay: float | None = None) -> None:
        run = derived_ulid("01M8DEYCRJWCNN04VG9B6J510F", f"{len(self.products)}")
        self.products[run], self.published_at[run] = product, self.engine.now
        metadata = EventMetadata(
            run=run,
            kind="event",
            task="changed",
            queued_at=self.engine.now,
            key=f"{product}" if self._keyed else None,
        )
        content = json.dumps({"product": product}).encode()
        until = None if delay is None else self.engine.now + delay
        assert await EngineQueue.publish(self.new_pod().queue, metadata, content, until=until)
        # Two events at the same moment have no order that the test could know.
        self.engine.now += 0.01

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
            await self.pods[0].queue.keys.publish_lost_tokens()
            upcoming = self.engine.next_time
            if upcoming is None or upcoming > until:
                return
            self.engine.now = max(self.engine.now, upcoming)

    async def live(self, *, deaths: float) -> None:
        chance = self.engine.chance
        for number in range(ROUNDS):
            for _ in range(chance.randrange(3)):
                await self.publish(chance.randrange(PRODUCTS))
            await self.settle(chance.choice([1, 5, 20, 60, 200]))
            if self.pods and chance.random() < deaths:
                await self.pods.pop(chance.randrange(len(self.pods))).kill()
            if self.pods and number % 5 == 0:
                await self.pods[0].queue.keys.publish_lost_tokens()
            if chance.random() < 0.5:
                self.engine.now += chance.choice([0.5, 5, 31, 70])
        await self.rest(self.engine.now + SLACK)

    def check_ends(self) -> dict[str, set[str]]:
        """How each event has ended, in one way."""
        ends: dict[str, set[str]] = defaultdict(set)
        for record in self.engine.history:
            if record.status in ("succeeded", "cancelled", "dead", "failed"):
                ends[record.id].add(record.status)
        assert ends.keys() == self.products.keys(), "an event is lost"
        assert all(len(one) == 1 for one in ends.values()), "an event ended in two ways"
        return ends

    def check(self) -> None:
        ends = self.check_ends()
        by = {
            record.id: record.error.message.partition("(run ")[2].rstrip(")")
            for record in self.engine.history
            if record.status == "cancelled" and record.error is not None
        }
        for product in range(PRODUCTS):
            runs = [run for run, one in self.products.items() if one == product]
            assert not runs or ends[runs[-1]] == {"succeeded"}, "the newest event did not run"
        for run, statuses in ends.items():
            if statuses == {"cancelled"}:
                assert not self.began[run], "an event that was superseded has run"
                assert self.products[by[run]] == self.products[run]
                assert self.published_at[by[run]] > self.published_at[run]
        assert not self.engine.later.messages, "an event still waits"
        assert not self.engine.queue.messages, "an event is still queued"


@pytest.mark.parametrize("keyed", [False, True], ids=["without keys", "with keys"])
@pytest.mark.parametrize("seed", seeds(8))
async def test_each_burst_is_run_with_its_newest_event(seed: int, keyed: bool) -> None:
    simulation = Simulation(
        seed, keyed=keyed, timeout=TIMEOUT if seed % 2 else None, behind=0.15 if seed % 4 == 3 else 0.0
    )
    await simulation.live(deaths=0.4 if seed % 3 else 0.0)
    await simulation.rest(simulation.engine.now + 60 * TIMEOUT)
    simulation.check()


async def test_a_burst_leaves_no_waits_and_one_kept_event() -> None:
    simulation = Simulation(99, keyed=False, timeout=None)
    for _ in range(5):
        await simulation.publish(1)
        await simulation.rest(simulation.engine.now + 1)
    kept = [one for one in simulation.engine.runs.messages if ".~kept." in one]
    waits = [one for one in simulation.engine.runs.messages if ".~wait." in one]
    assert (len(kept), len(waits)) == (1, 1)
    await simulation.rest(simulation.engine.now + 2 * PERIOD)
    simulation.check()
    assert not [one for one in simulation.engine.runs.messages if ".~wait." in one]


@pytest.mark.parametrize("seed", seeds(6))
async def test_a_delayed_event_outlives_the_pod_that_begins_to_debounce_it(seed: int) -> None:
    simulation = Simulation(seed, keyed=bool(seed % 2), timeout=None)
    await simulation.publish(1, delay=5)
    simulation.engine.now += 6
    for moments in range(1, 30, 3):
        await simulation.settle(moments)
        while simulation.pods:
            await simulation.pods.pop().kill()
        simulation.engine.now += 1.1 * LEASE
        if simulation.began:
            break
    await simulation.rest(simulation.engine.now + 60 * TIMEOUT)
    simulation.check()


@pytest.mark.parametrize("seed", seeds(8))
async def test_the_history_has_the_end_of_an_event_whose_pod_died_before_it_wrote_that(seed: int) -> None:
    simulation = Simulation(seed, keyed=False, timeout=None, behind=0.5)
    engine = simulation.engine
    for _ in range(4):
        await simulation.publish(1)
    struck: set[str] = set()
    for _ in range(300):
        await simulation.settle(1)
        written = {one.id for one in engine.history if one.ended_at is not None}
        marked = {one.split(".")[3] for one in engine.runs.messages if one.endswith(".ended")}
        if marked - written - struck:
            struck |= marked
            while simulation.pods:
                await simulation.pods.pop().kill()
            engine.now += 1.1 * LEASE
    await simulation.rest(engine.now + 60 * TIMEOUT)
    simulation.check_ends()


async def test_a_woken_event_that_has_ended_meanwhile_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that was woken can come twice. The server that the second pod asks first does not know the end yet."""
    read, stale = RunStorage.end_of, [True]

    async def end_of(self: RunStorage, run: str) -> bytes | None:
        return None if stale and stale.pop() else await read(self, run)

    simulation = Simulation(7, keyed=False, timeout=None)
    await simulation.publish(1)
    await simulation.rest(simulation.engine.now + 1)
    (run,) = simulation.products
    await simulation.pods[0].queue.runs.claim_end(run, b"")
    monkeypatch.setattr(RunStorage, "end_of", end_of)
    await simulation.rest(simulation.engine.now + 2 * PERIOD)
    assert not simulation.began
    assert not simulation.engine.queue.messages
    assert not simulation.engine.later.messages
    assert not [one for one in simulation.engine.runs.messages if ".~outcome." in one]
