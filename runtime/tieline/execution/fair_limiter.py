"""Who runs next: a bounded number of runs at once, and a fair queue for the others.

Runs of a higher priority go first (``priorities``). Of those of one priority, each activation has a queue of its own,
and the queues take turns: an activation with a thousand waiting runs gets one turn, then each other activation that
waits gets one. An activation that holds its share of the turns waits until one of its own runs has ended, so that there
is always room for somebody else.
"""

import asyncio
from collections import Counter, OrderedDict, deque

from tieline.execution.priorities import USUAL, PriorityOrder

_Queues = OrderedDict[str, deque[asyncio.Future[None]]]
"""What waits of one priority, by key."""


class NoSlotError(Exception):
    """Too many wait already, or the wait took too long."""


class FairLimiter:
    """Hands out turns by key; a key is an activation."""

    def __init__(
        self,
        *,
        most: int,
        share: int | None = None,
        queue_per_key: int = 0,
        queue: int | None = None,
        wait_timeout: float | None = None,
    ) -> None:
        """``most`` turns at once, ``share`` of them for one key (nine tenths unless said).

        ``queue_per_key`` may wait for one key, ``queue`` in all (ten times that unless said), for ``wait_timeout``
        seconds at most (None: as long as it takes).
        """
        self.most = most
        self._share = max(1, most - most // 10 if share is None else share)
        self._queue_of_one = queue_per_key
        self._queue = queue_per_key * 10 if queue is None else queue
        self._wait_timeout = wait_timeout
        self._held: dict[str, int] = {}
        self._waiting: dict[int, _Queues] = {}
        """By priority; only what is not empty."""
        self._waiting_of: Counter[str] = Counter()
        """How many wait for each key."""
        self._order = PriorityOrder()
        self.active = 0
        """FairLimiter that are held."""
        self.waiting = 0

    @property
    def is_full(self) -> bool:
        """Whether others have to wait."""
        return self.active >= self.most or self.waiting > 0

    def take(self, key: str) -> bool:
        """A turn at once, if nobody has to wait for one; whoever gets it calls ``release``."""
        held = self._held.get(key, 0)
        if self.active >= self.most or held >= self._share or self._waiting_of[key]:
            return False
        self.active += 1
        self._held[key] = held + 1
        return True

    async def wait(self, key: str, *, priority: int = USUAL, bounded: bool = True) -> None:
        """A turn; NoSlotError when too many wait. With ``bounded=False`` it waits however many do."""
        if self.take(key):
            return
        if bounded and (self._waiting_of[key] >= self._queue_of_one or self.waiting >= self._queue):
            raise NoSlotError
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(priority, OrderedDict()).setdefault(key, deque()).append(turn)
        self._waiting_of[key] += 1
        self.waiting += 1
        try:
            async with asyncio.timeout(self._wait_timeout if bounded else None):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self.release(key)
            else:
                self._leave(priority, key, turn)
            if isinstance(error, TimeoutError):
                raise NoSlotError from None
            raise

    def release(self, key: str) -> None:
        """Give a turn back: the next one that waits gets it."""
        self.active -= 1
        held = self._held[key] - 1
        if held:
            self._held[key] = held
        else:
            del self._held[key]
        while self._waiting and self.active < self.most and self._next():
            pass

    def _next(self) -> bool:
        """Give a turn to the first key that may have one, and put that key behind the others of its priority."""
        first = {
            one: key for one, queues in self._waiting.items() if (key := self._first(queues)) is not None
        }
        if not first:
            return False
        priority = self._order.choose(first)
        key, queues = first[priority], self._waiting[priority]
        turn = queues[key].popleft()
        if queues[key]:
            queues.move_to_end(key)
        self._removed(priority, key)
        # Who gave up in this very moment is not counted as waiting any more.
        if not turn.done():
            self._grant(key)
            turn.set_result(None)
        return True

    def _first(self, queues: _Queues) -> str | None:
        return next((key for key in queues if self._held.get(key, 0) < self._share), None)

    def _grant(self, key: str) -> None:
        self.active += 1
        self._held[key] = self._held.get(key, 0) + 1

    def _leave(self, priority: int, key: str, turn: "asyncio.Future[None]") -> None:
        queues = self._waiting.get(priority)
        queue = None if queues is None else queues.get(key)
        if queue is None or turn not in queue:
            return
        queue.remove(turn)
        self._removed(priority, key)

    def _removed(self, priority: int, key: str) -> None:
        """One that waited does not any more, and nothing that is empty is kept."""
        self.waiting -= 1
        self._waiting_of[key] -= 1
        if not self._waiting_of[key]:
            del self._waiting_of[key]
        queues = self._waiting[priority]
        if not queues[key]:
            del queues[key]
        if not queues:
            del self._waiting[priority]


class Slot:
    """A run's turn; given back when the run ends, or later by its thread."""

    __slots__ = ("_kept", "_key", "_turns")

    def __init__(self, turns: FairLimiter, key: str) -> None:
        self._turns = turns
        self._key = key
        self._kept = False

    def keep(self) -> None:
        """From now on only ``free`` gives it back."""
        self._kept = True

    def release(self) -> None:
        """The run has ended."""
        if not self._kept:
            self._turns.release(self._key)

    def free(self) -> None:
        """The thread that kept it has ended."""
        self._turns.release(self._key)
