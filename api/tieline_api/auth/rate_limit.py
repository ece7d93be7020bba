"""How often a caller may ask: counted in memory, by each replica for itself."""

import math
import time

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter

from tieline_api import errors
from tieline_api.auth.authentication import Caller


class RateLimiter:
    """At most so many requests of one caller in any minute."""

    def __init__(self, requests_a_minute: int) -> None:
        """0 means no limit."""
        self._item = RateLimitItemPerMinute(requests_a_minute) if requests_a_minute else None
        self._limiter = SlidingWindowCounterRateLimiter(MemoryStorage())

    def hit(self, caller: Caller) -> None:
        """Counts a request; ApiError 429 for one too many."""
        if self._item is None or self._limiter.hit(self._item, caller.username, caller.uid):
            return
        reset = self._limiter.get_window_stats(self._item, caller.username, caller.uid).reset_time
        seconds = max(1, math.ceil(reset - time.time()))
        raise errors.too_many_requests(
            f"You may send {self._item.amount} requests a minute: go on in {seconds} s, and more slowly",
            retry_after=seconds,
        )
