"""What is to be done at a time of its own: one heap and one timer for all, and few at once.

Each key has a lane (the provider's host, for tokens). Lanes take turns, so that a slow one holds up nobody else,
and a lane that is paused costs nothing.
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

_AFTER_A_FAULT = 60.0

K = TypeVar("K", bound=Hashable)


@dataclass
class _Lane(Generic[K]):
    ready: deque[K] = field(default_factory=deque)
    running: int = 0
    paused_until: float = 0.0


class DelayingQueue(Generic[K]):
    """Keys with the time at which ``work`` is to have them, each at most once and never twice at a time.

    ``work`` returns the seconds after which it wants the key again, or None.
    """

    def __init__(
        self,
        work: Callable[[K], Awaitable[float | None]],
        *,
        lane: Callable[[K], str],
        at_once: int = 32,
        per_lane: int = 8,
        clock: Clock | None = None,
    ) -> None:
        self._work = work
        self._lane_of = lane
        self._at_once = at_once
        self._per_lane = per_lane
        self._clock = clock or LoopClock()
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._order = itertools.count()
        self._lanes: dict[str, _Lane[K]] = {}
        self._turns: deque[str] = deque()
        self._ready: dict[K, str] = {}
        self._running: dict[K, asyncio.Task[None]] = {}
        self._timer: Timer | None = None
        self._wakes_at = float("inf")
        self._started = False

    def __len__(self) -> int:
        """Keys that wait for their time, for a free place, or for the end of a run."""
        return len(self._due) + len(self._ready)

    def __contains__(self, key: object) -> bool:
        return key in self._due or key in self._ready or key in self._running

    @property
    def late(self) -> int:
        """Keys whose time has come and that wait for a free place."""
        return len(self._ready)

    @property
    def idle(self) -> bool:
        """Whether nothing runs or waits for a free place."""
        return not self._ready and not self._running

    def put(self, key: K, seconds: float) -> None:
        """Has ``key`` worked on in some seconds, whatever was said before."""
        due = self._clock.time() + max(seconds, 0.0)
        if key in self._ready:
            if seconds <= 0:
                return
            self._leave_lane(key)
        self._due[key] = due
        heapq.heappush(self._heap, (due, next(self._order), key))
        self._tidy()
        if due < self._wakes_at:
            self._wake_at(due)

    def drop(self, key: K) -> None:
        """Forgets ``key``; a run that has begun goes on."""
        self._due.pop(key, None)
        if key in self._ready:
            self._leave_lane(key)

    def pause(self, lane: str, seconds: float) -> None:
        """Starts no more work of a lane for some seconds."""
        if lane in self._lanes:
            until = self._clock.time() + seconds
            self._lanes[lane].paused_until = max(self._lanes[lane].paused_until, until)

    def start(self) -> None:
        """Begins to work."""
        self._started = True
        self._wake_at(self._clock.time())

    async def stop(self, grace: float = 20.0) -> None:
        """Starts nothing more, and lets what runs finish: a token that was rotated must be stored."""
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
            self._timer = self._clock.call_later(max(due - self._clock.time(), 0.0), self._turn)

    def _turn(self) -> None:
        """Takes up what is due, starts what has a place, and sets the timer for what comes next."""
        self._wakes_at = float("inf")
        now = self._clock.time()
        while self._heap and self._heap[0][0] <= now:
            due, _, key = heapq.heappop(self._heap)
            if self._due.get(key) == due and key not in self._running:
                del self._due[key]
                self._enter_lane(key)
        self._start_ready(now)
        paused = [
            lane.paused_until for lane in self._lanes.values() if lane.ready and lane.paused_until > now
        ]
        following = min([*paused, *(entry[0] for entry in self._heap[:1])], default=None)
        if following is not None:
            self._wake_at(following)

    def _start_ready(self, now: float) -> None:
        blocked = 0
        while (
            self._started
            and self._turns
            and blocked < len(self._turns)
            and len(self._running) < self._at_once
        ):
            name = self._turns[0]
            self._turns.rotate(-1)
            lane = self._lanes[name]
            if lane.running >= self._per_lane or lane.paused_until > now or not lane.ready:
                blocked += 1
                continue
            blocked = 0
            key = lane.ready.popleft()
            del self._ready[key]
            lane.running += 1
            self._running[key] = asyncio.create_task(self._run(key, name))

    async def _run(self, key: K, name: str) -> None:
        again: float | None = None
        try:
            again = await self._work(key)
        except asyncio.CancelledError:
            raise
        except Exception:
            logger.exception("Work that was due has failed, trying again later", extra={"object": str(key)})
            again = _AFTER_A_FAULT
        finally:
            del self._running[key]
            self._lanes[name].running -= 1
            self._forget_empty(name)
            if key in self._due:
                # Put again while it ran; its entry in the heap may have been passed over.
                self.put(key, self._due[key] - self._clock.time())
            elif again is not None:
                self.put(key, again)
            if self._started:
                self._turn()

    def _enter_lane(self, key: K) -> None:
        name = self._lane_of(key)
        if name not in self._lanes:
            self._lanes[name] = _Lane()
            self._turns.append(name)
        self._lanes[name].ready.append(key)
        self._ready[key] = name

    def _leave_lane(self, key: K) -> None:
        name = self._ready.pop(key)
        self._lanes[name].ready.remove(key)

    def _forget_empty(self, name: str) -> None:
        lane = self._lanes[name]
        if not lane.ready and not lane.running and lane.paused_until <= self._clock.time():
            del self._lanes[name]
            self._turns.remove(name)

    def _tidy(self) -> None:
        """Entries that were put again stay in the heap until they come up: not more of them than keys."""
        if len(self._heap) > 2 * len(self._due) + 64:
            self._heap = [(due, next(self._order), key) for key, due in self._due.items()]
            heapq.heapify(self._heap)
