"""A bounded cache whose values expire, and where many who ask at once cause one look-up."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class TtlCache(Generic[K, V]):
    """Values by key for a limited time; the least recently used leave first.

    Errors are not kept: everybody who waited gets the error, the next one tries again.
    """

    def __init__(self, *, size: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._size = size
        self._clock = clock
        self._values: OrderedDict[K, tuple[float, V]] = OrderedDict()
        self._pending: dict[K, asyncio.Task[V]] = {}

    async def get(self, key: K, load: Callable[[], Awaitable[tuple[V, float]]]) -> V:
        """The value of ``key``; ``load`` brings it together with its time to live in seconds."""
        found = self._values.get(key)
        if found is not None and self._clock() < found[0]:
            self._values.move_to_end(key)
            return found[1]
        task = self._pending.get(key)
        if task is None:
            task = asyncio.create_task(self._load(key, load))
            self._pending[key] = task
            task.add_done_callback(lambda done: self._finished(key, done))
        # Shielded: that one of those who wait goes away must not fail the others.
        return await asyncio.shield(task)

    def __len__(self) -> int:
        return len(self._values)

    async def _load(self, key: K, load: Callable[[], Awaitable[tuple[V, float]]]) -> V:
        value, seconds = await load()
        self._values[key] = (self._clock() + seconds, value)
        self._values.move_to_end(key)
        while len(self._values) > self._size:
            self._values.popitem(last=False)
        return value

    def _finished(self, key: K, done: "asyncio.Task[V]") -> None:
        self._pending.pop(key, None)
        if not done.cancelled():
            done.exception()  # seen: nobody may be waiting for it any more
