"""How many runs there were, and how many of them failed, in a window of time and in the one before it."""

from collections import Counter, defaultdict
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
class Totals:
    """Runs, failed runs, and for how long those ran that have ended."""

    executions: int = 0
    errors: int = 0
    ended: int = 0
    took: int = 0
    """Nanoseconds, of all that ended together."""

    def __add__(self, other: "Totals") -> "Totals":
        return Totals(
            self.executions + other.executions,
            self.errors + other.errors,
            self.ended + other.ended,
            self.took + other.took,
        )

    @property
    def latency(self) -> float:
        """The average in milliseconds; 0 where none has ended."""
        return self.took / self.ended / 1e6 if self.ended else 0.0


@dataclass(frozen=True)
class Tally:
    """Runs and failed runs, by bucket, and all that there is of each environment in the window and the one before."""

    executions: Counter[int] = field(default_factory=Counter)
    errors: Counter[int] = field(default_factory=Counter)
    within: defaultdict[str, Totals] = field(default_factory=lambda: defaultdict(Totals))
    before: defaultdict[str, Totals] = field(default_factory=lambda: defaultdict(Totals))

    def add(self, bucket: int, environment: str, counted: Totals) -> None:
        """Adds what a source has counted."""
        self.executions[bucket] += counted.executions
        self.errors[bucket] += counted.errors
        window = self.before if bucket == BEFORE else self.within
        window[environment] += counted


def current(counts: Mapping[int, int]) -> int:
    """What all buckets of the window have together."""
    return sum(count for bucket, count in counts.items() if bucket != BEFORE)
