"""How many refused requests are recorded: nobody fills the stream with what the API did not do."""

import time
from collections.abc import Callable, Hashable

from cachetools import LRUCache

WINDOW_SECONDS = 600.0
MOST_OF_STRANGER = 5
"""Of one address without valid credentials, in a window."""
MOST_OF_STRANGERS = 100
"""Of all of them together, in one organisation."""
MOST_OF_CALLER = 60
"""Of one caller whose credentials are valid."""
_KEYS = 10_000


class RefusalLimiter:
    """Counts in memory, by each replica for itself, in windows of ten minutes."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._counts: LRUCache[Hashable, tuple[int, int]] = LRUCache(_KEYS)
        self._strangers: LRUCache[str, tuple[int, int]] = LRUCache(_KEYS)

    def admits_stranger(self, organisation: str, address: str) -> bool:
        """Whether one more refusal of an address is recorded."""
        window = int(self._clock() // WINDOW_SECONDS)
        counted = _count(self._strangers.get(organisation), window)
        if counted >= MOST_OF_STRANGERS:
            return False
        if not self._admits(("address", organisation, address), MOST_OF_STRANGER, window):
            return False
        self._strangers[organisation] = (window, counted + 1)
        return True

    def admits_caller(self, organisation: str, username: str) -> bool:
        """Whether one more refusal of a known caller is recorded."""
        window = int(self._clock() // WINDOW_SECONDS)
        return self._admits(("caller", organisation, username), MOST_OF_CALLER, window)

    def _admits(self, key: Hashable, most: int, window: int) -> bool:
        counted = _count(self._counts.get(key), window)
        if counted >= most:
            return False
        self._counts[key] = (window, counted + 1)
        return True


def _count(found: tuple[int, int] | None, window: int) -> int:
    return found[1] if found is not None and found[0] == window else 0
