"""Follows a project's schedules: waits for the next due time, claims it, works on it."""

import asyncio
import logging
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime

from tieline.configuration.schedule_controls import ScheduleControls
from tieline.errors import reason
from tieline.execution.ulids import new_ulid
from tieline.scheduling.claims import Claim, ClaimTerms
from tieline.scheduling.clock import Clock
from tieline.scheduling.decisions import Wait, WaitForHolder, Work, decide
from tieline.scheduling.records import STATIC, from_json, to_json
from tieline.scheduling.schedules import Schedule
from tieline.scheduling.sweeps import Run, SweepWorker, UserPages
from tieline.state.documents import (
    SCHEDULES,
    DocumentChangedError,
    Documents,
    StateRefusedError,
    StateUnavailableError,
)
from tieline_common.backoff import exponential

logger = logging.getLogger("tieline.schedules")

# Clocks are set and machines sleep: nobody waits longer than this without looking at the time.
_LONGEST_WAIT = 60.0
_FIRST_BACKOFF = 1.0
_LONGEST_BACKOFF = 30.0


@dataclass
class _Seen:
    """What one process has seen of a schedule's record."""

    version: str = ""
    """Another pod's claim, and since when it is the same."""
    since: float = 0.0
    settled: datetime | None = None
    claimed: tuple[str, ...] = ()
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when there is something to look at before it is time."""


class Scheduler:
    """Runs schedules until it is stopped. Any number of processes may follow the same ones."""

    def __init__(
        self,
        schedules: Iterable[Schedule],
        *,
        documents: Documents,
        people: UserPages,
        run: Run,
        terms: ClaimTerms | None = None,
        clock: Clock | None = None,
        holder: str | None = None,
        controls: Callable[[], ScheduleControls] = ScheduleControls,
    ) -> None:
        """``controls`` tells what people ask for now; after it has changed, call ``look``."""
        self._schedules = tuple(schedules)
        self._seen = {schedule.name: _Seen() for schedule in self._schedules}
        self._controls = controls
        self._documents = documents
        self._people = people
        self._run = run
        self._terms = terms or ClaimTerms()
        self._clock = clock or Clock()
        self._holder = holder or new_ulid()
        self._started = self._clock.now()
        self._stopping = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to follow the schedules."""
        self._tasks = [
            asyncio.create_task(self._follow(schedule, self._seen[schedule.name]))
            for schedule in self._schedules
        ]

    def look(self) -> None:
        """Look at the schedules that people want to run now. Whether one is paused is looked at when it is due."""
        for name, requests in self._controls().requests.items():
            seen = self._seen.get(name)
            if seen is not None and any(one.id not in seen.claimed for one in requests):
                seen.wake.set()

    def stop(self) -> None:
        """Claim nothing more, and begin with nothing more."""
        self._stopping.set()
        for seen in self._seen.values():
            seen.wake.set()

    async def drain(self, seconds: float) -> None:
        """Wait for the runs under way, for ``seconds`` at most; then stop them, for another pod to run them again."""
        self.stop()
        if not self._tasks:
            return
        _, left = await asyncio.wait(self._tasks, timeout=max(seconds, 0))
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)

    async def _follow(self, schedule: Schedule, seen: _Seen) -> None:
        failures = 0
        while not self._stopping.is_set():
            seen.wake.clear()
            try:
                pause = await self._step(schedule, seen)
            except (StateUnavailableError, StateRefusedError) as error:
                if not failures:
                    logger.warning(
                        "Schedule %s cannot be claimed, trying again: %s", schedule.name, reason(error)
                    )
                failures += 1
                pause = exponential(failures, first=_FIRST_BACKOFF, cap=_LONGEST_BACKOFF)
                # What was seen before says nothing about the time in which nobody could renew a claim.
                seen.version = ""
            except Exception:
                logger.exception("Schedule %s failed, trying again", schedule.name)
                pause = _LONGEST_BACKOFF
            else:
                if failures:
                    logger.info("Schedule %s can be claimed again", schedule.name)
                failures = 0
            if not self._stopping.is_set():
                await self._clock.wait(seen.wake, pause)

    async def _step(self, schedule: Schedule, seen: _Seen) -> float:
        """Do what is to do now; returns the seconds until the next look."""
        found = await self._documents.get(SCHEDULES, schedule.name)
        record = from_json(found.value) if found else None
        if record is not None:
            seen.settled, seen.claimed = record.settled, record.claimed
        controls = self._controls()
        decision = decide(
            schedule,
            record,
            now=self._clock.now(),
            started=self._started,
            holder=self._holder,
            known=seen.settled,
            abandoned=found is not None and self._is_abandoned(found.version, seen),
            paused=schedule.name in controls.paused,
            requests=controls.requests.get(schedule.name, ()),
        )
        version = found.version if found else None
        try:
            match decision:
                case Wait():
                    if decision.write is not None:
                        await self._documents.put(
                            SCHEDULES, schedule.name, to_json(decision.write), expected=version
                        )
                    return await self._until(decision, seen)
                case WaitForHolder():
                    return self._terms.tick * random.uniform(0.5, 1)  # noqa: S311  (spreads look-ups)
                case Work():
                    version = await self._documents.put(
                        SCHEDULES, schedule.name, to_json(decision.record), expected=version
                    )
        except DocumentChangedError:
            return random.uniform(0.05, 0.5)  # noqa: S311  (spreads look-ups)
        await self._work(schedule, decision, version)
        return 0

    async def _until(self, decision: Wait, seen: _Seen) -> float:
        """Wait without asking anybody, until it is nearly time or there is something to look at."""
        while (left := (decision.until - self._clock.now()).total_seconds()) > _LONGEST_WAIT:
            await self._clock.wait(seen.wake, _LONGEST_WAIT)
            if seen.wake.is_set():
                return 0
        return max(left, 0)

    async def _work(self, schedule: Schedule, work: Work, version: str) -> None:
        sweep = work.record.sweep
        if sweep is None:
            return
        for name in work.given_up:
            logger.error(
                "Gave up on a run of schedule %s%s, due %s: its pod stopped before it could end, twice",
                schedule.name,
                f" for user {name}" if name != STATIC else "",
                sweep.due.isoformat(),
            )
        if work.taken_over:
            logger.warning(
                "Taking over schedule %s, due %s, from a pod that stopped",
                schedule.name,
                sweep.due.isoformat(),
            )
        claim = Claim(
            self._documents,
            schedule.name,
            record=work.record,
            version=version,
            clock=self._clock,
            terms=self._terms,
        )
        sweeping = SweepWorker(
            schedule,
            claim,
            sweep,
            people=self._people,
            run=self._run,
            stopping=self._stopping,
            clock=self._clock,
            terms=self._terms,
        )
        await sweeping.work()

    def _is_abandoned(self, version: str, seen: _Seen) -> bool:
        """Whether a claim was seen unchanged for as long as one may be, by this process's clock alone."""
        now = self._clock.monotonic()
        if version != seen.version:
            seen.version, seen.since = version, now
        return now - seen.since >= self._terms.seconds
