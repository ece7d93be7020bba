"""Results of steps in memory, and in local runs also in its file."""

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING

from tieline.events.run_store import PATCH, KeptStep, RunTakenOver, StepPlace, StepsClaim
from tieline_protocol.event_streams import hashed

if TYPE_CHECKING:
    from tieline.events.event_file import EventFile  # pods do not need SQLite


class MemoryRuns:
    """See RunStore."""

    def __init__(
        self, file: "EventFile | None" = None, *, forgotten: Callable[[str], None] = lambda run: None
    ) -> None:
        """``forgotten`` is called with each run whose steps are removed."""
        self._file = file
        self._forgotten = forgotten
        self._numbers = itertools.count()
        self._steps: dict[str, dict[StepPlace, KeptStep]] = {}
        self._claims: dict[str, int] = {}
        self.unpatched: set[str] = set()
        """Patches that runs which begin with their steps from now on do not have, as if from before them (tests)."""

    def read(self) -> None:
        """Take over what other processes have left in the file."""
        if self._file is not None:
            for run, step in self._file.steps():
                self._steps.setdefault(run, {})[_place(step)] = step

    async def step_result(self, run: str, step: StepPlace, *, claim: StepsClaim) -> KeptStep:
        """See RunStore."""
        try:
            return self._steps[run][step]
        except KeyError:
            raise RunTakenOver from None

    async def claim_steps(self, run: str, *, any_kept: bool) -> StepsClaim:
        """See RunStore."""
        if self.unpatched and run not in self._claims:
            for step in map(_unpatched_step, self.unpatched):
                self._steps.setdefault(run, {}).setdefault(_place(step), step)
        recorded = tuple(self._steps.get(run, ()))
        claim = StepsClaim(next(self._numbers), any_kept or run in self._claims or bool(recorded), recorded)
        self._claims[run] = claim.number
        return claim

    async def save_step(self, run: str, step: KeptStep, *, claim: StepsClaim) -> None:
        """See RunStore."""
        if self._claims.get(run) != claim.number:
            raise RunTakenOver
        if self._file is not None:
            self._file.save_step(run, step)
        self._steps.setdefault(run, {})[_place(step)] = step

    async def forget_steps(self, run: str) -> None:
        """See RunStore."""
        self._claims.pop(run, None)
        self._forgotten(run)
        if self._steps.pop(run, None) and self._file is not None:
            self._file.forget_steps(run)

    async def is_cancelled(self, run: str) -> bool:
        """Whoever cancels a run does so in this process."""
        return False

    async def interruption(self, run: str) -> None:
        """Runs end with this process."""
        return

    async def claim_end(self, run: str, content: bytes) -> bytes | None:
        """Nobody else could have ended it."""
        return None

    async def end_of(self, run: str) -> bytes | None:
        """See ``claim_end``."""
        return None

    async def has_ended(self, run: str) -> bool:
        """See ``claim_end``."""
        return False


def _unpatched_step(patch: str) -> KeptStep:
    """What is recorded of a run from before a patch."""
    return KeptStep(name=PATCH + patch, occurrence=1, place=0, work="", version="", result=b"false")


def _place(step: KeptStep) -> StepPlace:
    return StepPlace(name_hash=hashed(step.name), occurrence=step.occurrence, place=step.place)
