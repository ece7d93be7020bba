"""A clock that tests move, and that whoever waits for it moves along with."""

import asyncio
import heapq
from datetime import UTC, datetime, timedelta

from tieline.scheduling.clock import Clock

START = datetime(2026, 11, 2, 8, 0, tzinfo=UTC)


class FakeClock(Clock):
    """Time passes when ``pass_time`` says so: everybody wakes at their moment, in order."""

    def __init__(self, start: datetime = START) -> None:
        self._start = start
        self._seconds = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Event]] = []
        self._number = 0

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._seconds)

    def monotonic(self) -> float:
        return self._seconds

    async def sleep(self, seconds: float) -> None:
        await self.wait(asyncio.Event(), seconds)

    async def wait(self, event: asyncio.Event, seconds: float) -> None:
        alarm = asyncio.Event()
        self._number += 1
        heapq.heappush(self._sleepers, (self._seconds + max(seconds, 0), self._number, alarm))
        waits = [asyncio.create_task(event.wait()), asyncio.create_task(alarm.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def pass_time(self, seconds: float) -> None:
        until = self._seconds + seconds
        await settle()
        while self._sleepers and self._sleepers[0][0] <= until:
            self._seconds, _, alarm = heapq.heappop(self._sleepers)
            alarm.set()
            await settle()
        self._seconds = until
        await settle()


async def settle() -> None:
    """Let everybody do what they can do without time."""
    for _ in range(25):
        await asyncio.sleep(0)
