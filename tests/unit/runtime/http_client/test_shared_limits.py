"""Pods that ask one coordinator use what a system allows, and no more. Time is simulated."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.runtime.http_client.simulated_pods import BEGIN, PODS, SECONDS, Coordinator, System, use
from tieline_protocol.limit_coordinator import LimitState
from tieline_protocol.request_limits import RequestLimits, SlotQuestion

QUESTIONS = 25
"""That a pod may ask in a second."""


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
    use(parsed, system, coordinator)
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
    use(parsed, system, Coordinator(chance, 0.01))
    assert system.rate(parsed.window, SECONDS - 0.1) >= 80
    assert system.worst(1.0) <= 105
    assert system.most_busy <= 4


def test_a_pod_of_an_earlier_release_gets_no_slots_that_it_has_no_permits_for() -> None:
    limits, state = RequestLimits(requests=100, seconds=1, concurrent=2), LimitState()
    earlier = {"pod": "one", "slots": 9, "inUse": 0, "waiting": 9, "pauseSeconds": 0, "returned": []}
    answer = state.decide(limits, SlotQuestion.from_json(earlier), BEGIN)
    assert (answer.permits, sum(count for _, count in answer.slots)) == (2, 2)
    assert state.decide(limits, SlotQuestion.from_json({**earlier, "inUse": 2}), BEGIN + 1).slots == ()


@pytest.mark.parametrize("answers_after", [0.005, 0.02, 0.05, 0.2])
@pytest.mark.parametrize(
    "limits",
    [
        {"requests": 20, "per": "1s", "concurrent": 2},
        {"requests": 100, "per": "1s", "concurrent": 3},
        {"requests": 100, "per": "1s", "concurrent": 4},
        {"concurrent": 1},
        {"concurrent": 2},
    ],
    ids=str,
)
def test_where_permits_are_scarce_nine_tenths_of_what_is_possible_are_used(
    limits: dict[str, int | str], answers_after: float
) -> None:
    """What is possible is what the period allows, or what so many requests at once can do, whichever is less."""
    chance = random.Random(7)
    parsed = RequestLimits.parse(limits)
    system = System(lambda: answers_after * chance.uniform(0.7, 1.3))
    coordinator = Coordinator(chance, 0.004)
    use(parsed, system, coordinator)
    assert system.rate(1.1, SECONDS - 0.1) >= 0.9 * possible(parsed, answers_after)
    assert system.most_busy <= (parsed.concurrent or 0)
    assert not parsed.requests or system.worst(parsed.seconds) <= parsed.requests * 1.05
    assert len(Counter(pod for _, pod in system.arrived)) == PODS
    assert coordinator.questions <= SECONDS * PODS * QUESTIONS


@settings(max_examples=15)
@given(
    requests=st.integers(10, 400),
    per=st.sampled_from(["1s", "2s", "10s"]),
    concurrent=st.integers(1, 40),
    answers_after=st.floats(0.005, 1.0),
    spread=st.floats(0.0, 0.5),
    pods=st.integers(1, 6),
    away=st.floats(0.001, 0.02),
    seed=st.integers(0, 1000),
)
def test_whatever_the_limits_they_hold_and_most_of_what_is_possible_is_used(
    requests: int,
    per: str,
    concurrent: int,
    answers_after: float,
    spread: float,
    pods: int,
    away: float,
    seed: int,
) -> None:
    chance = random.Random(seed)
    parsed = RequestLimits.parse({"requests": requests, "per": per, "concurrent": concurrent})
    system = System(lambda: answers_after * chance.uniform(1 - spread, 1 + spread))
    whole = max(10.0, 4 * parsed.window)
    use(parsed, system, Coordinator(chance, away), pods=pods, seconds=whole)
    # Each pod may use one slot late, which counts where the limit is low.
    assert system.worst(parsed.seconds) <= requests * 1.05 + pods
    assert system.most_busy <= concurrent
    expected = possible(parsed, answers_after) * (whole - parsed.window)
    # A period that is cut off at the end may have sent its requests already, or not yet.
    edge = 2 * concurrent + (requests if parsed.seconds > 1 else 0)
    sent = system.rate(parsed.window, whole) * (whole - parsed.window)
    assert sent >= 0.8 * expected - edge


def possible(limits: RequestLimits, answers_after: float) -> float:
    """Requests a second."""
    allowed = limits.requests / limits.seconds if limits.requests else float("inf")
    return min(allowed, (limits.concurrent or 0) / answers_after)
