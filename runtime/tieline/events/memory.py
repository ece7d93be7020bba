"""Events in memory, with the semantics of the engine: for your own machine and for tests, where time can be a fake.

In local runs they are also in a file, which the process that serves the next version reads.
"""

import asyncio
import heapq
import itertools
import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tieline.events.memory_runs import MemoryRuns
from tieline.events.memory_waits import MemoryWaits
from tieline.events.queue import DeliveryHandler, EventsUnavailableError
from tieline.events.wait_store import OpenWait
from tieline.execution.priorities import PriorityOrder
from tieline_protocol import run_records
from tieline_protocol.events import EventMetadata
from tieline_protocol.run_records import RunRecord

if TYPE_CHECKING:
    from tieline.events.event_file import EventFile  # pods do not need SQLite

logger = logging.getLogger("tieline.events")

_DUPLICATE_WINDOW = 120.0
MAX_EVENTS = 100_000


@dataclass
class _Stored:
    metadata: EventMetadata
    payload: bytes
    number: int
    """That of the file, or else counted; no two events have the same."""
    waits_until: float | None = None
    """When it is due; None once it no longer waits for a time."""


class _Ready:
    """What is to be run now: higher priorities first, and each in order."""

    def __init__(self) -> None:
        self._events: dict[int, deque[_Stored]] = {}
        self._order = PriorityOrder()

    def __len__(self) -> int:
        return sum(len(one) for one in self._events.values())

    def append(self, stored: _Stored) -> None:
        """Behind the others of its priority."""
        self._events.setdefault(stored.metadata.priority, deque()).append(stored)

    def pop(self) -> _Stored:
        """The next one."""
        priority = self._order.choose(self._events)
        events = self._events[priority]
        stored = events.popleft()
        if not events:
            del self._events[priority]
        return stored


@dataclass(frozen=True)
class DeadLetter:
    """An event that is not tried again, and why."""

    metadata: EventMetadata
    payload: bytes
    error: str


@dataclass
class MemoryQueue:
    """An EventQueue, and what hands its events out."""

    clock: Callable[[], float] = time.time
    history: list[RunRecord] = field(default_factory=list)
    dead_letters: list[DeadLetter] = field(default_factory=list)
    file: "EventFile | None" = None
    """Where they outlive the process; ``run`` waits until no other process runs them."""
    keeps_history: bool = True
    """Whether ``history`` has what runs report; with a ``file`` it has nothing."""

    def __post_init__(self) -> None:
        self._runs_file = self.file is None
        self._ready = _Ready()
        self._keys: dict[str, deque[_Stored]] = {}
        """Events with a key, oldest first; the first one of each is in ``_ready``, waits, or runs."""
        self._later: list[tuple[float, int, _Stored]] = []
        """What waits, by time. An entry of an event that was woken since has another time than the event."""
        self._waiting: dict[str, _Stored] = {}
        """What waits, by run."""
        self._numbers = itertools.count()
        self._runs: Counter[str] = Counter()
        """How often the event of each run is stored."""
        self._ids: dict[str, float] = {}
        self.waits = MemoryWaits(self.file, clock=self.clock, wake=self._wake)
        self.runs = MemoryRuns(self.file, forgotten=self.waits.forget_outcomes)
        self._deliveries: dict[str, float] = {}
        self._changed = asyncio.Event()
        self._running: set[asyncio.Task[None]] = set()

    @property
    def next_due(self) -> float | None:
        """When the next event that waits is due (seconds since 1970); None when none waits."""
        while self._later and self._later[0][2].waits_until != self._later[0][0]:
            heapq.heappop(self._later)
        return self._later[0][0] if self._later else None

    @property
    def pending(self) -> int:
        """Events that are ready, wait or run."""
        behind = sum(len(events) - 1 for events in self._keys.values())
        return len(self._ready) + len(self._waiting) + len(self._running) + behind

    async def publish(self, metadata: EventMetadata, payload: bytes, *, until: float | None = None) -> bool:
        """See EventQueue."""
        if self.pending >= MAX_EVENTS:
            raise EventsUnavailableError(f"{MAX_EVENTS:,} events are waiting already; none was accepted")
        if metadata.event_id is not None and not self._is_new(metadata.message_id):
            return False
        self._store(metadata, payload, until)
        return True

    async def requeue(self, metadata: EventMetadata, payload: bytes) -> None:
        """See EventQueue."""
        self._store(metadata, payload, None)

    async def has_run(self, run: str) -> bool:
        """See EventQueue."""
        return self._runs[run] > 0

    async def is_stored_for_later(self, run: str, *, besides: tuple[str, int]) -> bool:
        """See EventQueue. What is handed out does not wait here."""
        return run in self._waiting

    def _store(self, metadata: EventMetadata, payload: bytes, until: float | None) -> None:
        if self.file is None:
            number = next(self._numbers)
        else:
            number = self.file.add(metadata, payload, ready_at=self.clock() if until is None else until)
            if not self._runs_file:
                return  # read with the others once they are run here
        stored = _Stored(metadata, payload, number)
        self._runs[metadata.run] += 1
        if until is not None:
            self._wait(stored, until)
        else:
            self._enqueue(stored)

    async def knows_delivery(self, key_hash: str) -> bool:
        """See EventQueue."""
        return self._deliveries.get(key_hash, 0) > self.clock()

    async def remember_delivery(self, key_hash: str, seconds: float) -> None:
        """See EventQueue."""
        now = self.clock()
        for old in [one for one, until in self._deliveries.items() if until <= now]:
            del self._deliveries[old]
        self._deliveries[key_hash] = now + seconds

    async def add_history(self, content: bytes) -> None:
        """See EventQueue."""
        if self.file is None and self.keeps_history:
            self.history.extend(run_records.decode(content))

    async def run_ready(self, handle: DeliveryHandler) -> int:
        """Run what is ready, and what becomes ready by it, until nothing is; how many attempts that were."""
        attempts = 0
        while True:
            self._take_due()
            if not self._ready and not self._running:
                return attempts
            attempts += len(self._ready)
            while self._ready:
                self._start(handle, self._ready.pop())
            await asyncio.wait(set(self._running), return_when=asyncio.FIRST_COMPLETED)

    async def run(self, handle: DeliveryHandler, *, capacity: int) -> None:
        """Run events as they become ready, at most ``capacity`` at once, until cancelled."""
        await self._take_over()
        while True:
            self._changed.clear()
            self._take_due()
            while self._ready and len(self._running) < capacity:
                self._start(handle, self._ready.pop())
            wait = None if self.next_due is None else max(self.next_due - self.clock(), 0.001)
            try:
                async with asyncio.timeout(wait):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def drain(self, seconds: float) -> None:
        """Wait for what runs, for ``seconds`` at most, and stop the rest."""
        if self._running:
            await asyncio.wait(set(self._running), timeout=max(seconds, 0))
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(set(self._running), timeout=1)

    def close(self) -> None:
        """Let the next process run what is in the file."""
        if self.file is not None:
            self.file.close()

    async def _take_over(self) -> None:
        """Read what other processes have left in the file."""
        if self.file is None or self._runs_file:
            return
        await self.file.hold()
        self.runs.read()
        self.waits.read()
        now = self.clock()
        for saved in self.file.events():
            stored = _Stored(saved.metadata, saved.payload, saved.number)
            self._runs[saved.metadata.run] += 1
            if saved.ready_at > now:
                self._wait(stored, saved.ready_at)
            else:
                self._enqueue(stored, saved.waits_until)
        if self.pending:
            logger.info(
                "Events that are left from before, and are run now or at their time: %d", self.pending
            )
        self._runs_file = True

    def _is_new(self, identifier: str) -> bool:
        now = self.clock()
        if self.file is not None:
            return self.file.is_new(identifier, now=now, window=_DUPLICATE_WINDOW)
        for old in [one for one, seen in self._ids.items() if seen <= now - _DUPLICATE_WINDOW]:
            del self._ids[old]
        if identifier in self._ids:
            return False
        self._ids[identifier] = now
        return True

    def _enqueue(self, stored: _Stored, until: float | None = None) -> None:
        """Behind the others of its key; the first of a key waits ``until`` a time, or is ready."""
        if stored.metadata.key is not None:
            events = self._keys.setdefault(stored.metadata.key_hash, deque())
            events.append(stored)
            if len(events) > 1:
                return
        if until is not None:
            self._wait(stored, until)
            return
        self._ready.append(stored)
        self._changed.set()

    def _wait(self, stored: _Stored, until: float) -> None:
        stored.waits_until = until
        self._waiting[stored.metadata.run] = stored
        heapq.heappush(self._later, (until, stored.number, stored))
        self._changed.set()

    def _wake(self, run: str) -> None:
        """Continue a run now that waits for a time."""
        stored = self._waiting.get(run)
        if stored is not None:
            if self.file is not None:
                self.file.wait(stored.number, stored.metadata, self.clock())
            self._wait(stored, self.clock())

    def _take_due(self) -> None:
        while (due := self.next_due) is not None and due <= self.clock():
            stored = heapq.heappop(self._later)[2]
            stored.waits_until = None
            self._waiting.pop(stored.metadata.run, None)
            events = self._keys.get(stored.metadata.key_hash)
            if events and events[0] is stored:
                self._ready.append(stored)
            else:
                self._enqueue(stored)

    def _start(self, handle: DeliveryHandler, stored: _Stored) -> None:
        task = asyncio.get_running_loop().create_task(handle(_MemoryDelivery(self, stored)))
        self._running.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._changed.set()

    def _finish(self, stored: _Stored) -> None:
        """It has ended, and its key goes on with the next event."""
        if self.file is not None:
            self.file.remove(stored.number)
        self._runs[stored.metadata.run] -= 1
        if not self._runs[stored.metadata.run]:
            del self._runs[stored.metadata.run]
        key = stored.metadata.key_hash
        events = self._keys.get(key)
        if not events or events[0] is not stored:
            return
        events.popleft()
        if events:
            self._ready.append(events[0])
            self._changed.set()
        else:
            del self._keys[key]


class _MemoryDelivery:
    """See Delivery."""

    def __init__(self, queue: MemoryQueue, stored: _Stored) -> None:
        self._queue = queue
        self._stored = stored
        self.metadata = stored.metadata
        self.payload = stored.payload
        self.held = True

    @property
    def message(self) -> tuple[str, int]:
        """See Delivery. Nothing is handed out twice here."""
        return "memory", id(self)

    async def interruptions(self) -> int:
        """See Delivery."""
        file = self._queue.file
        return 0 if file is None else file.begin(self._stored.number)

    async def begins(self, interruptions: int) -> None:
        """See Delivery."""

    async def done(self) -> None:
        """See Delivery."""
        self._queue._finish(self._stored)

    @property
    def key_hash(self) -> str | None:
        """See Delivery."""
        return None if self.metadata.key is None else self.metadata.key_hash

    async def wait(self, metadata: EventMetadata, until: float, waits: Collection[OpenWait] = ()) -> bool:
        """See Delivery."""
        self._stored.metadata = replace(metadata, key=self._stored.metadata.key)
        if self._queue.file is not None:
            self._queue.file.wait(self._stored.number, self._stored.metadata, until)
        self._queue._wait(self._stored, until)
        await self._queue.waits.begin(waits)
        return True

    async def dead_letter(self, metadata: EventMetadata, error: str) -> None:
        """See Delivery."""
        self._queue.dead_letters.append(DeadLetter(metadata, self.payload, error))

    async def set_aside(self, metadata: EventMetadata, until: float) -> bool:
        """See Delivery. There is always room for dead letters here."""
        return await self.wait(metadata, until)

    async def release(self) -> None:
        """See Delivery. The file says what it says, and this process has the event until it ends."""

    async def ack_duplicate(self) -> None:
        """See Delivery. Nothing is handed out twice here."""
