"""Which kept event a wait finds, in the engine and in memory."""

from __future__ import annotations

import pytest

from tests.unit.runtime.simulated_engine import START, SimulatedEngine, connection_to
from tieline.events.engine.storage import EngineStorage
from tieline.events.memory_waits import MemoryWaits
from tieline.events.wait_store import KeptEvent, OpenWait, WaitStore
from tieline.execution.ulids import derived_ulid
from tieline_protocol.events import EventMetadata

pytestmark = pytest.mark.fast

INDEX = "a" * 32
RUNS = sorted(derived_ulid("01M8DEYCRJWCNN04VG9B6J510F", f"{number}") for number in range(250))


class Stores:
    """Both, with one clock."""

    def __init__(self) -> None:
        self.engine = SimulatedEngine(7)
        self.woken: list[str] = []
        storage = EngineStorage(connection_to(self.engine), clock=self.engine.clock)
        memory = MemoryWaits(clock=self.engine.clock, wake=self.woken.append)
        self.both: tuple[WaitStore, ...] = (storage.waits, memory)

    async def keep(self, runs: list[str], *, seconds: float, queued_at: float | None = None) -> None:
        for run in runs:
            moment = self.engine.now if queued_at is None else queued_at
            metadata = EventMetadata(run=run, kind="event", task="paid", queued_at=moment)
            for store in self.both:
                await store.keep(INDEX, KeptEvent(metadata=metadata, payload=b"7"), seconds)

    async def found(self, wait: OpenWait) -> set[str | None]:
        events = [await store.find(wait) for store in self.both]
        return {None if event is None else event.metadata.run for event in events}


def _wait(since: float, *, taken: list[str] | None = None) -> OpenWait:
    return OpenWait(
        index=INDEX, run=RUNS[-1], name="w-1", until=START + 9000, since=since, taken=frozenset(taken or [])
    )


async def test_events_that_ended_earlier_waits_hide_no_others() -> None:
    stores = Stores()
    await stores.keep(RUNS[:150], seconds=3600)
    assert await stores.found(_wait(START - 3600, taken=RUNS[:120])) == {RUNS[120]}


async def test_many_old_events_do_not_hide_one_that_has_just_come() -> None:
    stores = Stores()
    await stores.keep(RUNS[:240], seconds=0)
    stores.engine.now += 100
    assert await stores.found(_wait(stores.engine.now)) == {None}
    await stores.keep([RUNS[240]], seconds=0)
    assert await stores.found(_wait(stores.engine.now)) == {RUNS[240]}


async def test_an_event_counts_from_when_it_was_kept() -> None:
    stores = Stores()
    await stores.keep([RUNS[0]], seconds=600, queued_at=START - 7200)
    assert await stores.found(_wait(START - 600)) == {RUNS[0]}
    assert await stores.found(_wait(START + 1)) == {None}


async def test_an_event_between_plan_and_wait_wakes_the_run_even_when_not_kept() -> None:
    stores = Stores()
    wait = _wait(stores.engine.now)
    await stores.keep([RUNS[0]], seconds=0)
    for store in stores.both:
        await store.begin([wait])
        outcome = await store.outcome(wait)
        assert outcome is not None
        assert outcome.event is not None
    assert stores.woken == [wait.run]
