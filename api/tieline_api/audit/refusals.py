"""How many refused requests are recorded: nobody fills the stream with what the API did not do."""

import time
from collections.abc import Callable, Hashable

from cachetools import LRUCache

WINDOW_SECONDS = 600.0
DAY_SECONDS = 86_400.0
MOST_OF_ADDRESS = 5
"""Of one address without valid credentials, in a window."""
MOST_ANONYMOUS = 100
"""Of all of them together, in one organisation in a day: in a year, less than the stream holds."""
MOST_OF_CALLER = 60
"""Of one caller whose credentials are valid, in a window."""
MOST_OF_CALLER_IN_A_DAY = 300
_KEYS = 10_000


class RefusalLimiter:
    """Counts in memory, by each replica for itself, in windows of ten minutes and of a day."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lately = _Counter(WINDOW_SECONDS)
        self._of_a_day = _Counter(DAY_SECONDS)
        self._anonymous = _Counter(DAY_SECONDS)

    def admits_anonymous(self, organisation: str, address: str) -> bool:
        """Whether one more refusal of an address is recorded."""
        return self._admits(
            (self._anonymous, (organisation,), MOST_ANONYMOUS),
            (self._lately, ("address", organisation, address), MOST_OF_ADDRESS),
        )

    def admits_caller(self, organisation: str, username: str) -> bool:
        """Whether one more refusal of a known caller is recorded."""
        key = ("caller", organisation, username)
        return self._admits(
            (self._lately, key, MOST_OF_CALLER), (self._of_a_day, key, MOST_OF_CALLER_IN_A_DAY)
        )

    def _admits(self, *bounds: tuple["_Counter", Hashable, int]) -> bool:
        now = self._clock()
        if any(counter.counted(key, now) >= most for counter, key, most in bounds):
            return False
        for counter, key, _ in bounds:
            counter.count(key, now)
        return True


class _Counter:
    """Counts by keys, in windows of one length. It forgets the keys that were not counted for longest."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._counts: LRUCache[Hashable, tuple[int, int]] = LRUCache(_KEYS)

    def counted(self, key: Hashable, now: float) -> int:
        window, count = self._counts.get(key, (-1, 0))
        return count if window == self._window(now) else 0

    def count(self, key: Hashable, now: float) -> None:
        self._counts[key] = (self._window(now), self.counted(key, now) + 1)

    def _window(self, now: float) -> int:
        return int(now // self._seconds)
