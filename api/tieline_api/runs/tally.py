"""How many runs there were, and how many of them failed, in a window of time and in the one before it."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

BEFORE = -1
"""Stands for the window before, among the buckets of a window."""


@dataclass(frozen=True, kw_only=True)
class Windows:
    """A window of time in buckets of one width, and the window of the same length before it (nanoseconds).

    >>> day = Windows(start=100, end=120, buckets=2)
    >>> [day.bucket(at) for at in (80, 99, 100, 109, 110, 119)]
    [-1, -1, 0, 0, 1, 1]
    """

    start: int
    end: int
    """It is in no window."""
    buckets: int = 1

    @property
    def before(self) -> int:
        """When the window before starts."""
        return max(2 * self.start - self.end, 0)

    @property
    def width(self) -> int:
        """Of a bucket; the last one may be narrower."""
        return -((self.start - self.end) // self.buckets)

    def bucket(self, at: int) -> int:
        """The bucket of a moment in one of the windows."""
        return BEFORE if at < self.start else (at - self.start) // self.width


@dataclass(frozen=True)
class Tally:
    """Runs and failed runs, by bucket."""

    executions: Counter[int] = field(default_factory=Counter)
    errors: Counter[int] = field(default_factory=Counter)

    def add(self, bucket: int, executions: int, errors: int) -> None:
        """Adds what another source has counted."""
        self.executions[bucket] += executions
        self.errors[bucket] += errors


def current(counts: Mapping[int, int]) -> int:
    """What all buckets of the window have together."""
    return sum(count for bucket, count in counts.items() if bucket != BEFORE)
