"""``Batch``: events of a task are run together."""

from dataclasses import dataclass
from datetime import timedelta

MAX_SIZE = 100
"""The names of the members stand in the headers of the batch, of which the engine takes 64 KiB."""
MAX_SECONDS = 60.0
"""A pod holds the events meanwhile."""


@dataclass(frozen=True)
class Batch:
    """Runs a task for up to ``size`` events at once, at most ``seconds`` (or a timedelta) after the first one came.

    ``key`` names a field of the payload (dots lead into objects): a batch has events with the same value. Sizes are
    from 1 to 100, and seconds from 0.1 to 60.

    >>> Batch(100, seconds=5, key="warehouse").size
    100
    """

    size: int
    seconds: float | timedelta = 5.0
    key: str | None = None


@dataclass(frozen=True, kw_only=True)
class BatchRule:
    """A checked Batch, in seconds."""

    size: int
    seconds: float
    key: str | None
