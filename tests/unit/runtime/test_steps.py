"""A step begins while its run is this pod's alone."""

from __future__ import annotations

import pytest

from tieline.events.memory_runs import MemoryRuns
from tieline.events.run_store import RunTakenOver, StepsClaim
from tieline.events.steps import RunSteps

pytestmark = pytest.mark.fast


class SlowRuns(MemoryRuns):
    """An answer takes longer than a lease, and meanwhile another pod does the run."""

    slow = ""
    taken_over = False

    async def claim_steps(self, run: str, *, any_kept: bool) -> StepsClaim:
        claim = await super().claim_steps(run, any_kept=any_kept)
        if self.slow == "claim":
            self.taken_over = True
        return claim

    async def step_result(self, run: str, name: str, occurrence: int, *, claim: StepsClaim) -> bytes | None:
        found = await super().step_result(run, name, occurrence, claim=claim)
        if self.slow == "result":
            self.taken_over = True
        return found


@pytest.mark.parametrize("slow", ["claim", "result"])
async def test_a_step_is_not_done_again_when_the_lease_ends_while_the_engine_is_asked(
    slow: str,
) -> None:
    runs = SlowRuns()
    runs.slow = slow
    steps = RunSteps(
        runs,
        "run",
        may_have_results=True,
        held=lambda: not runs.taken_over,
        clock=lambda: 0.0,
    )
    with pytest.raises(RunTakenOver):
        await steps.begin("book")
