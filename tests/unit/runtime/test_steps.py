"""A step begins while its run is this pod's alone."""

from __future__ import annotations

import pytest

from tieline.events.memory import MemoryQueue
from tieline.events.steps import RunSteps, RunTakenOver

pytestmark = pytest.mark.fast


class SlowQueue(MemoryQueue):
    """Its answers take longer than a lease, and meanwhile another pod does the run."""

    async def knows(self, run: str) -> bool:
        known = await super().knows(run)
        await self.save_step(run, "book", 1, b"1")
        return known

    async def step_result(self, run: str, name: str, occurrence: int) -> bytes | None:
        found = await super().step_result(run, name, occurrence)
        await self.save_step(run, "book", 1, b"1")
        return found


@pytest.mark.parametrize("may_have_results", [False, True])
async def test_a_step_is_not_done_again_when_the_lease_ends_while_the_engine_is_asked(
    may_have_results: bool,
) -> None:
    queue = SlowQueue(clock=lambda: 0.0)
    steps = RunSteps(
        queue,
        "run",
        may_have_results=may_have_results,
        held=lambda: not queue._steps,
        clock=lambda: 0.0,
    )
    with pytest.raises(RunTakenOver):
        await steps.begin("book")
