"""Which import runs next: several side by side within one memory, fair between owners (organisations)."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass


class ImportQueueFull(Exception):  # noqa: N818  (says what is the case, not that something broke)
    """More imports wait than can be served soon; try again."""


@dataclass(frozen=True, kw_only=True)
class QueueLimits:
    """How much runs at once, and how much waits."""

    memory: int
    """Bytes that all running imports may use together."""
    at_once: int = 6
    """How many run side by side."""
    at_once_of_one: int = 2
    """How many of them may be one owner's."""
    waiting: int = 64
    """How many wait."""
    waiting_of_one: int = 16
    """How many of those may be one owner's."""
    small: int
    """Bytes up to which an import is a small one."""
    reserve: int
    """Bytes that large imports leave to small ones, where there is more than one large import needs."""


@dataclass(eq=False)
class _Job:
    owner: str
    memory: int
    admitted: asyncio.Future[None]


class ImportQueue:
    """Admits imports: owners take turns, and an owner's imports run in their order.

    A large import that waits for memory is not overtaken for ever: small ones then have the reserve alone.
    """

    def __init__(self, limits: QueueLimits) -> None:
        self._limits = limits
        self._waiting: OrderedDict[str, deque[_Job]] = OrderedDict()
        self._running: list[_Job] = []

    @asynccontextmanager
    async def slot(self, owner: str, memory: int) -> AsyncIterator[None]:
        """Waits for a place for an import of ``owner`` that may use ``memory`` bytes, and holds it.

        Raises ImportQueueFull when too many wait already.
        """
        job = _Job(owner, min(memory, self._limits.memory), asyncio.get_running_loop().create_future())
        self._enqueue(job)
        try:
            await job.admitted
            yield
        finally:
            self._leave(job)

    def _enqueue(self, job: _Job) -> None:
        own = self._waiting.get(job.owner, ())
        queued = sum(map(len, self._waiting.values()))
        self._waiting.setdefault(job.owner, deque()).append(job)
        self._admit()
        if job.admitted.done():
            return
        if queued >= self._limits.waiting or len(own) > self._limits.waiting_of_one:
            self._leave(job)
            whose = (
                "Too many imports are" if queued >= self._limits.waiting else "Too many of your imports are"
            )
            raise ImportQueueFull(f"{whose} waiting: try again in a moment")

    def _leave(self, job: _Job) -> None:
        if job in self._running:
            self._running.remove(job)
        elif job.owner in self._waiting:
            self._waiting[job.owner].remove(job)
            if not self._waiting[job.owner]:
                del self._waiting[job.owner]
        self._admit()

    def _admit(self) -> None:
        """Starts all that may run now; owners whose import starts go to the end of the line."""
        progress = True
        while progress:
            progress = False
            held_up = False
            for owner, jobs in list(self._waiting.items()):
                # A cancelled job is removed shortly. Until then it must not block the others.
                job = next((one for one in jobs if not one.admitted.cancelled()), None)
                if job is None or not self._has_turn(owner):
                    continue
                if not self._fits(job, reserve_only=held_up):
                    held_up = held_up or self._is_large(job)
                    continue
                jobs.remove(job)
                self._running.append(job)
                del self._waiting[owner]
                if jobs:
                    self._waiting[owner] = jobs
                job.admitted.set_result(None)
                progress = True
                break

    def _has_turn(self, owner: str) -> bool:
        own = sum(job.owner == owner for job in self._running)
        return len(self._running) < self._limits.at_once and own < self._limits.at_once_of_one

    def _fits(self, job: _Job, *, reserve_only: bool) -> bool:
        limits = self._limits
        large = sum(running.memory for running in self._running if self._is_large(running))
        small = sum(running.memory for running in self._running) - large
        if large + small + job.memory > limits.memory:
            return False
        if self._is_large(job):
            # One that needs nearly everything runs alone.
            return not self._running or large + job.memory <= limits.memory - limits.reserve
        return not reserve_only or small + job.memory <= limits.reserve

    def _is_large(self, job: _Job) -> bool:
        return job.memory > self._limits.small
