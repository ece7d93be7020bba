"""``Debounce``: a burst of events of a task is run once, with the newest of them."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True)
class Debounce:
    """Runs a task once for events that follow each other within ``period`` (seconds or a timedelta), with the newest.

    ``key`` names a field of the payload (dots lead into objects): events with other values are debounced apart. A burst
    that goes on for ``timeout`` is run nevertheless. Periods and timeouts are from 1 second to 7 days.

    >>> Debounce(30, key="productId", timeout=300).key
    'productId'
    """

    period: float | timedelta
    key: str | None = None
    timeout: float | timedelta | None = None


@dataclass(frozen=True, kw_only=True)
class DebounceRule:
    """A checked Debounce, in seconds."""

    period: float
    key: str | None
    timeout: float | None
