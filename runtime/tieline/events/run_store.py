"""The port to what is kept of runs that are tried again: results of their steps, and how they ended."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

PATCH = "patch: "
"""Begins the names of the steps that keep answers of ``Context.patched``."""


class RunTakenOver(BaseException):
    """Ends a run that another pod may have begun with meanwhile: it must not record anything."""


@dataclass(frozen=True, kw_only=True)
class StepPlace:
    """Which step was recorded, and where in the run's sequence."""

    name_hash: str
    """``hashed`` of its name."""
    occurrence: int
    place: int
    """Its position among the steps that run one after the other, from 1; 0 for steps without one."""


@dataclass(frozen=True, kw_only=True)
class KeptStep:
    """A step that is done, with its result as JSON."""

    name: str
    occurrence: int
    place: int
    """See StepPlace."""
    work: str
    """A hash of the function and its arguments; empty where they are not compared."""
    version: str
    """The version whose code did it."""
    run: str = ""
    """The run whose idempotency key it was done with, of a step that was taken over; empty for its own run's."""
    result: bytes


@dataclass(frozen=True)
class StepsClaim:
    """The right of one attempt to save steps of its run. It ends when another attempt claims them."""

    number: int
    any_kept: bool
    """Whether something may be kept for the run already: results of steps, attempts, or that it has ended."""
    recorded: Collection[StepPlace] = ()
    """All steps that were recorded before the claim."""


@dataclass(frozen=True, kw_only=True)
class Interruption:
    """Why a pod ended in the middle of an attempt."""

    attempt: int
    reason: str


class RunStore(Protocol):
    """Keeps results of steps until their run has ended, and for a while that it has.

    All of it raises EventsUnavailableError.
    """

    async def claim_steps(self, run: str, *, any_kept: bool) -> StepsClaim:
        """Let one attempt alone save steps of the run from now on, and list what others have saved before.

        Where ``any_kept`` is false, it is looked for: an engine that was killed may hand out an event as if for the
        first time. Raises RunTakenOver where the run has ended.
        """

    async def step_result(self, run: str, step: StepPlace, *, claim: StepsClaim) -> KeptStep:
        """A step that the claim lists. Raises RunTakenOver where the run has ended since."""

    async def save_step(self, run: str, step: KeptStep, *, claim: StepsClaim) -> None:
        """Keep a step's result. Raises RunTakenOver where another attempt has claimed the steps."""

    async def forget_steps(self, run: str) -> None:
        """Let go of the results of a run that has ended, and remember for a while that it has."""

    async def is_cancelled(self, run: str) -> bool:
        """Whether somebody has cancelled the run lately, wherever it was."""

    async def interruption(self, run: str) -> Interruption | None:
        """Why a pod ended in the middle of the run; None if it is not known."""

    async def claim_end(self, run: str, content: bytes) -> bytes | None:
        """Remember for a while how a run has ended. None where this is its first end, else what ``end_of`` returns."""

    async def end_of(self, run: str) -> bytes | None:
        """What the run's first end was claimed with, empty where that is not kept; None where it has not ended.

        A server that is behind may not know it; ``has_ended`` does."""

    async def has_ended(self, run: str) -> bool:
        """Whether the run has ended, as the stream's leader knows it. Costs more than ``end_of``."""
