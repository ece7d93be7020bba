"""Whatever dies between any two requests to the engine: each child starts once, and its parent sees how it ended."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from typing import Any

import pytest

from tests.harness.session.seeds import seeds
from tests.unit.runtime.simulated_engine import LEASE, STREAMS, SimulatedEngine, SimulatedPod, connection_to
from tieline.events.engine.queue import EngineQueue
from tieline.events.event import EventTask
from tieline.events.publisher import Publisher
from tieline.events.retry import Reject
from tieline.events.run_children import ChildRunError, RunChildren, result_text
from tieline.events.run_waits import IN_OWN_TASK, RunWaits
from tieline.events.side_by_side import side_by_side
from tieline.execution.ulids import derived_ulid
from tieline.server.event_attempt import Attempt
from tieline_protocol.events import EventMetadata
from tieline_protocol.waits import MAX_KEEP_SECONDS, WaitRule

pytestmark = pytest.mark.fast

LONG, SHORT = 4000.0, 40.0
PODS = 3
RUNS = 15
ROUNDS = 60
SENT = WaitRule(name="sent", fields=("order",))
REVOKED = WaitRule(name="revoked", fields=("order",), keep=MAX_KEEP_SECONDS, cancels=True)
SLACK = 10 * LEASE
"""What may pass until something is handed out after a death, and lost tokens of keys are found."""


async def _nothing(*_given: Any) -> None:
    """Stands for the code of a task, which the simulation calls itself."""


class StrictQueue(EngineQueue):
    """Refuses to start what waits for its time."""

    def __init__(self, engine: SimulatedEngine) -> None:
        super().__init__(connection_to(engine), lease=LEASE, clock=engine.clock)
        self._engine = engine

    async def publish(self, metadata: EventMetadata, payload: bytes, *, until: float | None = None) -> bool:
        waits = STREAMS.waiting(metadata.run) in self._engine.later.messages
        stored = await super().publish(metadata, payload, until=until)
        assert not (stored and waits), "a child was started that waited"
        return stored


class Simulation:
    """Parents with two children each, of which some have a child, fail, or take long."""

    def __init__(
        self, seed: int, *, keyed: bool, timeout: float, beside: bool = False, behind: float = 0.0
    ) -> None:
        self.engine = SimulatedEngine(seed, behind=behind)
        self._keyed = keyed
        self._timeout = timeout
        self._beside = beside
        self._calm_at = 0.0
        self.pods: list[SimulatedPod] = []
        self.parents: set[str] = set()
        self.seen: dict[tuple[str, str], set[tuple[str, str]]] = defaultdict(set)
        """How a child ended, as its parent saw it, and the child's run."""
        self.seen_at: dict[tuple[str, str], float] = {}
        self.begun: dict[tuple[str, str], set[str]] = defaultdict(set)
        """Runs of a child, by its parent and name."""
        self._tasks = {
            name: EventTask(name=name, handler=_nothing, is_async=True, arguments=2)
            for name in ("parent", "child")
        }

    async def code(self, waits: RunWaits, attempt: Attempt) -> None:
        metadata = attempt.metadata
        queue = StrictQueue(self.engine)
        children = RunChildren(
            waits,
            Publisher(queue, self._tasks, clock=self.engine.clock),
            queue,
            metadata=metadata,
            key_hash=attempt.delivery.key_hash,
        )
        name = attempt.delivery.payload.decode().strip('"')
        if metadata.parent is not None:
            self.begun[metadata.parent.run, name].add(metadata.run)

        async def run(child: str) -> None:
            key = f"{name}/{child}" if self._keyed else None
            try:
                found = await children.run(
                    "child", child, self._timeout, IN_OWN_TASK, key=key, user=None, traceparent=None
                )
            except ChildRunError as error:
                seen = error.status, error.run_id
            else:
                assert found == {"did": child}
                seen = "succeeded", ""
            if self._has_ended(metadata.run):
                # Another pod has ended it meanwhile. Nothing becomes of this attempt, whose steps are gone.
                return
            self.seen[metadata.run, child].add(seen)
            self.seen_at.setdefault((metadata.run, child), self.engine.now)

        if metadata.task == "parent":
            if self._beside:
                await side_by_side([run("good"), run("bad"), run("nests")])
            else:
                await run("good")
                await run("nests")
                await run("bad")
            return
        if name == "nests":
            await run("good")
        if name == "bad":
            raise Reject("no")
        attempt.result = result_text(name, {"did": name})

    def _ends(self) -> dict[str, tuple[str, float]]:
        """How each run ended first, and when."""
        found: dict[str, tuple[str, float]] = {}
        for record in self.engine.history:
            if record.status in ("succeeded", "dead", "cancelled"):
                found.setdefault(record.id, (record.status, record.at))
        return found

    def _has_ended(self, run: str) -> bool:
        return run in self._ends()

    async def begin_run(self, number: int) -> None:
        metadata = EventMetadata(
            run=derived_ulid("01M8DEYCRJWCNN04VG9B6J510F", f"{number}"),
            kind="event",
            task="parent",
            queued_at=self.engine.now,
            key=f"{number % 3}" if self._keyed else None,
        )
        self.parents.add(metadata.run)
        publisher = SimulatedPod(self.engine, self.code, [])
        assert await EngineQueue.publish(publisher.queue, metadata, f'"{number}"'.encode())

    def new_pod(self) -> SimulatedPod:
        return SimulatedPod(self.engine, self.code, [])

    async def settle(self, moments: int) -> None:
        """Pods do some of what there is to do."""
        for _ in range(moments):
            while len(self.pods) < PODS:
                pod = self.new_pod()
                await pod.start()
                self.pods.append(pod)
            self.engine.fire()
            for stream, message in self.engine.deliverable():
                self.engine.chance.choice(self.pods).take(stream, message)
            await asyncio.sleep(0)

    async def rest(self, until: float) -> None:
        """Let time go by without deaths, until nothing is left to do."""
        while True:
            await self.settle(30)
            while any(pod.busy for pod in self.pods):
                await self.settle(30)
            # As each pod does once a minute.
            await self.pods[0].queue.keys.publish_lost_tokens()
            upcoming = self.engine.next_time
            if upcoming is None or upcoming > until:
                return
            self.engine.now = max(self.engine.now, upcoming)

    async def live(self, *, deaths: float) -> None:
        chance = self.engine.chance
        for number in range(ROUNDS):
            if number < RUNS:
                await self.begin_run(number)
            await self.disturb(number)
            await self.settle(chance.choice([1, 5, 20, 60, 200]))
            if self.pods and chance.random() < deaths:
                await self.pods.pop(chance.randrange(len(self.pods))).kill()
            if self.pods and number % 5 == 0:
                await self.pods[0].queue.keys.publish_lost_tokens()
            if chance.random() < 0.4:
                # Beyond the time for which the engine knows ids, too.
                self.engine.now += chance.choice([0.5, 5, 31, 70, 200])
        self._calm_at = self.engine.now
        await self.rest(self.engine.now + SLACK)

    async def disturb(self, number: int) -> None:
        """What else happens in a round."""

    def check_ended(self) -> None:
        ends = self._ends()
        assert self.parents <= ends.keys(), "a parent has not ended"
        assert all(ends[run][0] == "succeeded" for run in self.parents)
        assert all(len(runs) == 1 for runs in self.begun.values()), "two children were started"
        for run in self.parents:
            assert {name for parent, name in self.seen if parent == run} == {"good", "bad", "nests"}
        for (parent, name), seen in self.seen.items():
            ((status, run),) = seen
            (child,) = self.begun[parent, name] or {run}
            if status == "timed_out":
                continue
            assert ends[child][0] == status, "the parent saw another end than the history"
        assert not self.engine.later.messages, "a run still waits"
        assert not self.engine.queue.messages, "something is still queued"

    def check_woken(self) -> None:
        """A parent went on soon after its child's end, once nothing dies any more: not only when its time was over."""
        ends = self._ends()
        for (parent, name), seen_at in self.seen_at.items():
            for child in self.begun[parent, name]:
                assert seen_at <= max(ends[child][1], self._calm_at) + SLACK, f"{name} of {parent} woke late"


class CancelledChildren(Simulation):
    """Parents that each wait for a shipment, which waits to be sent, and events that cancel some of the shipments."""

    async def code(self, waits: RunWaits, attempt: Attempt) -> None:
        metadata, order = attempt.metadata, json.loads(attempt.delivery.payload)["order"]
        if metadata.task == "child":
            assert metadata.parent is not None
            self.begun[metadata.parent.run, "shipment"].add(metadata.run)
            index = SENT.index({"order": order}, None)
            await waits.wait_for(SENT.name, index, self._timeout, keep=SENT.keep)
            attempt.result = result_text("child", {"sent": order})
            return
        queue = StrictQueue(self.engine)
        children = RunChildren(
            waits,
            Publisher(queue, self._tasks, clock=self.engine.clock),
            queue,
            metadata=metadata,
            key_hash=attempt.delivery.key_hash,
        )
        key = order if self._keyed else None
        try:
            found = await children.run(
                "child", {"order": order}, 9 * LONG, IN_OWN_TASK, key=key, user=None, traceparent=None
            )
        except ChildRunError as error:
            seen = error.status, error.run_id
        else:
            assert found == {"sent": order}
            seen = "succeeded", ""
        if not self._has_ended(metadata.run):
            self.seen[metadata.run, "shipment"].add(seen)
            self.seen_at.setdefault((metadata.run, "shipment"), self.engine.now)

    def new_pod(self) -> SimulatedPod:
        return SimulatedPod(self.engine, self.code, [SENT, REVOKED], {"child": REVOKED})

    async def begin_run(self, number: int) -> None:
        key = f"{number % 3}" if self._keyed else None
        self.parents.add(await self._publish("parent", f"parent {number}", number, key=key))

    async def disturb(self, number: int) -> None:
        chance = self.engine.chance
        if chance.random() < 0.5:
            task = chance.choice(["sent", "revoked", "revoked"])
            await self._publish(task, f"{task} {number}", chance.randrange(min(number + 1, RUNS)))

    async def _publish(self, task: str, name: str, order: int, *, key: str | None = None) -> str:
        run = derived_ulid("01M8DEYCRJWCNN04VG9B6J510F", name)
        metadata = EventMetadata(run=run, kind="event", task=task, queued_at=self.engine.now, key=key)
        content = json.dumps({"order": f"{order}"}).encode()
        assert await EngineQueue.publish(self.new_pod().queue, metadata, content)
        return run

    def check_seen(self) -> None:
        ends = self._ends()
        assert self.parents <= ends.keys(), "a parent has not ended"
        for run in self.parents:
            ((status, _),) = self.seen[run, "shipment"]
            (child,) = self.begun.get((run, "shipment")) or {found for _, found in self.seen[run, "shipment"]}
            assert ends[child][0] == status, "the parent saw another end than the history"
            seen_at = self.seen_at[run, "shipment"]
            assert seen_at <= max(ends[child][1], self._calm_at) + SLACK, f"{run} woke late"
        assert not self.engine.later.messages, "a run still waits"
        assert not self.engine.queue.messages, "something is still queued"


@pytest.mark.parametrize("keyed", [False, True], ids=["without keys", "with keys"])
@pytest.mark.parametrize("seed", seeds(8))
async def test_a_child_that_an_event_cancels_wakes_its_parent(seed: int, keyed: bool) -> None:
    simulation = CancelledChildren(seed, keyed=keyed, timeout=LONG, behind=0.1 if seed % 4 == 3 else 0.0)
    await simulation.live(deaths=0.4 if seed % 3 else 0.0)
    await simulation.rest(simulation.engine.now + 60 * LONG)
    simulation.check_seen()
    statuses = {status for seen in simulation.seen.values() for status, _ in seen}
    assert statuses == {"cancelled", "succeeded"}, "the simulation shows only one of the two"


@pytest.mark.parametrize("keyed", [False, True], ids=["without keys", "with keys"])
@pytest.mark.parametrize("seed", seeds(30))
async def test_each_child_is_started_once_and_wakes_its_parent(seed: int, keyed: bool) -> None:
    timeout = SHORT if seed % 5 == 4 else LONG
    simulation = Simulation(seed, keyed=keyed, timeout=timeout, beside=seed % 3 == 0)
    await simulation.live(deaths=0.4 if seed % 4 else 0.0)
    await simulation.rest(simulation.engine.now + 20 * LONG)
    simulation.check_ended()
    simulation.check_woken()


@pytest.mark.parametrize("keyed", [False, True], ids=["without keys", "with keys"])
@pytest.mark.parametrize("seed", seeds(4))
async def test_servers_that_are_behind_lose_no_end(seed: int, keyed: bool) -> None:
    simulation = Simulation(seed, keyed=keyed, timeout=LONG, beside=seed % 2 == 0, behind=0.1)
    await simulation.live(deaths=0.3)
    await simulation.rest(simulation.engine.now + 20 * LONG)
    simulation.check_ended()
    simulation.check_woken()
