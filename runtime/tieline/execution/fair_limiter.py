"""Who runs next: a bounded number of runs at once, and a fair queue for the others.

Each activation has a queue of its own, and the queues take turns: an activation with a thousand waiting runs gets
one turn, then each other activation that waits gets one. An activation that holds its share of the turns waits
until one of its own runs has ended, so that there is always room for somebody else.
"""

import asyncio
from collections import OrderedDict, deque


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
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self.active = 0
        """FairLimiter that are held."""
        self.waiting = 0

    def take(self, key: str) -> bool:
        """A turn at once, if nobody has to wait for one; whoever gets it calls ``release``."""
        held = self._held.get(key, 0)
        if self.active >= self.most or held >= self._share or key in self._waiting:
            return False
        self.active += 1
        self._held[key] = held + 1
        return True

    async def wait(self, key: str, *, bounded: bool = True) -> None:
        """A turn; NoSlotError when too many wait. With ``bounded=False`` it waits however many do."""
        if self.take(key):
            return
        queue = self._waiting.get(key)
        if bounded and (len(queue or ()) >= self._queue_of_one or self.waiting >= self._queue):
            raise NoSlotError
        if queue is None:
            queue = self._waiting[key] = deque()
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(turn)
        self.waiting += 1
        try:
            async with asyncio.timeout(self._wait_timeout if bounded else None):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self.release(key)
            else:
                self._leave(key, turn)
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
        """Give a turn to the first key that may have one, and put that key behind the others."""
        for key, queue in self._waiting.items():
            if self._held.get(key, 0) >= self._share:
                continue
            turn = queue.popleft()
            self.waiting -= 1
            if queue:
                self._waiting.move_to_end(key)
            else:
                del self._waiting[key]
            if turn.done():
                # It gave up in this very moment, and is not counted as waiting any more.
                return True
            self._grant(key)
            turn.set_result(None)
            return True
        return False

    def _grant(self, key: str) -> None:
        self.active += 1
        self._held[key] = self._held.get(key, 0) + 1

    def _leave(self, key: str, turn: "asyncio.Future[None]") -> None:
        queue = self._waiting.get(key)
        if queue is None or turn not in queue:
            return
        queue.remove(turn)
        self.waiting -= 1
        if not queue:
            del self._waiting[key]


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
