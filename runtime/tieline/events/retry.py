"""When a failed run is tried again: the policy of a task, and what code raises to decide itself."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tieline.errors import TielineError
from tieline_common.backoff import exponential, jitter

_JITTER = 0.1
MAX_ATTEMPTS = 1000
MAX_DELAY = 30 * 24 * 3600.0
"""Seconds."""


@dataclass(frozen=True, kw_only=True)
class Retry:
    """How often a run is tried, and how long it waits in between.

    The first retry waits ``first`` seconds, each later one ``factor`` times as long, and none longer than ``longest``;
    a tenth is random. Without changes 15 attempts take five and a half hours. After the last one the event is a dead
    letter.

    >>> Retry(attempts=4, first=10).delays()
    [10.0, 20.0, 40.0]
    """

    attempts: int = 15
    first: float = 5.0
    factor: float = 2.0
    longest: float = 3600.0

    def __post_init__(self) -> None:
        if not 1 <= self.attempts <= MAX_ATTEMPTS:
            raise ValueError(f"Retry: attempts must be from 1 to {MAX_ATTEMPTS}, not {self.attempts!r}")
        if not 0 <= self.first <= MAX_DELAY or not 0 <= self.longest <= MAX_DELAY:
            raise ValueError(f"Retry: first and longest must be from 0 to {MAX_DELAY:g} seconds")
        if not 1 <= self.factor <= 100:
            raise ValueError(f"Retry: factor must be from 1 to 100, not {self.factor!r}")

    def delays(self) -> list[float]:
        """The seconds that the attempts wait for, without the random part."""
        return [self._delay(failed) for failed in range(1, self.attempts)]

    def delay(self, failed: int) -> float:
        """The seconds to wait after the ``failed``-th attempt."""
        return jitter(self._delay(failed), 1 - _JITTER, 1 + _JITTER)

    def _delay(self, failed: int) -> float:
        return exponential(failed, first=self.first, cap=self.longest, factor=self.factor)


class Reject(TielineError):  # noqa: N818  (an order to the platform rather than an error of it)
    """Raise it for an event that no retry can help: it becomes a dead letter at once.

    >>> async def order_created(ctx: Context, event: Event) -> None:
    ...     if "id" not in event.payload:
    ...         raise Reject("an order needs an id")
    """


class RetryLater(TielineError):  # noqa: N818
    """Raise it to be run again ``after`` seconds (or a timedelta); the attempt does not count as failed.

    >>> async def order_created(ctx: Context, event: Event) -> None:
    ...     response = await ctx.fetch("shop", "/orders", method="POST", json=event.payload)
    ...     if response.status == 429:
    ...         raise RetryLater(after=float(response.headers.get("Retry-After", 60)))
    ...     response.raise_for_status()
    """

    def __init__(self, message: str = "", *, after: float | timedelta) -> None:
        seconds = after.total_seconds() if isinstance(after, timedelta) else float(after)
        if not 0 <= seconds <= MAX_DELAY:
            raise ValueError(f"RetryLater: after must be from 0 to {MAX_DELAY:g} seconds, not {seconds!r}")
        super().__init__(message or f"to be run again after {seconds:g} seconds")
        self.after = seconds
        """Seconds."""


def seconds_of(delay: float | timedelta | None, at: datetime | None, now: float) -> float | None:
    """The time (seconds since 1970) that a delay or a date means; None for now. Raises ValueError."""
    if delay is not None and at is not None:
        raise ValueError("Give delay or at, and not both")
    if at is not None and not isinstance(at, datetime):
        raise TypeError(f"at is a datetime, not {at!r}; delay takes seconds or a timedelta")
    if at is not None:
        # A date without a zone is one of UTC, as the pods' clocks are.
        due = (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    elif delay is not None:
        seconds = delay.total_seconds() if isinstance(delay, timedelta) else float(delay)
        if not seconds >= 0:
            raise ValueError(f"delay must be at least 0 seconds, not {seconds:g}")
        due = now + seconds
    else:
        return None
    if not due - now <= 366 * 24 * 3600:
        raise ValueError("An event can be published for at most a year from now")
    return due if due > now else None
