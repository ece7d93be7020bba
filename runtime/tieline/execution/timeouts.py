"""How long runs may take: like asyncio.timeout, for many that all have the same time.

asyncio.timeout sets a timer of the event loop for each block and takes it back, a tenth of what a run costs. Here
one timer is set for all: who began first is due first, and nearly all have ended by then.
"""

import asyncio
from types import TracebackType

from tieline.run_deadline import begin_deadline


class Deadlines:
    """Stops blocks that take longer than ``seconds`` (0: none is stopped)."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        # In the order in which they are due; a dict takes one out of the middle as quickly as the first.
        self._running: dict[Deadline, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> "Deadline":
        """What a block of the current task is to be put into: ``with deadlines.begin() as deadline``."""
        now = asyncio.get_running_loop().time()
        begin_deadline(now, self._seconds)
        return Deadline(self, now + self._seconds)

    def add(self, deadline: "Deadline") -> None:
        """Watch a block that begins."""
        if not self._seconds:
            return
        self._running[deadline] = None
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_at(deadline.due, self._stop_due)

    def remove(self, deadline: "Deadline") -> None:
        """Leave a block alone that has ended."""
        self._running.pop(deadline, None)

    def _stop_due(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        while self._running:
            first = next(iter(self._running))
            if first.due > loop.time():
                self._timer = loop.call_at(first.due, self._stop_due)
                return
            del self._running[first]
            first.expire()


class Deadline:
    """A block that raises TimeoutError when it is stopped, and can be cancelled by others as any can."""

    __slots__ = ("_cancelling", "_deadlines", "_task", "due", "expired")

    def __init__(self, deadlines: Deadlines, due: float) -> None:
        self._deadlines = deadlines
        self.due = due
        self.expired = False
        """Whether its time is over."""

    def __enter__(self) -> "Deadline":
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("A deadline needs a task that it can stop")
        self._task = task
        self._cancelling = task.cancelling()
        self._deadlines.add(self)
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _where: TracebackType | None
    ) -> None:
        self._deadlines.remove(self)
        # As asyncio.timeout does it: when somebody else cancelled the task too, that goes on.
        if (
            self.expired
            and self._task.uncancel() <= self._cancelling
            and isinstance(error, asyncio.CancelledError)
        ):
            raise TimeoutError from error

    def expire(self) -> None:
        """Stop the block: its time is over."""
        self.expired = True
        self._task.cancel()
