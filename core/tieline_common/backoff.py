"""Delays of retries: exponential backoff, and jitter so that replicas do not act at the same moment."""

import random


def exponential(attempt: int, *, first: float, cap: float, factor: float = 2.0) -> float:
    """Seconds to wait after the ``attempt``-th failure in a row, counted from 1: at most ``cap``.

    Add ``jitter`` where several processes may retry at once. Large attempts do not overflow.

    >>> [exponential(attempt, first=0.5, cap=3.0) for attempt in (1, 2, 3, 4, 100_000)]
    [0.5, 1.0, 2.0, 3.0, 3.0]
    """
    try:
        return min(first * float(factor) ** (attempt - 1), cap)
    except OverflowError:
        return cap


def jitter(seconds: float, low: float = 0.5, high: float = 1.5) -> float:
    """``seconds`` times a random factor between ``low`` and ``high``.

    >>> 5.0 <= jitter(10.0) <= 15.0
    True
    """
    return seconds * random.uniform(low, high)  # noqa: S311  (no secret depends on it)
