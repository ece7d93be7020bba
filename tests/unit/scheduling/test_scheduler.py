"""Pods that follow a schedule together: no due time is lost or run twice, whatever happens to the pods."""

import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.unit.scheduling.scheduling_pods import STATIC, Act, Pods, Ran, schedule
from tieline.state.documents import ANY_VERSION, SCHEDULES

MakePods = Callable[..., Pods]
MINUTE = 60.0


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


async def test_each_due_time_is_run_once_by_one_of_the_pods(make: MakePods) -> None:
    pods = make()
    for pod in ("a", "b", "c"):
        pods.start(pod, schedule())
    await pods.clock.pass_time(61 * MINUTE)
    assert pods.dues == ["08:10", "08:20", "08:30", "08:40", "08:50", "09:00"]
    assert {ran.attempt for ran in pods.begun} == {1}


async def test_nothing_is_due_before_a_schedule_was_first_seen(make: MakePods) -> None:
    pods = make()
    pods.start("a", schedule("0 * * * *"))
    await pods.clock.pass_time(50 * MINUTE)
    assert pods.dues == []


async def test_a_rollout_loses_and_doubles_nothing(make: MakePods) -> None:
    pods = make(act=taking(7))
    one = schedule("*/20 * * * * *")
    pods.start("old-1", one)
    pods.start("old-2", one)
    for number in range(1, 7):
        await pods.clock.pass_time(47)
        pods.start(f"new-{number}", one)
        await pods.clock.pass_time(3)
        for old in list(pods.running)[:1]:
            await pods.stop(old, grace=10)
    await pods.clock.pass_time(60)
    counts = Counter(ran.due for ran in pods.ended)
    assert set(counts.values()) == {1}
    seconds = sorted((due - pods.ended[0].due).total_seconds() for due in counts)
    assert seconds == [20.0 * number for number in range(len(seconds))]
    assert pods.at_once == 1


async def test_a_run_whose_pod_dies_is_run_once_more_by_another(make: MakePods) -> None:
    async def act(pods: Pods, ran: Ran) -> None:
        await pods.clock.sleep(1000 if ran.pod == "a" else 1)

    pods = make(act=act)
    pods.start("a", schedule("0 * * * *"))
    await pods.clock.pass_time(61 * MINUTE)
    pods.start("b", schedule("0 * * * *"))
    await pods.clock.pass_time(MINUTE)
    assert [(ran.pod, ran.attempt) for ran in pods.begun] == [("a", 1)]
    await pods.kill("a")
    await pods.clock.pass_time(20)
    assert len(pods.begun) == 1, "the claim has not expired yet"
    await pods.clock.pass_time(20)
    assert [(ran.pod, ran.attempt, ran.name) for ran in pods.begun] == [("a", 1, STATIC), ("b", 2, STATIC)]
    await pods.clock.pass_time(MINUTE)
    assert pods.dues == ["09:00"]


async def test_a_run_that_kills_every_pod_is_given_up_and_said_so(
    make: MakePods, caplog: pytest.LogCaptureFixture
) -> None:
    pods = make(act=taking(1000))
    for number in range(3):
        pods.start(f"pod-{number}", schedule("0 * * * *", catch_up=0))
        await pods.clock.pass_time(61 * MINUTE if number == 0 else 40)
        await pods.kill(f"pod-{number}")
    assert [ran.attempt for ran in pods.begun] == [1, 2]
    assert any("Gave up" in record.message for record in caplog.records if record.levelno == logging.ERROR)
    pods.act = taking(1)
    pods.start("last", schedule("0 * * * *", catch_up=0))
    await pods.clock.pass_time(61 * MINUTE)
    assert pods.dues == ["10:00"]


async def test_a_pod_that_stops_gives_its_run_to_another_at_once(make: MakePods) -> None:
    async def act(pods: Pods, ran: Ran) -> None:
        await pods.clock.sleep(1000 if ran.pod == "a" else 1)

    pods = make(act=act)
    pods.start("a", schedule("0 * * * *"))
    await pods.clock.pass_time(61 * MINUTE)
    pods.start("b", schedule("0 * * * *"))
    await pods.stop("a")
    await pods.clock.pass_time(3)
    assert [(ran.pod, ran.attempt) for ran in pods.begun] == [("a", 1), ("b", 2)]
    assert pods.at_once == 1


async def test_missed_runs_are_made_up_for_by_one(make: MakePods) -> None:
    pods = make()
    pods.start("a", schedule(catch_up=3600))
    await pods.clock.pass_time(11 * MINUTE)
    await pods.stop("a")
    await pods.clock.pass_time(55 * MINUTE)
    pods.start("b", schedule(catch_up=3600))
    await pods.clock.pass_time(0)
    assert pods.dues == ["08:10", "09:00"]


async def test_what_was_missed_too_long_ago_is_not_run(make: MakePods) -> None:
    pods = make()
    hourly = schedule("0 * * * *", catch_up=600)
    pods.start("a", hourly)
    await pods.clock.pass_time(MINUTE)
    await pods.stop("a")
    await pods.clock.pass_time(75 * MINUTE)
    pods.start("b", hourly)
    await pods.clock.pass_time(10 * MINUTE)
    assert pods.dues == []
    await pods.clock.pass_time(40 * MINUTE)
    assert pods.dues == ["10:00"]


async def test_a_run_that_is_due_while_another_goes_on_waits(make: MakePods) -> None:
    pods = make(act=taking(25 * MINUTE))
    pods.start("a", schedule(overlap="wait"))
    pods.start("b", schedule(overlap="wait"))
    await pods.clock.pass_time(90 * MINUTE)
    # Due at 08:10; 08:20 and 08:30 pass meanwhile, the later one is run at 08:35; and so on.
    assert pods.dues == ["08:10", "08:30", "09:00"]
    assert pods.at_once == 1


async def test_or_is_skipped(make: MakePods) -> None:
    pods = make(act=taking(25 * MINUTE))
    pods.start("a", schedule(overlap="skip"))
    pods.start("b", schedule(overlap="skip"))
    await pods.clock.pass_time(98 * MINUTE)
    assert pods.dues == ["08:10", "08:40", "09:10"]
    assert pods.at_once == 1


async def test_a_record_that_somebody_deletes_costs_no_due_time(make: MakePods) -> None:
    pods = make()
    pods.start("a", schedule())
    pods.start("b", schedule())
    await pods.clock.pass_time(15 * MINUTE)
    await pods.documents.delete(SCHEDULES, "sync", expected=ANY_VERSION)
    await pods.clock.pass_time(20 * MINUTE)
    assert pods.dues == ["08:10", "08:20", "08:30"]


async def test_times_that_only_the_new_code_has_are_not_missed_ones(make: MakePods) -> None:
    pods = make()
    pods.start("old", schedule("0 * * * *", catch_up=3600))
    await pods.clock.pass_time(45 * MINUTE)
    pods.start("new", schedule("30 * * * *", catch_up=3600))
    await pods.clock.pass_time(5 * MINUTE)
    assert pods.dues == []
    await pods.stop("old")
    await pods.clock.pass_time(60 * MINUTE)
    assert pods.dues == ["09:30"]


async def test_while_the_api_is_away_nothing_runs_and_then_one_run_makes_up_for_it(make: MakePods) -> None:
    pods = make()
    pods.start("a", schedule())
    pods.start("b", schedule())
    await pods.clock.pass_time(11 * MINUTE)
    pods.documents.away = True
    await pods.clock.pass_time(24 * MINUTE)
    pods.documents.away = False
    await pods.clock.pass_time(MINUTE)
    assert pods.dues == ["08:10", "08:30"]


async def test_a_pod_that_cannot_renew_its_claim_stops_before_another_begins(make: MakePods) -> None:
    pods = make(act=taking(200))
    pods.start("a", schedule("0 * * * *"))
    await pods.clock.pass_time(60 * MINUTE + 5)
    pods.start("b", schedule("0 * * * *"))
    pods.ways["a"].broken = True
    await pods.clock.pass_time(10 * MINUTE)
    assert [(ran.pod, ran.attempt) for ran in pods.begun] == [("a", 1), ("b", 2)]
    assert [ran.pod for ran in pods.ended] == ["b"]
    assert pods.at_once == 1


async def test_a_run_that_ends_while_the_api_is_away_is_not_run_again(make: MakePods) -> None:
    pods = make(act=taking(10))
    for pod in ("a", "b"):
        pods.start(pod, schedule("0 * * * *"))
    await pods.clock.pass_time(60 * MINUTE + 5)
    pods.documents.away = True
    await pods.clock.pass_time(5 * MINUTE)
    pods.documents.away = False
    await pods.clock.pass_time(5 * MINUTE)
    assert [ran.attempt for ran in pods.begun] == [1]
    await pods.clock.pass_time(51 * MINUTE)
    assert pods.dues == ["09:00", "10:00"]


async def test_a_write_whose_answer_was_lost_is_no_lost_claim(make: MakePods) -> None:
    pods = make(act=taking(60))
    pods.start("a", schedule("0 * * * *"))
    await pods.clock.pass_time(60 * MINUTE + 5)
    for _ in range(5):
        pods.documents.lose_answers = 1
        await pods.clock.pass_time(10)
    await pods.clock.pass_time(MINUTE)
    assert [(ran.pod, ran.attempt) for ran in pods.ended] == [("a", 1)]


async def test_a_run_for_users_is_run_for_each_of_them_so_many_at_once(make: MakePods) -> None:
    names = [f"user-{number:02}" for number in range(20)]
    pods = make(people=names, act=taking(2))
    everybody = schedule("0 * * * *", activations="users", parallel=2)
    pods.start("a", everybody)
    pods.start("b", everybody)
    pods.people.failures = 2
    await pods.clock.pass_time(62 * MINUTE)
    assert sorted(ran.name for ran in pods.ended) == names
    assert pods.most_active == 2


async def test_a_pod_that_takes_over_goes_on_where_the_other_was(make: MakePods) -> None:
    names = [f"user-{number:02}" for number in range(20)]
    pods = make(people=names, act=taking(10))
    everybody = schedule("0 * * * *", activations="users", parallel=1)
    pods.start("a", everybody)
    await pods.clock.pass_time(61 * MINUTE)
    pods.start("b", everybody)
    done = {ran.name for ran in pods.ended}
    await pods.kill("a")
    assert len(done) > 3
    await pods.clock.pass_time(10 * MINUTE)
    by_b = [ran.name for ran in pods.ended if ran.pod == "b"]
    assert done | set(by_b) == set(names)
    assert len(done & set(by_b)) <= 1, "a run that ended within the last two seconds may be run again"


async def test_of_a_page_only_the_user_whose_run_kills_pods_is_given_up(
    make: MakePods, caplog: pytest.LogCaptureFixture
) -> None:
    names = [f"user-{number:02}" for number in range(6)]

    async def act(pods: Pods, ran: Ran) -> None:
        await pods.clock.sleep(10_000 if ran.name == "user-01" else 1)

    pods = make(people=names, act=act)
    everybody = schedule("0 * * * *", activations="users", parallel=1)
    pods.start("a", everybody)
    await pods.clock.pass_time(61 * MINUTE)
    await pods.kill("a")
    for pod in ("b", "c"):
        pods.start(pod, everybody)
        await pods.clock.pass_time(100)
        if pod == "b":
            await pods.kill("b")
    await pods.clock.pass_time(100)
    assert {ran.name for ran in pods.ended} == set(names) - {"user-01"}
    assert [ran.attempt for ran in pods.begun if ran.name == "user-01"] == [1, 2]
    assert any("user-01" in record.getMessage() for record in caplog.records)


async def test_a_rollout_in_the_middle_of_many_users_runs_each_once(make: MakePods) -> None:
    names = [f"user-{number:03}" for number in range(60)]
    pods = make(people=names, act=taking(3))
    everybody = schedule("0 * * * *", activations="users", parallel=4)
    pods.start("a", everybody)
    await pods.clock.pass_time(60 * MINUTE + 13)
    pods.start("b", everybody)
    await pods.stop("a", grace=5)
    await pods.clock.pass_time(20)
    pods.start("c", everybody)
    await pods.stop("b", grace=5)
    await pods.clock.pass_time(5 * MINUTE)
    assert Counter(ran.name for ran in pods.ended) == Counter(names)
    assert {ran.attempt for ran in pods.begun} == {1}
    assert {ran.pod for ran in pods.ended} == {"a", "b", "c"}


async def test_idle_pods_ask_for_nothing_and_a_run_costs_three_writes(make: MakePods) -> None:
    pods = make()
    for pod in ("a", "b"):
        pods.start(pod, schedule("0 * * * *"))
    await pods.clock.pass_time(59 * MINUTE)
    before = pods.documents.writes
    await pods.clock.pass_time(2 * MINUTE)
    # The claim, its attempt, and its end.
    assert pods.documents.writes - before == 3
