"""The port to what is kept of runs that are tried again: results of their steps, and how they ended."""

from dataclasses import dataclass
from typing import Protocol


class RunTakenOver(BaseException):
    """Ends a run that another pod may have begun with meanwhile: it must not record anything."""


@dataclass(frozen=True)
class StepsClaim:
    """The right of one attempt to save steps of its run. It ends when another attempt claims them."""

    number: int
    any_kept: bool
    """Whether something may be kept for the run already: results of steps, attempts, or that it has ended."""


class RunStore(Protocol):
    """Keeps results of steps until their run has ended, and for a while that it has.

    All of it raises EventsUnavailableError.
    """

    async def step_result(self, run: str, name: str, occurrence: int, *, claim: StepsClaim) -> bytes | None:
        """What ``save_step`` kept before the claim; None where there is nothing, and never will be of others.

        Raises RunTakenOver where there is nothing and the run has ended.
        """

    async def claim_steps(self, run: str, *, any_kept: bool) -> StepsClaim:
        """Let one attempt alone save steps of the run from now on. What others have saved before can be read then.

        Where ``any_kept`` is false, it is looked for: an engine that was killed may hand out an event as if for the
        first time.
        """

    async def save_step(
        self, run: str, name: str, occurrence: int, content: bytes, *, claim: StepsClaim
    ) -> None:
        """Keep a step's result. Raises RunTakenOver where another attempt has claimed the steps."""

    async def forget_steps(self, run: str) -> None:
        """Let go of the results of a run that has ended, and remember for a while that it has."""

    async def is_cancelled(self, run: str) -> bool:
        """Whether somebody has cancelled the run lately, wherever it was."""

    async def claim_end(self, run: str, content: bytes) -> bytes | None:
        """Remember for a while how a run has ended. None where this is its first end, else what ``end_of`` returns."""

    async def end_of(self, run: str) -> bytes | None:
        """What the run's first end was claimed with, empty where that is not kept; None where it has not ended."""
