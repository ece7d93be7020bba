"""Working through a sweep: page by page, so many at once, with every step written down."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Protocol

from tieline.configuration.users import UsersUnavailableError
from tieline.errors import reason
from tieline.scheduling.claims import Claim, ClaimLostError, ClaimTerms
from tieline.scheduling.clock import Clock
from tieline.scheduling.decisions import next_runs, settled
from tieline.scheduling.records import Record, Sweep
from tieline.scheduling.schedules import Schedule, ScheduledRun
from tieline.state.documents import StateRefusedError, StateUnavailableError

logger = logging.getLogger("tieline.schedules")

_PAUSE = 2.0
_LAST_WRITE = 3.0

Run = Callable[[Schedule, ScheduledRun, str], Awaitable[object]]
"""Runs a schedule's function for an activation (by external id, or STATIC); raises nothing but cancellation."""


class UserPages(Protocol):
    """Where the users come from that a schedule is run for."""

    async def page(self, after: str) -> tuple[list[str], str | None]:
        """External ids after a cursor (empty: from the beginning), and the next cursor; UsersUnavailableError."""


class SweepWorker:
    """One pod's work on one sweep."""

    def __init__(
        self,
        schedule: Schedule,
        claim: Claim,
        sweep: Sweep,
        *,
        people: UserPages,
        run: Run,
        stopping: asyncio.Event,
        clock: Clock,
        terms: ClaimTerms,
    ) -> None:
        self._schedule = schedule
        self._claim = claim
        self._sweep = sweep
        self._people = people
        self._run = run
        self._stopping = stopping
        self._clock = clock
        self._terms = terms
        self._page = dict(sweep.page)
        self._after = sweep.after
        self._not_begun: dict[str, int] = {}
        """Runs of the current chunk that wait for a place, with how often they were begun before."""
        self._changed = False

    async def work(self) -> None:
        """Work until the sweep is done, the claim is lost, or the pod stops; then give back what is left."""
        worker = asyncio.create_task(self._pages())
        keeper = asyncio.create_task(self._keep())
        try:
            await asyncio.wait({worker, keeper}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await _ended(worker, keeper)
            await self._last_write()
            raise
        failed = await _ended(worker, keeper)
        if isinstance(failed, ClaimLostError):
            logger.error("Stopped schedule %s, due %s: %s", self._schedule.name, self._sweep.due, failed)
            return
        try:
            # However long the API is away: what has ended here must not be run again.
            await self._claim.write(self._outcome(), patiently=True)
        except ClaimLostError as lost:
            logger.warning("Ended schedule %s, due %s, but %s", self._schedule.name, self._sweep.due, lost)
        if failed is not None:
            raise failed

    async def _pages(self) -> None:
        while not self._stopping.is_set():
            if self._page:
                await self._chunk()
            elif self._after is None:
                return
            else:
                await self._next_page(self._after)

    async def _next_page(self, after: str) -> None:
        try:
            names, self._after = await self._people.page(after)
        except UsersUnavailableError:
            await self._clock.wait(self._stopping, _PAUSE)
            return
        self._page = dict.fromkeys(names, 0)

    async def _chunk(self) -> None:
        chunk = next_runs(self._page, parallel=self._schedule.parallel)
        self._not_begun = {name: self._page[name] for name in chunk}
        self._page.update(chunk)
        await self._write()
        gate = asyncio.Semaphore(self._schedule.parallel)
        await asyncio.gather(*(self._one(name, attempt, gate) for name, attempt in chunk.items()))

    async def _one(self, name: str, attempt: int, gate: asyncio.Semaphore) -> None:
        async with gate:
            if self._stopping.is_set():
                return
            del self._not_begun[name]
            due = self._sweep.due.astimezone(self._schedule.cron.zone)
            await self._run(
                self._schedule, ScheduledRun(schedule=self._schedule.name, due=due, attempt=attempt), name
            )
            del self._page[name]
            self._changed = True

    async def _keep(self) -> None:
        """Renew the claim, and write down what has ended."""
        while True:
            await self._clock.wait(asyncio.Event(), self._terms.tick)
            if self._changed or self._claim.age >= self._terms.renewed:
                await self._write()

    async def _write(self) -> None:
        self._changed = False
        await self._claim.write(self._with(replace(self._sweep, page=dict(self._page), after=self._after)))

    async def _last_write(self) -> None:
        """The pod ends: a claim that cannot be given back now expires by itself."""
        try:
            async with asyncio.timeout(_LAST_WRITE):
                await self._claim.write(self._outcome())
        except (ClaimLostError, StateRefusedError, StateUnavailableError, TimeoutError) as error:
            logger.warning(
                "Could not write down where schedule %s stands: %s", self._schedule.name, reason(error)
            )

    def _outcome(self) -> Record:
        """The due time settled, or the rest given back for another pod."""
        self._page.update(self._not_begun)
        if not self._page and self._after is None:
            return settled(self._schedule, self._claim.record, self._clock.now())
        return self._with(replace(self._sweep, holder="", page=dict(self._page), after=self._after))

    def _with(self, sweep: Sweep) -> Record:
        return replace(self._claim.record, sweep=sweep)


async def _ended(*tasks: "asyncio.Task[None]") -> BaseException | None:
    """Stop ``tasks``; returns what one of them has failed with."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    return next((task.exception() for task in tasks if not task.cancelled() and task.exception()), None)
