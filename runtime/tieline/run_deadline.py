"""When the run ends that the current task belongs to, whatever its kind, so that waiting can end before it."""

from contextvars import ContextVar

run_deadline: ContextVar[float | None] = ContextVar("run_deadline", default=None)
"""Seconds by the event loop's clock; None where nothing ends the run."""


def begin_deadline(now: float, seconds: float | None) -> None:
    """The current task's run, which begins ``now``, has ``seconds``; None or 0: as many as it takes."""
    run_deadline.set(now + seconds if seconds else None)
