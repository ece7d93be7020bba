"""What is decided about a schedule, as a table of cases."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.unit.scheduling.scheduling_pods import schedule
from tieline.scheduling.decisions import Wait, WaitForHolder, Work, decide, next_runs, settled
from tieline.scheduling.records import STATIC, Record, Sweep, from_json, to_json

NOON = datetime(2026, 11, 2, 12, 0, tzinfo=UTC)
HOURLY = schedule("0 * * * *", catch_up=7200)
USERS = schedule("0 * * * *", activations="users")


def record(*, hours_ago: float = 1, sweep: Sweep | None = None, times: str = HOURLY.times) -> Record:
    return Record(settled=NOON - timedelta(hours=hours_ago), times=times, sweep=sweep)


def held_by(holder: str, **page: int) -> Sweep:
    return Sweep(due=NOON, holder=holder, page=page or {STATIC: 0})


def due_of(decision: object) -> datetime | None:
    if isinstance(decision, Work) and decision.record.sweep:
        return decision.record.sweep.due
    return None


@pytest.mark.parametrize(
    ("seconds", "hours_ago", "expected"),
    [
        (-1, 1, None),
        (0, 1, NOON),
        (1, 1, NOON),
        (0, 3, NOON),
        (3599, 0, None),
        (3600, 0, NOON + timedelta(hours=1)),
        (1800, 5, NOON),
    ],
    ids=[
        "just before it is due",
        "in the very moment",
        "just after",
        "of several missed ones the latest",
        "settled already",
        "the next one",
        "half an hour late",
    ],
)
def test_what_is_due(seconds: float, hours_ago: float, expected: datetime | None) -> None:
    now = NOON + timedelta(seconds=seconds)
    decision = decide(HOURLY, record(hours_ago=hours_ago), now=now, started=NOON, holder="me")
    assert due_of(decision) == expected
    if expected is None:
        assert isinstance(decision, Wait)
        assert decision.until > now


def test_a_sweep_that_another_holds_is_watched_until_it_is_abandoned() -> None:
    there = record(sweep=held_by("other"))
    assert isinstance(decide(HOURLY, there, now=NOON, started=NOON, holder="me"), WaitForHolder)
    taken = decide(HOURLY, there, now=NOON, started=NOON, holder="me", abandoned=True)
    assert isinstance(taken, Work)
    assert taken.taken_over
    assert taken.record.sweep == held_by("me")


def test_what_was_given_back_and_what_is_ones_own_is_gone_on_with() -> None:
    for holder in ("", "me"):
        decision = decide(HOURLY, record(sweep=held_by(holder)), now=NOON, started=NOON, holder="me")
        assert isinstance(decision, Work)


def test_runs_that_were_begun_twice_are_given_up() -> None:
    there = record(sweep=held_by("", ann=2, ben=1, cem=0))
    decision = decide(USERS, there, now=NOON, started=NOON, holder="me")
    assert isinstance(decision, Work)
    assert decision.given_up == ("ann",)
    assert decision.record.sweep == held_by("me", ben=1, cem=0)


def test_a_page_is_begun_at_once_and_after_a_death_in_parts() -> None:
    assert next_runs({"a": 0, "b": 0, "c": 0}, parallel=2) == {"a": 1, "b": 1, "c": 1}
    assert next_runs({"a": 0, "b": 1, "c": 1, "d": 1}, parallel=2) == {"b": 2, "c": 2}


def test_a_run_for_users_begins_with_their_first_page() -> None:
    decision = decide(USERS, record(), now=NOON, started=NOON, holder="me")
    assert isinstance(decision, Work)
    assert decision.record.sweep == Sweep(due=NOON, holder="me", page={}, after="")


def test_what_passes_while_a_run_goes_on_is_left_to_wait_or_skipped() -> None:
    there, later = record(sweep=held_by("me")), NOON + timedelta(hours=3)
    assert settled(schedule("0 * * * *", overlap="wait"), there, later).settled == NOON
    assert settled(schedule("0 * * * *", overlap="skip"), there, later).settled == later
    assert settled(HOURLY, there, later).sweep is None


@pytest.mark.parametrize("sweep", [None, Sweep(due=NOON, holder="me", page={"ann": 1}, after="x")])
def test_a_record_is_what_it_was_when_it_is_read_again(sweep: Sweep | None) -> None:
    there = replace(record(), sweep=sweep)
    assert from_json(to_json(there)) == there


@pytest.mark.parametrize(
    "value",
    [None, 7, {}, {"settled": "yesterday", "times": ""}, {"settled": "2026-11-02T12:00:00", "times": ""}],
)
def test_what_is_no_record_is_begun_anew(value: object) -> None:
    assert from_json(value) is None
