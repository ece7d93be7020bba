"""Pods, a coordinator and a system that answers, in simulated time."""

from __future__ import annotations

import asyncio
import random
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tests.harness.session.simulated_time import in_simulated_time
from tieline.http_client.limit_queue import LimitQueue
from tieline_protocol.limit_coordinator import LimitState
from tieline_protocol.request_limits import RequestLimits, SlotAnswer, SlotQuestion

BEGIN = 1_800_000_000.0
PODS, WORKERS = 4, 40
SECONDS = 20.0


@dataclass
class Coordinator:
    """Answers after ``away`` seconds at most, each way."""

    chance: random.Random
    away: float
    state: LimitState = field(default_factory=LimitState)
    questions: int = 0

    async def ask(self, connection: str, limits: RequestLimits, question: SlotQuestion) -> SlotAnswer:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(self.away * self.chance.random())
        self.questions += 1
        answer = self.state.decide(limits, question, BEGIN + loop.time())
        answer = replace(answer, clock="simulated", now=loop.time())
        await asyncio.sleep(self.away * self.chance.random())
        return answer


@dataclass
class System:
    """Answers requests after what ``takes`` says."""

    takes: Callable[[], float]
    arrived: list[tuple[float, str]] = field(default_factory=list)
    busy: int = 0
    most_busy: int = 0

    async def answer(self, pod: str) -> None:
        self.arrived.append((asyncio.get_running_loop().time(), pod))
        self.busy += 1
        self.most_busy = max(self.most_busy, self.busy)
        await asyncio.sleep(self.takes())
        self.busy -= 1

    def worst(self, period: float) -> int:
        times = sorted(at for at, _ in self.arrived)
        return max(bisect_left(times, at + period) - index for index, at in enumerate(times))

    def rate(self, begin: float, end: float) -> float:
        """Requests a second, from ``begin`` to ``end`` after the first one."""
        first = self.arrived[0][0]
        return sum(begin <= at - first < end for at, _ in self.arrived) / (end - begin)


def use(
    limits: RequestLimits,
    system: System,
    coordinator: Coordinator,
    *,
    pods: int = PODS,
    seconds: float = SECONDS,
) -> None:
    """Send as much as may be sent, through so many pods."""
    in_simulated_time(_use(limits, system, coordinator, pods, seconds))


async def _use(
    limits: RequestLimits, system: System, coordinator: Coordinator, pods: int, seconds: float
) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds

    async def keep_sending(queue: LimitQueue) -> None:
        while loop.time() < end:
            try:
                await queue.take(end)
            except TimeoutError:
                return
            went = loop.time()
            await system.answer(queue.pod)
            queue.release(after=loop.time() - went)

    queues = [LimitQueue("c", limits, coordinator, f"pod-{number}", print) for number in range(pods)]
    await asyncio.gather(*(keep_sending(queue) for queue in queues for _ in range(WORKERS)))
    await asyncio.sleep(2)  # what is not needed any more is given back
