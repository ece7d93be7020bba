"""Whatever dies between any two requests to the engine: an event cancels the runs that it is for, and no others."""

from __future__ import annotations

import asyncio

import pytest

from tests.harness.session.seeds import seeds
from tests.unit.runtime.simulated_engine import LEASE, SimulatedPod
from tests.unit.runtime.test_waits_random_failures import LONG, PODS, ROUNDS, SLACK, Simulation
from tieline.events.run_waits import RunWaits
from tieline.server.event_attempt import Attempt
from tieline_protocol.waits import MAX_KEEP_SECONDS, WaitRule

pytestmark = pytest.mark.fast

SENT = WaitRule(name="sent", fields=("order",))
CANCELLED = WaitRule(name="cancelled", fields=("order",), keep=MAX_KEEP_SECONDS, cancels=True)


class Cancellations(Simulation):
    """Orders that wait to be sent, and events that cancel some of them."""

    async def code(self, waits: RunWaits, attempt: Attempt) -> None:
        run = attempt.metadata.run
        order = {"order": str(self.orders[run])}
        for _ in range(2):
            await waits.wait_for(SENT.name, SENT.index(order, None), self._timeout, keep=SENT.keep)

    async def settle(self, moments: int) -> None:
        for _ in range(moments):
            while len(self.pods) < PODS:
                pod = SimulatedPod(self.engine, self.code, [SENT, CANCELLED], {"ordered": CANCELLED})
                await pod.start()
                self.pods.append(pod)
            self.engine.fire()
            for stream, message in self.engine.deliverable():
                self.engine.chance.choice(self.pods).take(stream, message)
            await asyncio.sleep(0)

    async def live(self, *, deaths: float) -> None:
        chance = self.engine.chance
        for number in range(ROUNDS):
            if number < 20:
                await self.publish("ordered", number)
                if chance.random() < 0.5:
                    # While the run begins to wait.
                    await self.settle(chance.randrange(40))
                    await self.publish("cancelled", number)
            if chance.random() < 0.5:
                await self.publish(chance.choice(["cancelled", "sent"]), chance.randrange(20))
            await self.settle(chance.choice([1, 5, 20, 60, 200]))
            if self.pods and chance.random() < deaths:
                await self.kill_one()
            if self.pods and number % 5 == 0:
                await self.pods[0].queue.keys.publish_lost_tokens()
            if chance.random() < 0.5:
                self.engine.now += chance.choice([0.5, 5, 31, 70])
        self._calm_at = self.engine.now
        await self.rest(self.engine.now + SLACK)

    def check(self) -> None:
        ends = {
            record.id: record
            for record in self.engine.history
            if record.status in ("succeeded", "cancelled", "dead", "failed")
        }
        assert self.orders.keys() | self.event_orders.keys() <= ends.keys(), "a run is lost"
        for run, order in self.orders.items():
            statuses = {one.status for one in self.engine.history if one.id == run and one.ended_at}
            statuses &= {"succeeded", "cancelled", "dead", "failed"}
            assert len(statuses) == 1, f"a run ended in several ways: {statuses}"
            cancelled_at = [
                self.published_at[one]
                for one, what in self.event_orders.items()
                if what == ("cancelled", order) and self.published_at[one] >= self.published_at[run]
            ]
            record = ends[run]
            if record.status == "cancelled":
                assert cancelled_at, f"{order} was cancelled by no event"
                assert record.error is not None
                assert any(one in record.error.message for one in self.event_orders)
                assert record.at <= max(self._calm_at, min(cancelled_at)) + self._slack(order), (
                    "cancelled late"
                )
            elif cancelled_at:
                # It had ended, or was in its last lines.
                assert record.at <= min(cancelled_at) + self._slack(order), f"{order} went on"
        assert not self.engine.later.messages, "a run still waits"
        assert not self.engine.queue.messages, "an event is still queued"
        assert not self.engine.dead.messages

    def _slack(self, order: int) -> float:
        """With keys, a run may have stood behind others of its key."""
        return SLACK + (40 * LONG if self._keyed else 0.0)


@pytest.mark.parametrize("keyed", [False, True], ids=["without keys", "with keys"])
@pytest.mark.parametrize("seed", seeds(16))
async def test_an_event_cancels_the_runs_that_it_is_for(seed: int, keyed: bool) -> None:
    simulation = Cancellations(seed, keyed=keyed, timeout=LONG, behind=0.15 if seed % 4 == 3 else 0.0)
    await simulation.live(deaths=0.4 if seed % 3 else 0.0)
    await simulation.rest(simulation.engine.now + 60 * LONG)
    simulation.check()


async def test_a_run_that_sleeps_is_cancelled_without_its_time_passing() -> None:
    simulation = Cancellations(99, keyed=False, timeout=LONG)
    await simulation.publish("ordered", 1)
    await simulation.rest(simulation.engine.now + LEASE)
    await simulation.publish("cancelled", 1)
    await simulation.rest(simulation.engine.now + LEASE)
    (end,) = [one for one in simulation.engine.history if one.status == "cancelled"]
    assert end.at < simulation.published_at[end.id] + LONG
    assert not [one for one in simulation.engine.runs.messages if ".cancel-" in one], "its wait is left"
    kept = [one for one in simulation.engine.runs.messages.values() if ".~kept." in one.subject]
    assert [one.data for one in kept] == [b""], "its payload is kept"
