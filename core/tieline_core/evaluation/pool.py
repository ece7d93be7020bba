"""A few limited processes that serve the jobs of all organisations in turn."""

import asyncio
import logging
from collections import OrderedDict, deque
from typing import Protocol

from tieline_core.evaluation.worker import End, Limits, Worker

logger = logging.getLogger(__name__)

_IDLE_SECONDS = 60.0
# What a library leaks belongs to nobody: a process is replaced long before that could matter.
_MOST_JOBS = 1_000


class EvaluationBusy(Exception):  # noqa: N818  (says what is the case, not that something broke)
    """An evaluation cannot be made right now; try again in a moment."""


class Job(Protocol):
    """Something to evaluate for an organisation."""

    @property
    def tenant(self) -> str:
        """Whose job it is: the organisation's namespace."""

    def request(self) -> bytes | None:
        """What the process is sent, asked for when there is one; None when nothing is left to do."""

    def answered(self, body: bytes) -> None:
        """An answer came."""

    def ended(self, end: End) -> None:
        """No more answers come. After AGAIN the job is asked for a request once more."""


class Pool:
    """At most ``size`` processes, started when there is something to do and ended after a minute without.

    Organisations take turns, and while several have jobs each of them has one process at most. How many jobs wait is
    for those to limit who submit them.
    """

    def __init__(self, handler: str, limits: Limits | None = None, *, size: int = 2) -> None:
        """``handler`` is a name in ``child.HANDLERS``."""
        self._handler = handler
        self._limits = limits or Limits()
        self._size = size
        self._waiting: OrderedDict[str, deque[Job]] = OrderedDict()
        self._running: dict[asyncio.Task[None], str] = {}
        self._idle: list[Worker] = []
        self._workers: set[Worker] = set()
        self._retiring: asyncio.TimerHandle | None = None
        self._closing: set[asyncio.Task[int]] = set()
        self._closed = False

    @property
    def pids(self) -> list[int]:
        """The processes that are there."""
        return [worker.pid for worker in self._workers]

    def submit(self, job: Job) -> None:
        """Has a job served in its organisation's turn."""
        if self._closed:
            job.ended(End.UNAVAILABLE)
            return
        self._waiting.setdefault(job.tenant, deque()).append(job)
        self._pump()

    async def close(self) -> None:
        """Ends all processes. Jobs end UNAVAILABLE."""
        self._closed = True
        if self._retiring is not None:
            self._retiring.cancel()
        for task in list(self._running):
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        for jobs in self._waiting.values():
            for job in jobs:
                job.ended(End.UNAVAILABLE)
        self._waiting.clear()
        for worker in list(self._workers):
            worker.kill()
        await asyncio.gather(*self._closing, *(worker.close() for worker in self._workers))
        self._workers.clear()

    def _pump(self) -> None:
        while len(self._running) < self._size and (job := self._next()) is not None:
            task = asyncio.create_task(self._serve(job), name=f"evaluate for {job.tenant}")
            self._running[task] = job.tenant
            task.add_done_callback(self._served)

    def _next(self) -> Job | None:
        busy = set(self._running.values())
        for tenant, jobs in self._waiting.items():
            if tenant in busy:
                continue
            job = jobs.popleft()
            self._waiting.move_to_end(tenant)
            if not jobs:
                del self._waiting[tenant]
            return job
        return None

    def _served(self, task: asyncio.Task[None]) -> None:
        del self._running[task]
        if not self._closed:
            self._pump()

    async def _serve(self, job: Job) -> None:
        end = End.UNAVAILABLE
        try:
            end = await self._run(job)
            while end is End.AGAIN:
                job.ended(end)
                end = await self._run(job)
        except OSError as error:
            logger.warning("No process to evaluate in can be started: %s", error)
        finally:
            job.ended(end)

    async def _run(self, job: Job) -> End:
        request = job.request()
        if request is None:
            return End.DONE
        worker = self._idle.pop() if self._idle else await self._start()
        used = worker.jobs > 0
        try:
            end = await worker.run(request, job.answered)
        except BaseException:
            worker.kill()
            self._end(worker)
            raise
        if end is End.DONE and worker.jobs < _MOST_JOBS:
            self._idle.append(worker)
            self._retire_later()
        else:
            self._workers.discard(worker)
            await worker.close()
        return End.AGAIN if end in (End.CRASHED, End.KILLED) and used else end

    async def _start(self) -> Worker:
        worker = await Worker.start(self._handler, self._limits)
        self._workers.add(worker)
        return worker

    def _retire_later(self) -> None:
        if self._retiring is not None:
            self._retiring.cancel()
        self._retiring = asyncio.get_running_loop().call_later(_IDLE_SECONDS, self._retire)

    def _retire(self) -> None:
        for worker in self._idle:
            self._end(worker)
        self._idle.clear()

    def _end(self, worker: Worker) -> None:
        self._workers.discard(worker)
        task = asyncio.create_task(worker.close(), name="end a process")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
