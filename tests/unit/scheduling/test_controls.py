"""Pauses, and runs that people ask for: each is claimed by one pod, whatever happens to pods."""

from collections import Counter
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.scheduling.scheduling_pods import STATIC, Act, Pods, Ran, schedule
from tieline.configuration.schedule_controls import RunRequest, ScheduleControls, parse_schedule_controls
from tieline.scheduling.decisions import REQUEST_LASTS, Wait, Work, decide, settled
from tieline.scheduling.records import Record, Sweep, from_json, to_json

MakePods = Callable[..., Pods]
MINUTE = 60.0
NOON = datetime(2026, 11, 2, 12, 0, tzinfo=UTC)
HOURLY = schedule("0 * * * *")
USERS = schedule("0 0 1 1 *", activations="users", parallel=2)


@pytest.fixture
async def make() -> AsyncIterator[MakePods]:
    made: list[Pods] = []

    def build(**options: Any) -> Pods:
        made.append(Pods(**options))
        return made[-1]

    yield build
    for pods in made:
        await pods.end()


def taking(seconds: float) -> Act:
    async def act(pods: Pods, _ran: Ran) -> None:
        await pods.clock.sleep(seconds)

    return act


async def test_a_paused_schedule_skips_its_due_times_and_makes_up_for_none(make: MakePods) -> None:
    pods = make()
    pods.start("a", schedule())
    pods.start("b", schedule())
    await pods.clock.pass_time(11 * MINUTE)
    pods.pause("sync")
    await pods.clock.pass_time(20 * MINUTE)
    # A pod of the next deploy knows of the pause from its start.
    await pods.stop("a")
    pods.start("c", schedule())
    await pods.clock.pass_time(10 * MINUTE)
    pods.pause()
    await pods.clock.pass_time(10 * MINUTE)
    assert pods.dues == ["08:10", "08:50"]


async def test_other_schedules_go_on_while_one_is_paused(make: MakePods) -> None:
    pods = make()
    pods.start("a", schedule())
    pods.pause("another")
    await pods.clock.pass_time(11 * MINUTE)
    assert pods.dues == ["08:10"]


async def test_a_run_that_is_asked_for_begins_at_once_and_on_one_pod(make: MakePods) -> None:
    pods = make()
    for pod in ("a", "b", "c"):
        pods.start(pod, schedule("0 0 1 1 *"))
    await pods.clock.pass_time(5 * MINUTE)
    pods.ask("one")
    await pods.clock.pass_time(5)
    assert pods.dues == ["08:05"]
    assert [ran.name for ran in pods.ended] == [STATIC]
    # Pods are told of it for as long as it is kept.
    await pods.clock.pass_time(10 * MINUTE)
    pods.start("d", schedule("0 0 1 1 *"))
    pods.ask("two")
    await pods.clock.pass_time(5)
    assert len(pods.ended) == 2


async def test_a_run_is_for_the_one_user_that_it_was_asked_for(make: MakePods) -> None:
    pods = make(people=["ann", "ben", "cem"])
    pods.start("a", USERS)
    pods.start("b", USERS)
    await pods.clock.pass_time(1)
    pods.ask("one", "ben")
    await pods.clock.pass_time(5)
    assert [ran.name for ran in pods.ended] == ["ben"]


async def test_a_run_for_all_users_reaches_each_once_and_so_many_at_once(make: MakePods) -> None:
    names = [f"user-{number:02}" for number in range(20)]
    pods = make(people=names, act=taking(1))
    pods.start("a", USERS)
    pods.start("b", USERS)
    await pods.clock.pass_time(1)
    pods.ask("all")
    await pods.clock.pass_time(30)
    assert Counter(ran.name for ran in pods.ended) == Counter(names)
    assert pods.most_active == 2


async def test_two_that_are_asked_for_at_once_run_one_after_the_other(make: MakePods) -> None:
    pods = make(people=["ann"], act=taking(3))
    for pod in ("a", "b", "c"):
        pods.start(pod, USERS)
    await pods.clock.pass_time(1)
    pods.ask("one", "ann")
    pods.ask("two", "ann")
    await pods.clock.pass_time(20)
    assert [ran.name for ran in pods.ended] == ["ann", "ann"]
    assert pods.at_once == 1


async def test_a_paused_schedule_runs_when_it_is_asked_for(make: MakePods) -> None:
    pods = make()
    pods.start("a", schedule())
    pods.pause("sync")
    await pods.clock.pass_time(15 * MINUTE)
    pods.ask("one")
    await pods.clock.pass_time(1 * MINUTE)
    assert pods.dues == ["08:15"]


async def test_a_pod_that_dies_half_way_leaves_the_rest_to_another(make: MakePods) -> None:
    pods = make(people=[f"user-{number}" for number in range(8)], act=taking(10), seconds=30.0)
    pods.start("a", USERS)
    await pods.clock.pass_time(1)
    pods.ask("all")
    await pods.clock.pass_time(15)
    await pods.kill("a")
    pods.start("b", USERS)
    await pods.clock.pass_time(120)
    ended = Counter(ran.name for ran in pods.ended)
    assert set(ended) == {f"user-{number}" for number in range(8)}
    # Only those that were under way may come twice, and are told so.
    assert all(ran.attempt == 1 or ran.pod == "b" for ran in pods.begun)


async def test_due_times_are_neither_lost_nor_doubled_by_a_run_in_between(make: MakePods) -> None:
    pods = make(act=taking(30))
    pods.start("a", schedule())
    pods.start("b", schedule())
    await pods.clock.pass_time(9 * MINUTE + 45)
    pods.ask("one")
    await pods.clock.pass_time(21 * MINUTE)
    assert pods.dues == ["08:09:45", "08:10", "08:20", "08:30"]


async def test_a_request_that_no_pod_could_take_is_forgotten(make: MakePods) -> None:
    pods = make()
    pods.ask("one")
    await pods.clock.pass_time(61 * MINUTE)
    pods.start("a", schedule("0 0 1 1 *"))
    await pods.clock.pass_time(5 * MINUTE)
    assert pods.begun == []


def test_the_older_one_of_a_due_time_and_a_request_goes_first() -> None:
    record = Record(settled=NOON - timedelta(hours=1), times=HOURLY.times)
    now = NOON + timedelta(seconds=5)

    def first(at: datetime) -> str | None:
        asked = [RunRequest(id="one", at=at)]
        decision = decide(HOURLY, record, now=now, started=NOON, holder="me", requests=asked)
        assert isinstance(decision, Work)
        assert decision.record.sweep is not None
        return decision.record.sweep.request

    assert first(NOON - timedelta(seconds=1)) == "one"
    assert first(NOON + timedelta(seconds=1)) is None


def test_a_skipped_due_time_is_written_down_as_settled() -> None:
    record = Record(settled=NOON - timedelta(hours=1), times=HOURLY.times)
    decision = decide(HOURLY, record, now=NOON, started=NOON, holder="me", paused=True)
    assert isinstance(decision, Wait)
    assert decision.until == NOON + timedelta(hours=1)
    assert decision.write is not None
    assert (decision.write.settled, decision.write.ran) == (NOON, None)


def test_a_run_that_was_asked_for_settles_no_due_time() -> None:
    sweep = Sweep(due=NOON, holder="me", request="one")
    record = Record(settled=NOON - timedelta(hours=2), times=HOURLY.times, sweep=sweep, claimed=("one",))
    after = settled(HOURLY, record, NOON + timedelta(minutes=1))
    assert (after.settled, after.ran, after.claimed) == (record.settled, NOON, ("one",))


def test_a_request_for_a_user_of_what_is_for_nobody_in_particular_runs_nothing() -> None:
    record = Record(settled=NOON, times=HOURLY.times)
    asked = [RunRequest(id="one", at=NOON, user="ann")]
    decision = decide(HOURLY, record, now=NOON, started=NOON, holder="me", requests=asked)
    assert isinstance(decision, Work)
    assert decision.record.sweep is not None
    assert (decision.record.sweep.page, decision.record.sweep.after) == ({}, None)


MOMENTS = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))
REQUESTS = st.lists(
    st.builds(RunRequest, id=st.text(min_size=1), at=MOMENTS, user=st.none() | st.text(min_size=1)),
    max_size=4,
)


@given(REQUESTS, MOMENTS, st.booleans(), st.lists(st.text(min_size=1), max_size=3))
def test_no_request_is_claimed_twice_or_late(
    requests: list[RunRequest], now: datetime, paused: bool, claimed: list[str]
) -> None:
    record = Record(settled=now, times=HOURLY.times, claimed=tuple(claimed))
    decision = decide(HOURLY, record, now=now, started=now, holder="me", paused=paused, requests=requests)
    waiting = [one for one in requests if one.id not in claimed and now - one.at < REQUEST_LASTS]
    assert isinstance(decision, Work) == bool(waiting)
    if isinstance(decision, Work):
        sweep = decision.record.sweep
        assert sweep is not None
        assert sweep.request in {one.id for one in waiting}
        assert sweep.request in decision.record.claimed
        assert sweep.due == min(one.at for one in waiting)


@given(
    MOMENTS, st.none() | MOMENTS, st.lists(st.text(min_size=1), max_size=3), st.none() | st.text(min_size=1)
)
def test_a_record_is_read_as_it_was_written(
    due: datetime, ran: datetime | None, claimed: list[str], request: str | None
) -> None:
    sweep = Sweep(due=due, holder="a", page={"ann": 1}, after=None, request=request)
    record = Record(settled=due, times="x UTC", sweep=sweep, ran=ran, claimed=tuple(claimed))
    assert from_json(to_json(record)) == record


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {"paused": "sync"},
        {"paused": [1], "requests": {}},
        {
            "requests": [
                1,
                None,
                {},
                {"id": "a", "schedule": "sync"},
                {"id": "a", "schedule": "sync", "at": "soon"},
            ]
        },
        {"requests": [{"id": "a", "schedule": "sync", "at": "2026-11-02T12:00:00"}]},
        {"requests": [{"id": "a", "schedule": "sync", "at": "2026-11-02T12:00:00Z", "user": 1}]},
    ],
)
def test_what_is_of_another_shape_is_left_out(body: Any) -> None:
    assert parse_schedule_controls(body) == ScheduleControls()


def test_what_the_api_tells_is_read() -> None:
    found = parse_schedule_controls(
        {
            "paused": ["report"],
            "requests": [
                {"id": "a", "schedule": "sync", "at": "2026-11-02T12:00:00Z", "user": "ann"},
                {"id": "b", "schedule": "sync", "at": "2026-11-02T12:00:00Z"},
            ],
        }
    )
    assert found.paused == {"report"}
    assert [(one.id, one.user, one.at) for one in found.requests["sync"]] == [
        ("a", "ann", NOON),
        ("b", None, NOON),
    ]
