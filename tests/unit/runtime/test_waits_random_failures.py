"""Whatever dies between any two requests to the engine: each wait ends once, with its event if that came in time."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict

import pytest

from tests.harness.session.seeds import seeds
from tests.unit.runtime.simulated_engine import LEASE, SimulatedEngine, SimulatedPod
from tieline.events.engine.queue import EngineQueue
from tieline.events.run_waits import RunWaits
from tieline.events.side_by_side import side_by_side
from tieline.execution.ulids import derived_ulid
from tieline.server.event_attempt import Attempt
from tieline_protocol.events import EventMetadata
from tieline_protocol.waits import WaitRule

pytestmark = pytest.mark.fast

PAID = WaitRule(name="paid", fields=("order",))
SENT = WaitRule(name="sent", fields=("order",))
LONG, SHORT = 4000.0, 40.0
"""How long runs wait: longer than any trouble, or about as long as it takes until their events come."""
PODS = 3
MOST_LEFT = 3
ROUNDS = 60
SLACK = 10 * LEASE
"""What may pass until an event is handed out after a death, and lost tokens of keys are found."""


class Simulation:
    """Orders that wait to be paid and sent, and the events that say so."""

    def __init__(self, seed: int, *, keyed: bool, timeout: float, behind: float = 0.0) -> None:
        self.engine = SimulatedEngine(seed, behind=behind)
        self._keyed = keyed
        self._timeout = timeout
        self._base = "01M8DEYCRJWCNN04VG9B6J510F"
        self._published = 0
        self._calm_at = 0.0
        self.pods: list[SimulatedPod] = []
        self.orders: dict[str, int] = {}
        """Which order a run is for."""
        self.seen: dict[tuple[str, str], set[str | None]] = defaultdict(set)
        self.seen_at: dict[tuple[str, str], float] = {}
        self.published_at: dict[str, float] = {}
        self.event_orders: dict[str, tuple[str, int]] = {}

    async def code(self, waits: RunWaits, attempt: Attempt) -> None:
        run = attempt.metadata.run
        order = {"order": str(self.orders[run])}
        for rule in (PAID, SENT):
            found = await waits.wait_for(rule.name, rule.index(order, None), self._timeout, keep=rule.keep)
            if found is not None:
                assert json.loads(found.payload)["order"] == self.orders[run]
            key = (run, rule.name)
            self.seen[key].add(None if found is None else found.metadata.run)
            self.seen_at.setdefault(key, self.engine.now)

    async def publish(self, task: str, order: int) -> str:
        self._published += 1
        metadata = EventMetadata(
            run=derived_ulid(self._base, f"{self._published}"),
            kind="event",
            task=task,
            queued_at=self.engine.now,
            key=f"{order % 3}" if self._keyed and task == "ordered" else None,
        )
        if task == "ordered":
            self.orders[metadata.run] = order
        else:
            self.event_orders[metadata.run] = (task, order)
        self.published_at[metadata.run] = self.engine.now
        publisher = SimulatedPod(self.engine, self.code, [])
        assert await EngineQueue.publish(publisher.queue, metadata, json.dumps({"order": order}).encode())
        return metadata.run

    async def settle(self, moments: int) -> None:
        """Pods do some of what there is to do."""
        for _ in range(moments):
            while len(self.pods) < PODS:
                pod = SimulatedPod(self.engine, self.code, [PAID, SENT])
                await pod.start()
                self.pods.append(pod)
            self.engine.fire()
            for stream, message in self.engine.deliverable():
                self.engine.chance.choice(self.pods).take(stream, message)
            await asyncio.sleep(0)

    async def kill_one(self) -> None:
        await self.pods.pop(self.engine.chance.randrange(len(self.pods))).kill()

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
            if number < 20:
                await self.publish("ordered", number)
            if chance.random() < 0.7:
                await self.publish(chance.choice(["paid", "sent"]), chance.randrange(20))
            await self.settle(chance.choice([1, 5, 20, 60, 200]))
            if self.pods and chance.random() < deaths:
                await self.kill_one()
            if self.pods and number % 5 == 0:
                await self.pods[0].queue.keys.publish_lost_tokens()
            if chance.random() < 0.5:
                self.engine.now += chance.choice([0.5, 5, 31, 70])
        self._calm_at = self.engine.now
        await self.rest(self.engine.now + SLACK)

    def check_woken(self) -> None:
        """A run went on soon after its event and the end of what it waited for before, once no pod dies any more."""
        free_at: dict[int, float] = defaultdict(float)
        for run, order in self.orders.items():
            key = order % 3 if self._keyed else order
            began = max(self.published_at[run], free_at[key])
            for rule in (PAID, SENT):
                times = [
                    self.published_at[one]
                    for one, what in self.event_orders.items()
                    if what == (rule.name, order)
                ]
                times = [at for at in times if began - rule.keep + SLACK < at < began + self._timeout - SLACK]
                seen_at = self.seen_at[run, rule.name]
                if times:
                    assert seen_at <= max(began, min(times), self._calm_at) + SLACK, (
                        f"{rule.name} of {order} woke late"
                    )
                began = seen_at
            free_at[key] = began

    def check_ended(self) -> None:
        ended = {record.id for record in self.engine.history if record.status == "succeeded"}
        assert self.orders.keys() <= ended
        assert self.event_orders.keys() <= ended
        assert all(len(seen) == 1 for seen in self.seen.values()), "a wait ended in two ways"
        for (run, name), (event,) in self.seen.items():
            if event is None:
                assert self.seen_at[run, name] >= self.published_at[run] + self._timeout
            else:
                assert self.event_orders[event] == (name, self.orders[run])
        assert not self.engine.later.messages, "a run still waits"
        assert not self.engine.queue.messages, "an event is still queued"
        left = [subject for subject in self.engine.runs.messages if ".~wait." in subject]
        # Of a pod that hung until its run had ended. It expires.
        assert len(left) <= MOST_LEFT, "waits are not forgotten"
        assert not self.engine.dead.messages


class TwoApprovals(Simulation):
    """Orders that wait twice for the same, side by side."""

    async def code(self, waits: RunWaits, attempt: Attempt) -> None:
        run = attempt.metadata.run
        index = PAID.index({"order": str(self.orders[run])}, None)
        both = [waits.wait_for(PAID.name, index, self._timeout, keep=PAID.keep) for _ in range(2)]
        for number, found in enumerate(await side_by_side(both)):
            self.seen[run, f"{number}"].add(None if found is None else found.metadata.run)

    def check_approvals(self) -> None:
        for run, order in self.orders.items():
            (first,), (second,) = self.seen[run, "0"], self.seen[run, "1"]
            assert first is None or first != second, "one event ended two waits of a run"
            if self._keyed:
                continue  # it began once the run before had ended
            began = self.published_at[run]
            came = [
                self.published_at[one] for one, what in self.event_orders.items() if what == ("paid", order)
            ]
            in_time = [at for at in came if began - PAID.keep + SLACK < at < began + self._timeout - SLACK]
            assert len({first, second} - {None}) >= min(2, len(in_time)), f"an approval of {order} was lost"


@pytest.mark.parametrize("keyed", [False, True], ids=["without keys", "with keys"])
@pytest.mark.parametrize("seed", seeds(4))
async def test_two_waits_for_the_same_end_with_two_events(seed: int, keyed: bool) -> None:
    simulation = TwoApprovals(seed, keyed=keyed, timeout=LONG, behind=0.1 if seed % 2 else 0.0)
    await simulation.live(deaths=0.4 if seed % 3 else 0.0)
    await simulation.rest(simulation.engine.now + 20 * LONG)
    assert all(len(seen) == 1 for seen in simulation.seen.values()), "a wait ended in two ways"
    simulation.check_approvals()


@pytest.mark.parametrize("keyed", [False, True], ids=["without keys", "with keys"])
@pytest.mark.parametrize("lasts", [LONG, SHORT], ids=["long", "short"])
@pytest.mark.parametrize("seed", seeds(8))
async def test_each_wait_ends_once_and_in_time(seed: int, lasts: float, keyed: bool) -> None:
    simulation = Simulation(seed, keyed=keyed, timeout=lasts)
    await simulation.live(deaths=0.4 if seed % 3 else 0.0)
    await simulation.rest(simulation.engine.now + 20 * LONG)
    simulation.check_ended()
    simulation.check_woken()


@pytest.mark.parametrize("seed", seeds(4))
async def test_servers_that_are_behind_lose_no_wait(seed: int) -> None:
    simulation = Simulation(seed, keyed=False, timeout=LONG, behind=0.2)
    await simulation.live(deaths=0.3)
    await simulation.rest(simulation.engine.now + 20 * LONG)
    simulation.check_ended()
    simulation.check_woken()
