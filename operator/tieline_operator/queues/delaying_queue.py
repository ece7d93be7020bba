"""A delaying queue with a limit per group: keys become due at times of their own, with one heap and one timer.

Each key has a group (the provider's host, for tokens). Groups take turns, so that a slow one holds up no other,
and a paused group costs nothing.
"""

import asyncio
import heapq
import itertools
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tieline_operator.queues.clock import Clock, LoopClock, Timer

logger = logging.getLogger(__name__)

_RETRY_SECONDS = 60.0

K = TypeVar("K", bound=Hashable)


@dataclass
class _Group(Generic[K]):
    ready: deque[K] = field(default_factory=deque)
    running: int = 0
    paused_until: float = 0.0


class DelayingQueue(Generic[K]):
    """Runs ``work`` for each key when it is due: a key waits at most once, and never runs twice at a time.

    ``work`` returns the seconds after which the key is due again, or None. At most ``at_once`` keys run, and
    ``per_group`` of a group.
    """

    def __init__(
        self,
        work: Callable[[K], Awaitable[float | None]],
        *,
        group: Callable[[K], str],
        at_once: int = 32,
        per_group: int = 8,
        clock: Clock | None = None,
    ) -> None:
        self._work = work
        self._group_of = group
        self._at_once = at_once
        self._per_group = per_group
        self._clock = clock or LoopClock()
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._order = itertools.count()
        self._groups: dict[str, _Group[K]] = {}
        self._group_order: deque[str] = deque()
        self._ready: dict[K, str] = {}
        self._running: dict[K, asyncio.Task[None]] = {}
        self._timer: Timer | None = None
        self._wakes_at = float("inf")
        self._started = False

    def __len__(self) -> int:
        """Keys that are not due yet, that wait for a free slot, or that run and are due again."""
        return len(self._due) + len(self._ready)

    def __contains__(self, key: object) -> bool:
        return key in self._due or key in self._ready or key in self._running

    @property
    def late(self) -> int:
        """Keys that are due and wait for a free slot."""
        return len(self._ready)

    @property
    def idle(self) -> bool:
        """Whether nothing runs or waits for a free slot."""
        return not self._ready and not self._running

    def add_after(self, key: K, seconds: float) -> None:
        """Makes ``key`` due in some seconds, replacing an earlier due time."""
        due = self._clock.time() + max(seconds, 0.0)
        if key in self._ready:
            if seconds <= 0:
                return
            self._leave_group(key)
        self._due[key] = due
        heapq.heappush(self._heap, (due, next(self._order), key))
        self._compact_heap()
        if due < self._wakes_at:
            self._wake_at(due)

    def forget(self, key: K) -> None:
        """Removes ``key``; a run that has started continues."""
        self._due.pop(key, None)
        if key in self._ready:
            self._leave_group(key)

    def pause(self, group: str, seconds: float) -> None:
        """Starts no more work of a group for some seconds."""
        if group in self._groups:
            until = self._clock.time() + seconds
            self._groups[group].paused_until = max(self._groups[group].paused_until, until)

    def start(self) -> None:
        """Starts to run keys that are due."""
        self._started = True
        self._wake_at(self._clock.time())

    async def stop(self, grace: float = 20.0) -> None:
        """Starts no more runs, and waits ``grace`` seconds for those under way: a rotated token must be stored."""
        self._started = False
        if self._timer:
            self._timer.cancel()
        if self._running:
            _, late = await asyncio.wait(list(self._running.values()), timeout=grace)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    def _wake_at(self, due: float) -> None:
        if self._timer:
            self._timer.cancel()
        self._timer, self._wakes_at = None, due
        if self._started:
            self._timer = self._clock.call_later(max(due - self._clock.time(), 0.0), self._run_due)

    def _run_due(self) -> None:
        """Collects the keys that are due, starts those that have a slot, and sets the timer for the next."""
        self._wakes_at = float("inf")
        now = self._clock.time()
        while self._heap and self._heap[0][0] <= now:
            due, _, key = heapq.heappop(self._heap)
            if self._due.get(key) == due and key not in self._running:
                del self._due[key]
                self._join_group(key)
        self._start_ready(now)
        paused = [
            group.paused_until for group in self._groups.values() if group.ready and group.paused_until > now
        ]
        following = min([*paused, *(entry[0] for entry in self._heap[:1])], default=None)
        if following is not None:
            self._wake_at(following)

    def _start_ready(self, now: float) -> None:
        blocked = 0
        while (
            self._started
            and self._group_order
            and blocked < len(self._group_order)
            and len(self._running) < self._at_once
        ):
            name = self._group_order[0]
            self._group_order.rotate(-1)
            group = self._groups[name]
            if group.running >= self._per_group or group.paused_until > now or not group.ready:
                blocked += 1
                continue
            blocked = 0
            key = group.ready.popleft()
            del self._ready[key]
            group.running += 1
            self._running[key] = asyncio.create_task(self._run(key, name))

    async def _run(self, key: K, name: str) -> None:
        again: float | None = None
        try:
            again = await self._work(key)
        except asyncio.CancelledError:
            raise
        except Exception:
            logger.exception("Scheduled work failed, retrying later", extra={"object": str(key)})
            again = _RETRY_SECONDS
        finally:
            del self._running[key]
            self._groups[name].running -= 1
            self._forget_empty(name)
            if key in self._due:
                # It was added again while it ran; its entry in the heap may have been skipped.
                self.add_after(key, self._due[key] - self._clock.time())
            elif again is not None:
                self.add_after(key, again)
            if self._started:
                self._run_due()

    def _join_group(self, key: K) -> None:
        name = self._group_of(key)
        if name not in self._groups:
            self._groups[name] = _Group()
            self._group_order.append(name)
        self._groups[name].ready.append(key)
        self._ready[key] = name

    def _leave_group(self, key: K) -> None:
        name = self._ready.pop(key)
        self._groups[name].ready.remove(key)

    def _forget_empty(self, name: str) -> None:
        group = self._groups[name]
        if not group.ready and not group.running and group.paused_until <= self._clock.time():
            del self._groups[name]
            self._group_order.remove(name)

    def _compact_heap(self) -> None:
        """Rebuilds the heap once most of its entries are out of date."""
        if len(self._heap) > 2 * len(self._due) + 64:
            self._heap = [(due, next(self._order), key) for key, due in self._due.items()]
            heapq.heapify(self._heap)
