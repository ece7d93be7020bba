"""What a schedule is, and what its function receives of a run."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, get_args

from tieline_protocol.cron import Cron

Activations = Literal["static", "users"]
Overlap = Literal["wait", "skip"]

ACTIVATIONS: tuple[str, ...] = get_args(Activations)
OVERLAPS: tuple[str, ...] = get_args(Overlap)
MAX_CATCH_UP = 7 * 24 * 3600.0
MAX_RUN_SECONDS = 24 * 3600.0
MAX_PARALLEL = 100


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """A function that is run at the times of a cron expression. Durations are seconds."""

    name: str
    cron: Cron
    activations: Activations
    parallel: int
    overlap: Overlap
    catch_up: float
    timeout: float | None
    """None: the server's usual one for schedules."""
    handler: Callable[..., Any]
    is_async: bool
    arguments: int
    """How many of (context, run) the function takes: 0, 1 or 2."""

    @property
    def times(self) -> str:
        """Tells schedules of other times apart."""
        return f"{self.cron.expression} {self.cron.zone.key}"

    @property
    def tolerance(self) -> timedelta:
        """How late a run may begin. A minute is always allowed: pods come and go."""
        return timedelta(seconds=max(self.catch_up, 60.0))


@dataclass(frozen=True, kw_only=True)
class ScheduledRun:
    """What a schedule's function receives of the run that it is.

    >>> async def report(ctx: Context, run: ScheduledRun) -> None:
    ...     ctx.log.info("Reporting", day=run.due.date().isoformat(), again=run.attempt > 1)
    """

    schedule: str
    """The schedule's name."""
    due: datetime
    """When it was due, in the schedule's time zone."""
    attempt: int
    """1, or 2 when the pod that had begun with it before could not end it."""
