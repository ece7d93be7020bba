"""Whatever dies between any two requests to the engine: a signal ends at most one wait of its run, and none is lost."""

from __future__ import annotations

import pytest

from tests.harness.session.seeds import seeds
from tests.unit.runtime.simulated_engine import SimulatedPod
from tests.unit.runtime.test_waits_random_failures import LONG, SLACK, Simulation
from tieline.events.engine.queue import EngineQueue
from tieline.events.run_signals import wait_for_signal
from tieline.events.run_waits import IN_OWN_TASK, RunWaits
from tieline.execution.ulids import derived_ulid
from tieline.server.event_attempt import Attempt
from tieline_protocol.signals import SentSignal, signal_event

pytestmark = pytest.mark.fast


class Signals(Simulation):
    """Orders that wait for two signals, which are sent to their runs as the API does."""

    async def code(self, waits: RunWaits, attempt: Attempt) -> None:
        run = attempt.metadata.run
        for number in range(2):
            found = await wait_for_signal(waits, run, "go", self._timeout, IN_OWN_TASK)
            self.seen[run, f"{number}"].add(None if found is None else found.payload)
            assert found is None or self.event_orders[found.payload] == ("go", self.orders[run])

    async def publish(self, task: str, order: int) -> str:
        if task == "ordered":
            return await super().publish(task, order)
        run = next((run for run, one in self.orders.items() if one == order), None)
        if run is None:
            return ""
        self._published += 1
        identifier = derived_ulid(self._base, f"{self._published}")
        self.event_orders[identifier] = ("go", order)
        self.published_at[identifier] = self.engine.now
        sent = SentSignal(run=run, name="go", payload=f'"{identifier}"', by="ann", at=self.engine.now)
        publisher = SimulatedPod(self.engine, self.code, [])
        event = signal_event(identifier, self.engine.now)
        assert await EngineQueue.publish(publisher.queue, event, sent.encode())
        return identifier

    def check_signals(self) -> None:
        for run, order in self.orders.items():
            (first,), (second,) = self.seen[run, "0"], self.seen[run, "1"]
            assert first is None or first != second, "one signal ended two waits"
            if self._keyed:
                continue  # it began once the run before had ended
            began = self.published_at[run]
            came = [self.published_at[one] for one, what in self.event_orders.items() if what[1] == order]
            in_time = [at for at in came if at < began + self._timeout - SLACK]
            assert len({first, second} - {None}) >= min(2, len(in_time)), f"a signal to {order} was lost"
        assert not self.engine.queue.messages, "a signal is still queued"
        assert not self.engine.dead.messages


@pytest.mark.parametrize("keyed", [False, True], ids=["without keys", "with keys"])
@pytest.mark.parametrize("seed", seeds(4))
async def test_each_signal_ends_one_wait_of_its_run(seed: int, keyed: bool) -> None:
    simulation = Signals(seed, keyed=keyed, timeout=LONG, behind=0.1 if seed % 2 else 0.0)
    await simulation.live(deaths=0.4 if seed % 3 else 0.0)
    await simulation.rest(simulation.engine.now + 20 * LONG)
    assert all(len(seen) == 1 for seen in simulation.seen.values()), "a wait ended in two ways"
    simulation.check_signals()
