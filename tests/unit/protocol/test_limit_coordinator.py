"""Limits hold over all pods, are used, and let every pod have its turn. Time is simulated."""

from __future__ import annotations

import heapq
import random
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tieline_protocol.limit_coordinator import FAR_SECONDS, LimitState
from tieline_protocol.request_limits import (
    LEASE_SECONDS,
    RequestLimits,
    SlotAnswer,
    SlotQuestion,
    seconds_of,
)

BEGIN = 1_800_000_000.0


@dataclass
class Pod:
    """Sends as much as it may: asks when the coordinator says so, and uses its slots at any time in their tolerance."""

    name: str
    wants: int
    used: list[float] = field(default_factory=list)
    outstanding: int = 0


def simulate(
    limits: RequestLimits, pods: Sequence[Pod], *, seconds: float, chance: random.Random, waste: float = 0.0
) -> LimitState:
    """Run pods against a coordinator; ``waste`` is the part of the slots that they lose."""
    state, order = LimitState(), count()
    due: list[tuple[float, int, Pod]] = [(BEGIN + chance.random() * 0.1, next(order), pod) for pod in pods]
    heapq.heapify(due)
    while due[0][0] < BEGIN + seconds:
        now, _, pod = heapq.heappop(due)
        answer = state.decide(limits, SlotQuestion(pod=pod.name, slots=pod.wants), now)
        for at, number in answer.slots:
            for _ in range(number):
                if chance.random() >= waste:
                    pod.used.append(at + chance.random() * limits.tolerance)
        again = 0.05 if answer.again_seconds is None else answer.again_seconds
        heapq.heappush(due, (now + again * (0.8 + 0.4 * chance.random()), next(order), pod))
    return state


def worst(times: Sequence[float], period: float) -> int:
    """The most requests in any period."""
    ordered = sorted(times)
    return max((bisect_left(ordered, at + period) - index for index, at in enumerate(ordered)), default=0)


periods = st.sampled_from(["1s", "2s", "10s", "1m", "1h"])


@settings(max_examples=25)
@given(
    requests=st.integers(1, 1000),
    per=periods,
    wants=st.lists(st.integers(1, 400), min_size=1, max_size=8),
    waste=st.sampled_from([0.0, 0.3]),
    seed=st.integers(0, 1000),
)
def test_no_period_has_more_requests_than_the_limit(
    requests: int, per: str, wants: list[int], waste: float, seed: int
) -> None:
    limits = RequestLimits(requests=requests, seconds=seconds_of(per))
    pods = [Pod(f"pod-{index}", wanted) for index, wanted in enumerate(wants)]
    simulate(limits, pods, seconds=8.0, chance=random.Random(seed), waste=waste)
    assert worst([at for pod in pods for at in pod.used], limits.seconds) <= requests


@settings(max_examples=12)
@given(requests=st.integers(1, 300), per=st.sampled_from(["1s", "2s", "10s"]), pods=st.integers(1, 6))
def test_pods_that_want_more_than_the_limit_use_at_least_nine_tenths_of_it_and_each_gets_its_part(
    requests: int, per: str, pods: int
) -> None:
    limits = RequestLimits(requests=requests, seconds=seconds_of(per))
    some = [Pod(f"pod-{index}", 500) for index in range(pods)]
    whole = 6 * limits.seconds
    simulate(limits, some, seconds=whole, chance=random.Random(7))
    used = Counter({pod.name: sum(at <= BEGIN + whole for at in pod.used) for pod in some})
    # The period that is cut off at the end may have had no turn yet.
    assert used.total() >= 0.9 * requests * 5
    if requests * whole / limits.seconds >= 40 * pods:
        assert min(used.values()) >= used.total() / pods / 3


def test_pods_take_turns_where_slots_are_rare() -> None:
    limits = RequestLimits(requests=1, seconds=1)
    pods = [Pod(f"pod-{index}", 5) for index in range(4)]
    simulate(limits, pods, seconds=40, chance=random.Random(3))
    numbers = [len(pod.used) for pod in pods]
    assert max(numbers) - min(numbers) <= 2, numbers


@settings(max_examples=40)
@given(
    steps=st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 6), st.integers(0, 6), st.floats(0, 4)), max_size=80
    ),
    concurrent=st.integers(1, 7),
)
def test_no_more_requests_are_under_way_than_the_limit(
    steps: list[tuple[int, int, int, float]], concurrent: int
) -> None:
    limits, state, now = RequestLimits(concurrent=concurrent), LimitState(), BEGIN
    allowed: dict[int, tuple[int, float]] = {}
    for pod, busy, waiting, later in steps:
        now += later
        permits, until = allowed.get(pod, (0, 0.0))
        # A pod uses what it was allowed, until its lease ends; what it began it has ended by then.
        in_use = min(busy, permits) if until > now else 0
        state = LimitState.from_bytes(state.to_bytes())
        answer = state.decide(limits, SlotQuestion(pod=str(pod), in_use=in_use, waiting=waiting), now)
        assert answer.permits is not None
        allowed[pod] = (answer.permits, now + LEASE_SECONDS)
        assert sum(number for number, end in allowed.values() if end > now) <= concurrent


def ask(state: LimitState, limits: RequestLimits, pod: str, now: float, **fields: float) -> SlotAnswer:
    return state.decide(limits, SlotQuestion(pod=pod, **fields), BEGIN + now)  # type: ignore[arg-type]


def test_permits_of_a_killed_pod_come_back() -> None:
    limits, state = RequestLimits(concurrent=2), LimitState()
    assert ask(state, limits, "killed", 0, waiting=5).permits == 2
    assert ask(state, limits, "other", 1, waiting=1).permits == 0
    assert ask(state, limits, "other", LEASE_SECONDS + 0.1, waiting=1).permits == 1


def test_permits_that_are_given_back_are_free_at_once() -> None:
    limits, state = RequestLimits(concurrent=1), LimitState()
    assert ask(state, limits, "one", 0, waiting=1).permits == 1
    assert ask(state, limits, "one", 0.2).permits == 0
    assert ask(state, limits, "two", 0.3, waiting=1).permits == 1


def test_a_pod_that_never_stops_gives_way_to_another_one() -> None:
    limits, state = RequestLimits(concurrent=1), LimitState()
    got: Counter[str] = Counter()
    busy = ""
    for step in range(400):
        # Each request takes a tenth of a second, and another one waits always.
        for pod in ("one", "two", "three"):
            now = step / 10
            if ask(state, limits, pod, now, in_use=0, waiting=3).permits:
                busy, got[pod] = pod, got[pod] + 1
    assert busy
    assert min(got[pod] for pod in ("one", "two", "three")) > 60, got


def test_what_a_pod_may_begin_counts_until_it_has_heard_that_it_may_not() -> None:
    limits, state = RequestLimits(concurrent=1), LimitState()
    assert ask(state, limits, "one", 0, waiting=3).permits == 1
    assert ask(state, limits, "two", 2, waiting=3).permits == 0
    assert ask(state, limits, "one", 3, waiting=3, permits=1).permits == 0, "its turn is over"
    assert ask(state, limits, "two", 3.1, waiting=3).permits == 0, (
        "one may begin with a request at this moment"
    )
    assert ask(state, limits, "one", 3.2, waiting=3).permits == 0
    assert ask(state, limits, "two", 3.3, waiting=3).permits == 1


def test_slots_end_with_the_turn_of_the_pod() -> None:
    limits, state = RequestLimits(requests=20, seconds=1, concurrent=1), LimitState()
    assert ask(state, limits, "one", 0, slots=9, waiting=9).permits == 1
    assert ask(state, limits, "two", 1.9, slots=9, waiting=9).slots == ()
    answer = ask(state, limits, "one", 1.95, slots=9, waiting=9, permits=1, usual_seconds=0.01)
    assert answer.slots
    assert max(at for at, _ in answer.slots) <= BEGIN + 2


def test_permits_are_shared_equally() -> None:
    limits, state = RequestLimits(concurrent=4), LimitState()
    assert ask(state, limits, "first", 0, waiting=9).permits == 4
    assert ask(state, limits, "second", 0.1, waiting=9).permits == 0
    assert ask(state, limits, "first", 0.2, in_use=4, waiting=9).permits == 2, "it begins with nothing new"
    assert ask(state, limits, "second", 0.3, waiting=9).permits == 0, "all four are under way"
    assert ask(state, limits, "first", 0.4, in_use=2, waiting=9).permits == 2
    assert ask(state, limits, "second", 0.5, waiting=9).permits == 2


def test_a_pause_is_for_all_pods_and_ends() -> None:
    limits, state = RequestLimits(requests=100, seconds=1, concurrent=10), LimitState()
    assert ask(state, limits, "one", 0, slots=3, waiting=3).slots
    assert ask(state, limits, "one", 0.1, pause_seconds=30).paused_seconds == 30
    answer = ask(state, limits, "two", 0.2, slots=3, waiting=3)
    assert answer.paused_seconds == pytest.approx(29.9)
    assert answer.slots == ()
    assert answer.again_seconds is not None
    later = ask(state, limits, "two", 30.2, slots=3, waiting=3)
    assert later.paused_seconds == 0
    assert later.slots[0][0] >= BEGIN + 30.1


def test_a_pause_is_bounded() -> None:
    limits, state = RequestLimits(concurrent=10), LimitState()
    assert ask(state, limits, "one", 0, pause_seconds=1e12).paused_seconds == 3600


def test_a_slot_that_is_given_back_can_be_used_by_another_pod() -> None:
    limits, state = RequestLimits(requests=2, seconds=3600), LimitState()
    first = ask(state, limits, "one", 0, slots=2)
    second = ask(state, limits, "one", 4, slots=1)
    (kept, _), (unused, _) = (*first.slots, *second.slots)[:2]
    assert kept < unused
    assert ask(state, limits, "two", 10, slots=1).slots == ()
    assert len(ask(state, limits, "two", 11, slots=1, **{"returned": (unused,)}).slots) == 1  # type: ignore[arg-type]


def test_what_was_sent_without_a_coordinator_counts() -> None:
    limits, state = RequestLimits(requests=10, seconds=60), LimitState()
    answer = ask(state, limits, "one", 0, spent=10, slots=1)
    assert (answer.slots, answer.room) == ((), 0)
    assert ask(state, limits, "one", 62, slots=1).slots


QUESTION = st.builds(
    SlotQuestion,
    pod=st.sampled_from(["a/1", "a/2", "b/1"]),
    slots=st.integers(0, 1000),
    in_use=st.integers(0, 1000),
    waiting=st.integers(0, 1000),
    held=st.integers(0, 1000),
    permits=st.integers(0, 1000),
    free_seconds=st.floats(0, allow_infinity=False),
    usual_seconds=st.none() | st.floats(0, allow_infinity=False),
    pause_seconds=st.sampled_from([0.0, 0.0, 0.0, 1e300]),
    returned=st.lists(st.floats(allow_nan=False), max_size=3).map(tuple),
    spent=st.integers(0, 1_000_000),
    was_alone=st.booleans(),
)


@settings(max_examples=50)
@given(
    steps=st.lists(st.tuples(QUESTION, st.floats(0, 4)), max_size=40),
    per=periods,
    concurrent=st.none() | st.integers(1, 50),
)
def test_whatever_a_pod_claims_the_others_get_an_answer_and_no_more_than_the_limit(
    steps: list[tuple[SlotQuestion, float]], per: str, concurrent: int | None
) -> None:
    limits = RequestLimits(requests=50, seconds=seconds_of(per), concurrent=concurrent, pods=3)
    state, now = LimitState(), BEGIN
    for question, later in steps:
        now += later
        answer = LimitState.from_bytes(state.to_bytes()).decide(limits, question, now)
        assert answer == state.decide(limits, question, now)
        assert SlotAnswer.from_json(answer.to_json()) == answer
        assert sum(count for _, count in answer.slots) <= 50
        assert answer.again_seconds is None or 0 < answer.again_seconds < 3
    # A second after the longest pause and period there is room again.
    much_later = now + 3600 + limits.window + 10
    after = state.decide(limits, SlotQuestion(pod="c/1", slots=1, waiting=1), much_later)
    assert sum(count for _, count in after.slots) == 1
    assert after.permits is None or after.permits >= 1


def test_the_state_stays_small_however_often_pods_tell_of_requests_and_whatever_they_call_themselves() -> (
    None
):
    limits, state = RequestLimits(requests=1000, seconds=3600), LimitState()
    ask(state, limits, "quiet/1", 0, slots=1)
    for number in range(3000):
        ask(state, limits, f"loud/{number}", number / 3000, spent=1, slots=number % 2)
    assert "quiet/1" in state.pods
    assert len(state.groups) <= 210
    assert sum(group.count for group in state.groups) >= 3000
    assert len(state.to_bytes()) < 100_000


def test_what_was_sent_alone_counts_for_a_whole_period() -> None:
    limits, state = RequestLimits(requests=10, seconds=60), LimitState()
    for number in range(8):
        ask(state, limits, "one", number * 6, spent=1)
    used = [ask(state, limits, "two", 48 + number / 10, slots=1).slots for number in range(20)]
    assert sum(count for slots in used for _, count in slots) == 2


def test_when_pods_can_ask_again_all_keep_to_their_shares_until_the_last_one_has_heard_of_it() -> None:
    limits, state = RequestLimits(requests=100, seconds=1, concurrent=8, pods=4), LimitState()
    assert ask(state, limits, "one", 0, slots=3, waiting=3).share_seconds == 0
    told = ask(state, limits, "two", 1, slots=3, waiting=3, was_alone=True)
    assert (told.share_seconds, told.slots, told.permits) == (7, (), 2)
    assert ask(state, limits, "one", 2, slots=3, waiting=3).share_seconds == pytest.approx(6)
    assert ask(state, limits, "one", 8.1, slots=3, waiting=3).slots


def test_a_state_that_was_lost_counts_what_another_replica_remembers() -> None:
    limits, remembered, fresh = RequestLimits(requests=5, seconds=3600), LimitState(), LimitState()
    now = 0.0
    for now in range(0, 10):
        ask(remembered, limits, "one", now, slots=5)
    ask(fresh, limits, "one", now + 1, slots=1)
    fresh.absorb(remembered)
    fresh.absorb(remembered)
    assert fresh.decide(limits, SlotQuestion(pod="one", slots=5), BEGIN + now + FAR_SECONDS).slots == ()
    assert sum(group.count for group in fresh.groups) == 6


def test_a_clock_that_was_far_ahead_stops_nobody() -> None:
    limits, state = RequestLimits(requests=10, seconds=1), LimitState()
    assert ask(state, limits, "one", 86400, slots=1).slots
    assert ask(state, limits, "one", 1, slots=1).slots


def test_a_clock_that_is_a_little_behind_does_not_turn_time_back() -> None:
    limits, state = RequestLimits(requests=1, seconds=1), LimitState()
    ask(state, limits, "one", 1, slots=1)
    assert ask(state, limits, "one", 0, slots=1).time == BEGIN + 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "concurrent is needed, or requests and per"),
        ({"requests": 5}, "requests and per need each other"),
        ({"per": "1s"}, "requests and per need each other"),
        ({"requests": 5, "per": "1d"}, "with s, m or h"),
        ({"requests": 5, "per": "25h"}, "at most 24h"),
        ({"requests": 0, "per": "1s"}, "requests must be a whole number from 1"),
        ({"concurrent": True}, "concurrent must be a whole number from 1"),
    ],
)
def test_limits_of_another_shape_are_refused(content: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RequestLimits.parse(content)


def test_limits_are_shown_as_people_write_them() -> None:
    assert str(RequestLimits.parse({"requests": 100, "per": "60s"})) == "100 requests in 1m"
    assert str(RequestLimits.parse({"concurrent": 3, "requests": 1, "per": "90s"})) == (
        "1 requests in 90s, 3 at once"
    )


def test_questions_and_answers_survive_the_way() -> None:
    question = SlotQuestion(
        pod="p",
        slots=3,
        in_use=1,
        waiting=2,
        permits=2,
        free_seconds=0.5,
        pause_seconds=1.5,
        returned=(1.0,),
        spent=4,
    )
    assert SlotQuestion.from_json(question.to_json()) == question
    answer = SlotAnswer(clock="c", now=1.0, time=2.0, slots=((2.5, 1),), permits=3, again_seconds=0.1)
    assert SlotAnswer.from_json(answer.to_json()) == answer


@pytest.mark.parametrize(
    "content", [None, {}, {"pod": ""}, {"pod": "p", "slots": -1}, {"pod": "p", "returned": ["x"]}]
)
def test_questions_of_another_shape_are_refused(content: object) -> None:
    with pytest.raises(ValueError, match="must be"):
        SlotQuestion.from_json(content)
