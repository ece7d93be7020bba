"""A bounded cache whose values expire, and where many who ask at once cause one look-up."""

import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from cachetools import LRUCache

from tieline_common.single_flight import SingleFlight
from tieline_core.kubernetes import Unavailable

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


_AWAY_PAUSE = 2.0


@dataclass(frozen=True)
class _Kept(Generic[V]):
    value: V
    until: float
    ask_again: float


class TtlCache(Generic[K, V]):
    """Values by key for a limited time; the least recently used leave first.

    Errors are not kept: everybody who waited gets the error, the next one tries again. Only while Kubernetes
    is away (Unavailable) a value counts longer, by ``grace`` seconds at most.
    """

    def __init__(self, *, size: int, grace: float = 0.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._grace = grace
        self._clock = clock
        self._values: LRUCache[K, _Kept[V]] = LRUCache(size)
        self._flights: SingleFlight[K, V] = SingleFlight()

    async def get(self, key: K, load: Callable[[], Awaitable[tuple[V, float]]]) -> V:
        """The value of ``key``; ``load`` brings it together with its time to live in seconds."""
        found = self._values.get(key)
        if found is not None and self._clock() < found.ask_again:
            return found.value
        return await self._flights.run(key, lambda: self._load(key, load))

    def __len__(self) -> int:
        return len(self._values)

    async def _load(self, key: K, load: Callable[[], Awaitable[tuple[V, float]]]) -> V:
        try:
            value, seconds = await load()
        except Unavailable:
            old = self._values.get(key)
            now = self._clock()
            if old is None or now >= old.until + self._grace:
                raise
            self._values[key] = replace(old, ask_again=min(now + _AWAY_PAUSE, old.until + self._grace))
            return old.value
        until = self._clock() + seconds
        self._values[key] = _Kept(value, until=until, ask_again=until)
        return value
