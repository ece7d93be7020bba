"""Pods that ask one coordinator use what a system allows, and no more. Time is simulated."""

from __future__ import annotations

import asyncio
import random
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from tests.harness.session.simulated_time import in_simulated_time
from tieline.http_client.limit_queue import LimitQueue
from tieline_protocol.limit_coordinator import LimitState
from tieline_protocol.request_limits import RequestLimits, SlotAnswer, SlotQuestion

BEGIN = 1_800_000_000.0
PODS, WORKERS = 4, 40
SECONDS = 20.0
QUESTIONS = 25
"""That a pod may ask in a second."""


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


async def use(limits: RequestLimits, system: System, coordinator: Coordinator) -> None:
    """Send as much as may be sent, through four pods."""
    loop = asyncio.get_running_loop()
    end = loop.time() + SECONDS

    async def keep_sending(queue: LimitQueue) -> None:
        while loop.time() < end:
            try:
                await queue.take(end)
            except TimeoutError:
                return
            went = loop.time()
            await system.answer(queue.pod)
            queue.release(after=loop.time() - went)

    pods = [LimitQueue("c", limits, coordinator, f"pod-{number}", print) for number in range(PODS)]
    await asyncio.gather(*(keep_sending(pod) for pod in pods for _ in range(WORKERS)))
    await asyncio.sleep(2)  # what is not needed any more is given back


@pytest.mark.parametrize(
    ("limits", "seconds", "spread"),
    [
        ({"requests": 100, "per": "1s"}, 0.02, 0.4),
        ({"requests": 100, "per": "1s", "concurrent": 4}, 0.02, 0.0),
        ({"requests": 100, "per": "1s", "concurrent": 4}, 0.022, 0.4),
        ({"requests": 100, "per": "1s", "concurrent": 40}, 0.2, 0.4),
        ({"requests": 1000, "per": "1s", "concurrent": 50}, 0.02, 0.4),
        ({"requests": 50, "per": "1s", "concurrent": 200}, 2.0, 0.4),
        ({"requests": 60, "per": "2s", "concurrent": 4}, 0.05, 0.4),
    ],
)
@pytest.mark.parametrize("away", [0.004, 0.02], ids=["a near coordinator", "a busy coordinator"])
def test_pods_use_nine_tenths_of_the_limit_and_exceed_it_by_no_more_than_a_twentieth(
    limits: dict[str, int | str], seconds: float, spread: float, away: float
) -> None:
    chance = random.Random(7)
    parsed = RequestLimits.parse(limits)
    system = System(lambda: seconds * chance.uniform(1 - spread, 1 + spread))
    coordinator = Coordinator(chance, away)
    in_simulated_time(use(parsed, system, coordinator))
    allowed = (parsed.requests or 0) / parsed.seconds
    assert system.rate(parsed.window, SECONDS - 0.1) >= 0.9 * allowed
    assert system.worst(parsed.seconds) <= (parsed.requests or 0) * 1.05
    assert system.most_busy <= (parsed.concurrent or 10_000)
    shares = Counter(pod for _, pod in system.arrived)
    assert len(shares) == PODS
    assert min(shares.values()) >= 0.5 * max(shares.values()), shares
    assert coordinator.questions <= SECONDS * PODS * QUESTIONS


def test_requests_that_take_irregularly_long_use_most_of_the_limit() -> None:
    chance = random.Random(7)
    parsed = RequestLimits.parse({"requests": 100, "per": "1s", "concurrent": 4})
    system = System(lambda: min(0.2, chance.expovariate(1 / 0.022)))
    in_simulated_time(use(parsed, system, Coordinator(chance, 0.01)))
    assert system.rate(parsed.window, SECONDS - 0.1) >= 80
    assert system.worst(1.0) <= 105
    assert system.most_busy <= 4


def test_a_pod_of_an_earlier_release_gets_no_slots_that_it_has_no_permits_for() -> None:
    limits, state = RequestLimits(requests=100, seconds=1, concurrent=2), LimitState()
    earlier = {"pod": "one", "slots": 9, "inUse": 0, "waiting": 9, "pauseSeconds": 0, "returned": []}
    answer = state.decide(limits, SlotQuestion.from_json(earlier), BEGIN)
    assert (answer.permits, sum(count for _, count in answer.slots)) == (2, 2)
    assert state.decide(limits, SlotQuestion.from_json({**earlier, "inUse": 2}), BEGIN + 1).slots == ()
