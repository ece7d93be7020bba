"""The queue of objects to reconcile: one run a key at a time, backoff on failure, a bounded number of runs."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from tieline_common import backoff
from tieline_operator.queues.clock import Clock, LoopClock, Timer

FIRST_BACKOFF = 0.2
LONGEST_BACKOFF = 60.0
DEBOUNCE_SECONDS = 0.1

K = TypeVar("K", bound=Hashable)


class WorkQueue(Generic[K]):
    """Keys that wait for ``work``, each at most once.

    A key that is added while it runs is run once more afterwards. ``work`` returns the seconds after which
    to run the key again, or None; when it raises, the key is retried after 0.2 s, doubling to 60 s, each
    with jitter, until it succeeds.
    """

    def __init__(
        self,
        work: Callable[[K], Awaitable[float | None]],
        *,
        workers: int,
        clock: Clock | None = None,
        jitter: Callable[[], float] | None = None,
    ) -> None:
        """``jitter`` gives the factor of each backoff (0.5 to 1 by chance, unless given otherwise)."""
        self._work = work
        self._size = workers
        self._clock = clock or LoopClock()
        self._jitter = jitter or (lambda: backoff.jitter(1.0, 0.5, 1.0))
        self._waiting: dict[K, float] = {}
        self._running: set[K] = set()
        self._dirty: set[K] = set()
        self._timers: dict[K, Timer] = {}
        self._debounced: dict[K, Timer] = {}
        self._failures: dict[K, int] = {}
        self._wake = asyncio.Event()
        self._workers: list[asyncio.Task[None]] = []
        self._stopping = False

    def __len__(self) -> int:
        """Keys that wait for a worker."""
        return len(self._waiting)

    @property
    def oldest(self) -> float:
        """Seconds that the first key has waited for."""
        return time.monotonic() - next(iter(self._waiting.values())) if self._waiting else 0.0

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing runs (timers apart)."""
        return not self._waiting and not self._running

    def add(self, key: K) -> None:
        """Has ``key`` run as soon as a worker is free."""
        _cancel(self._debounced, key)
        if self._stopping:
            return
        if key in self._running:
            self._dirty.add(key)
            return
        self._waiting.setdefault(key, time.monotonic())
        self._wake.set()

    def add_debounced(self, key: K) -> None:
        """Debounces events by 100 ms: ``key`` runs after that, unless it runs before."""
        if not self._stopping and key not in self._waiting and key not in self._debounced:
            self._debounced[key] = self._clock.call_later(DEBOUNCE_SECONDS, lambda: self.add(key))

    def add_after(self, key: K, seconds: float) -> None:
        """Has ``key`` run in some seconds, unless it runs before."""
        _cancel(self._timers, key)
        if not self._stopping:
            self._timers[key] = self._clock.call_later(max(seconds, 0.0), lambda: self._due(key))

    def start(self) -> None:
        """Starts the workers."""
        self._workers = [
            asyncio.create_task(self._serve(), name=f"reconcile worker {n}") for n in range(self._size)
        ]

    async def stop(self, grace: float = 10.0) -> None:
        """Takes no more keys, waits ``grace`` seconds for running ones, then cancels them."""
        self._stopping = True
        self._wake.set()
        for timers in (self._timers, self._debounced):
            for key in list(timers):
                _cancel(timers, key)
        if self._workers:
            _, late = await asyncio.wait(self._workers, timeout=grace)
            for worker in late:
                worker.cancel()
            await asyncio.gather(*self._workers, return_exceptions=True)

    async def _serve(self) -> None:
        while not self._stopping:
            if not self._waiting:
                self._wake.clear()
                await self._wake.wait()
                continue
            key = next(iter(self._waiting))
            del self._waiting[key]
            await self._run(key)

    async def _run(self, key: K) -> None:
        _cancel(self._timers, key)
        self._running.add(key)
        try:
            again = await self._work(key)
        except asyncio.CancelledError:
            raise
        except Exception:
            # ``work`` has logged it.
            again = self._backoff(key)
        else:
            self._failures.pop(key, None)
        finally:
            self._running.discard(key)
        if key in self._dirty:
            self._dirty.discard(key)
            self.add(key)
        elif again is not None:
            self.add_after(key, again)

    def _backoff(self, key: K) -> float:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        return backoff.exponential(failures, first=FIRST_BACKOFF, cap=LONGEST_BACKOFF) * self._jitter()

    def _due(self, key: K) -> None:
        self._timers.pop(key, None)
        self.add(key)


def _cancel(timers: dict[K, Timer], key: K) -> None:
    timer = timers.pop(key, None)
    if timer is not None:
        timer.cancel()
