"""Results of steps in memory, and on a desk also in its file."""

import itertools
from typing import TYPE_CHECKING

from tieline.events.run_store import RunTakenOver, StepsClaim

if TYPE_CHECKING:
    from tieline.events.event_file import EventFile  # pods do not need SQLite


class MemoryRuns:
    """See RunStore."""

    def __init__(self, file: "EventFile | None" = None) -> None:
        self._file = file
        self._numbers = itertools.count()
        self._steps: dict[str, dict[tuple[str, int], bytes]] = {}
        self._claims: dict[str, int] = {}

    def read(self) -> None:
        """Take over what other processes have left in the file."""
        if self._file is not None:
            for run, name, occurrence, result in self._file.steps():
                self._steps.setdefault(run, {})[name, occurrence] = result

    async def step_result(self, run: str, name: str, occurrence: int, *, claim: StepsClaim) -> bytes | None:
        """See RunStore."""
        return self._steps.get(run, {}).get((name, occurrence))

    async def claim_steps(self, run: str, *, any_kept: bool) -> StepsClaim:
        """See RunStore."""
        claim = StepsClaim(next(self._numbers), any_kept or run in self._claims or run in self._steps)
        self._claims[run] = claim.number
        return claim

    async def save_step(
        self, run: str, name: str, occurrence: int, content: bytes, *, claim: StepsClaim
    ) -> None:
        """See RunStore."""
        if self._claims.get(run) != claim.number:
            raise RunTakenOver
        steps = self._steps.setdefault(run, {})
        if self._file is not None:
            self._file.save_step(run, name, occurrence, content)
        steps[name, occurrence] = content

    async def forget_steps(self, run: str) -> None:
        """See RunStore."""
        self._claims.pop(run, None)
        if self._steps.pop(run, None) and self._file is not None:
            self._file.forget_steps(run)

    async def is_cancelled(self, run: str) -> bool:
        """Whoever cancels a run does so in this process."""
        return False

    async def claim_end(self, run: str, content: bytes) -> bytes | None:
        """Nobody else could have ended it."""
        return None

    async def end_of(self, run: str) -> bytes | None:
        """See ``claim_end``."""
        return None
