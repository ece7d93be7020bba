"""Pods that follow one schedule, over what they all keep together; and a record of what was run."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from tests.unit.scheduling.fake_clock import FakeClock
from tieline import Integration
from tieline.configuration.schedule_controls import RunRequest, ScheduleControls
from tieline.configuration.users import UsersUnavailableError
from tieline.scheduling.claims import ClaimTerms
from tieline.scheduling.records import STATIC
from tieline.scheduling.scheduler import Scheduler
from tieline.scheduling.schedules import Schedule, ScheduledRun
from tieline.state.documents import (
    Document,
    DocumentChangedError,
    DocumentScope,
    Expected,
    MemoryDocuments,
    StateUnavailableError,
)


class Documents(MemoryDocuments):
    """Those in memory, which may be away for somebody, or lose answers."""

    def __init__(self) -> None:
        super().__init__()
        self.away = False
        self.lose_answers = 0
        self.writes = 0

    async def get(self, shelf: DocumentScope, key: str) -> Document | None:
        await asyncio.sleep(0)
        if self.away:
            raise StateUnavailableError("away")
        return await super().get(shelf, key)

    async def put(self, shelf: DocumentScope, key: str, value: Any, *, expected: Expected) -> str:
        await asyncio.sleep(0)
        if self.away:
            raise StateUnavailableError("away")
        version = await super().put(shelf, key, value, expected=expected)
        self.writes += 1
        if self.lose_answers:
            self.lose_answers -= 1
            raise StateUnavailableError("the answer was lost")
        return version


class CutOff:
    """One pod's way to the documents, which may break for that pod alone."""

    def __init__(self, documents: Documents) -> None:
        self.documents = documents
        self.broken = False
        self.dead = False
        """Whether the pod is gone: whatever it would still write is lost."""

    async def get(self, shelf: DocumentScope, key: str) -> Document | None:
        if self.dead:
            return None
        if self.broken:
            raise StateUnavailableError("cut off")
        return await self.documents.get(shelf, key)

    async def put(self, shelf: DocumentScope, key: str, value: Any, *, expected: Expected) -> str:
        if self.dead:
            raise DocumentChangedError(key)
        if self.broken:
            raise StateUnavailableError("cut off")
        return await self.documents.put(shelf, key, value, expected=expected)

    async def delete(self, shelf: DocumentScope, key: str, *, expected: Expected) -> None:
        await self.documents.delete(shelf, key, expected=expected)


@dataclass
class FakeUserPages:
    """Users in pages of three."""

    names: list[str] = field(default_factory=list)
    failures: int = 0

    async def page(self, after: str) -> tuple[list[str], str | None]:
        if self.failures:
            self.failures -= 1
            raise UsersUnavailableError
        left = [name for name in self.names if name > after]
        return left[:3], left[2] if len(left) > 3 else None


@dataclass(frozen=True)
class Ran:
    """One run, as the schedule's function saw it."""

    pod: str
    due: datetime
    name: str
    attempt: int


Act = Callable[["Pods", Ran], Awaitable[None]]


async def _nothing(_pods: "Pods", _ran: Ran) -> None:
    """Runs take no time."""


class Pods:
    """Any number of pods, on one clock."""

    def __init__(
        self, *, people: list[str] | None = None, seconds: float = 30.0, act: Act = _nothing
    ) -> None:
        self.clock = FakeClock()
        self.documents = Documents()
        self.people = FakeUserPages(sorted(people or []))
        self.terms = ClaimTerms(seconds=seconds)
        self.act = act
        self.begun: list[Ran] = []
        self.ended: list[Ran] = []
        self.active: dict[str, int] = {}
        self.at_once = 0
        """The most runs of one activation that were under way at once."""
        self.most_active = 0
        self.running: dict[str, Scheduler] = {}
        self.ways: dict[str, CutOff] = {}
        self.controls = ScheduleControls()
        """What pods that are told of it know."""

    def start(self, pod: str, schedule: Schedule) -> Scheduler:
        async def run(_schedule: Schedule, run: ScheduledRun, name: str) -> None:
            ran = Ran(pod, run.due, name, run.attempt)
            self.begun.append(ran)
            self.active[name] = self.active.get(name, 0) + 1
            self.at_once = max(self.at_once, self.active[name])
            self.most_active = max(self.most_active, sum(self.active.values()))
            try:
                await self.act(self, ran)
            finally:
                self.active[name] -= 1
            self.ended.append(ran)

        self.ways[pod] = CutOff(self.documents)
        scheduler = Scheduler(
            [schedule],
            documents=self.ways[pod],
            people=self.people,
            run=run,
            terms=self.terms,
            clock=self.clock,
            holder=pod,
            controls=lambda: self.controls,
        )
        scheduler.start()
        self.running[pod] = scheduler
        return scheduler

    def ask(self, identifier: str, user: str | None = None, *, name: str = "sync") -> None:
        """Somebody wants the schedule to run now, and every pod is told."""
        request = RunRequest(id=identifier, at=self.clock.now(), user=user)
        asked = (*self.controls.requests.get(name, ()), request)
        self._tell(replace(self.controls, requests={**self.controls.requests, name: asked}))

    def pause(self, *names: str) -> None:
        """Exactly these are paused now."""
        self._tell(replace(self.controls, paused=frozenset(names)))

    def _tell(self, controls: ScheduleControls) -> None:
        self.controls = controls
        for scheduler in self.running.values():
            scheduler.look()

    async def stop(self, pod: str, *, grace: float = 0.0) -> None:
        """SIGTERM. What is under way may go on for ``grace`` seconds of the clock."""
        scheduler = self.running.pop(pod)
        scheduler.stop()
        await self.clock.pass_time(grace)
        await scheduler.drain(0.01)

    async def kill(self, pod: str) -> None:
        """The pod is gone without a word."""
        self.ways[pod].dead = True
        await self.running.pop(pod).drain(0)

    async def end(self) -> None:
        for pod in list(self.running):
            await self.kill(pod)

    @property
    def dues(self) -> list[str]:
        """When the ended runs were due, as hours and minutes."""
        return [f"{ran.due:%H:%M:%S}".removesuffix(":00") for ran in self.ended]


def schedule(cron: str = "*/10 * * * *", **options: Any) -> Schedule:
    integration = Integration()
    integration.schedule("sync", cron, **options)(lambda: None)
    return integration.schedules["sync"]


__all__ = ["STATIC", "Act", "Documents", "Pods", "Ran", "schedule"]
