"""How often a caller may ask, and an address may fail to authenticate: counted in memory, by each replica for itself.

Whoever guesses at tokens, or floods the API with worthless ones (each new one is a question to Kubernetes), is
asked to wait. Credentials that were good go on meanwhile: others may share the address.
"""

import hashlib
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cachetools import LRUCache
from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter

from tieline_api import errors
from tieline_api.auth.authentication import Caller, api_key

_WINDOW = 60.0
_ADDRESSES = 10_000
_CREDENTIALS = 10_000


@dataclass(slots=True)
class _Count:
    """Failures of the current minute and of the one before it."""

    minute: int
    now: int = 0
    before: int = 0


class FailureLimiter:
    """A table of limited size: beyond it, the least recently used address is forgotten."""

    def __init__(
        self, a_minute: int, *, addresses: int = _ADDRESSES, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """``a_minute``: how many one address may have; 0 means no limit."""
        self._limit = a_minute
        self._clock = clock
        self._counts: LRUCache[str, _Count] = LRUCache(addresses)
        self._good: LRUCache[bytes, bool] = LRUCache(_CREDENTIALS)

    def check(self, address: str, credential: bytes | None) -> None:
        """ApiError 429 for an address with too many failures, unless the credential was good before."""
        if credential is None or address not in self._counts or credential in self._good:
            return
        count = self._moved(self._counts[address])
        passed = self._clock() % _WINDOW / _WINDOW
        if count.now + count.before * (1 - passed) < self._limit:
            return
        seconds = max(1, math.ceil(_WINDOW * (1 - passed)))
        raise errors.too_many_requests(
            f"Too many authentications from your address have failed: try again in {seconds} s, "
            "with a token or a key that is valid",
            retry_after=seconds,
        )

    def failed(self, address: str, credential: bytes | None) -> None:
        """Counts a failure. To send nothing is none: that is no guess."""
        if credential is None or not self._limit:
            return
        self._good.pop(credential, None)
        count = self._counts.setdefault(address, _Count(self._minute()))
        self._moved(count).now += 1

    def succeeded(self, credential: bytes | None) -> None:
        """Remembers a good credential."""
        if credential is not None and self._limit:
            self._good[credential] = True

    def __len__(self) -> int:
        return len(self._counts)

    def _minute(self) -> int:
        return int(self._clock() // _WINDOW)

    def _moved(self, count: _Count) -> _Count:
        """The count, brought to the current minute."""
        minute = self._minute()
        if count.minute != minute:
            count.before = count.now if count.minute == minute - 1 else 0
            count.now, count.minute = 0, minute
        return count


def credential_of(headers: Mapping[str, str]) -> bytes | None:
    """What tells a request's credentials apart, without keeping them; None when it brings none."""
    sent = f"{api_key(headers)}\n{headers.get('Authorization', '')}"
    return (
        hashlib.blake2b(sent.encode(errors="surrogateescape"), digest_size=16).digest()
        if sent != "\n"
        else None
    )


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
