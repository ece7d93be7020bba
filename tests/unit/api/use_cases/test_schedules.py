"""When a schedule is due, what it missed, and what a Project says of its schedules."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieline_api.conversion.schedules import (
    REQUESTS,
    ScheduleRequest,
    paused_schedules,
    requests_of,
    requests_text,
    schedule_controls,
)
from tieline_api.errors import ApiError
from tieline_api.state.schedule_times import due_times
from tieline_api.state.schedules import RegisteredSchedule, ScheduleProgress, parse_schedules

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def schedule(cron: str = "*/10 * * * *", timezone: str = "UTC") -> RegisteredSchedule:
    return RegisteredSchedule(name="sync", cron=cron, timezone=timezone, activations="static")


def project(text: str = "[]", **environment: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "orders", "annotations": {REQUESTS: text}},
        "spec": {"environments": [{"name": "production", **environment}]},
    }


@pytest.mark.parametrize(
    ("cron", "timezone", "reason"),
    [
        ("0 * * * *", "../../etc/passwd", "time zone"),
        ("0 * * * *", "/etc/passwd", "time zone"),
        ("0 * * * *", "Europe/Nowhere", "time zone"),
        ("61 * * * *", "UTC", "bad minute"),
        ("often", "UTC", "fields"),
        ("0 0 30 2 *", "UTC", "bad day"),
    ],
)
def test_a_pod_registers_no_schedule_that_never_runs(cron: str, timezone: str, reason: str) -> None:
    sound = {"name": "sync", "cron": "*/10 * * * *", "timezone": "Europe/Berlin", "activations": "static"}
    (found,) = parse_schedules([sound])
    assert found.timezone == "Europe/Berlin"
    with pytest.raises(ApiError, match=reason) as refused:
        parse_schedules([sound, {**sound, "name": "other", "cron": cron, "timezone": timezone}])
    assert [one.field for one in refused.value.fields] == ["schedules[1]"]


@pytest.mark.parametrize(
    ("now", "following"),
    [
        ("2026-03-28T12:00:00", "2026-03-29T01:00:00"),  # no 02:30 on that day: right after the gap
        ("2026-03-29T12:00:00", "2026-03-30T00:30:00"),
        ("2026-10-24T12:00:00", "2026-10-25T00:30:00"),  # 02:30 twice: the first one
        ("2026-10-25T00:30:00", "2026-10-26T01:30:00"),
    ],
)
def test_the_next_run_follows_the_clock_of_its_zone(now: str, following: str) -> None:
    moment = datetime.fromisoformat(f"{now}+00:00")
    found, _ = due_times(
        schedule("30 2 * * *", "Europe/Berlin"), ScheduleProgress(), moment, deployed_at=None
    )
    assert found == datetime.fromisoformat(f"{following}+00:00")


@pytest.mark.parametrize(
    ("progress", "minutes", "missed"),
    [
        ({}, 14, False),
        ({}, 16, True),
        ({"under_way": NOON + timedelta(minutes=10), "held": True}, 60, False),
        ({"under_way": NOON + timedelta(minutes=10)}, 60, True),
        ({"times": "0 * * * * UTC"}, 60, False),
        ({"settled": NOON - timedelta(hours=1)}, 60, False),
        ({"settled": None}, 60, False),
    ],
    ids=[
        "not late yet",
        "late",
        "a pod works on it",
        "given back by a pod",
        "of earlier times",
        "of an earlier deploy",
        "never seen",
    ],
)
def test_what_was_missed(progress: dict[str, Any], minutes: int, missed: bool) -> None:
    known = ScheduleProgress(**{"settled": NOON, "times": "*/10 * * * * UTC", **progress})
    _, found = due_times(schedule(), known, NOON + timedelta(minutes=minutes), deployed_at=NOON)
    assert found == (NOON + timedelta(minutes=10) if missed else None)


@pytest.mark.parametrize("cron", ["", "x", "61 * * * *", "0 0 30 2 *", "* " * 7])
def test_a_schedule_that_is_never_due_has_no_next_run(cron: str) -> None:
    assert due_times(schedule(cron), ScheduleProgress(), NOON, deployed_at=None) == (None, None)


REQUEST = st.builds(
    ScheduleRequest,
    id=st.text(min_size=1),
    environment=st.sampled_from(["production", "staging"]),
    schedule=st.text(min_size=1),
    at=st.integers(0, 2**31).map(lambda seconds: datetime.fromtimestamp(seconds, UTC)),
    user=st.none() | st.text(min_size=1),
)


@given(st.lists(REQUEST, max_size=5))
def test_requests_are_read_as_they_were_written(requests: list[ScheduleRequest]) -> None:
    found = project(requests_text(requests))
    assert requests_of(found) == sorted(requests, key=lambda one: (one.at, one.id))
    told = schedule_controls(found, "production")["requests"]
    assert [one["id"] for one in told] == [
        one.id for one in requests_of(found) if one.environment == "production"
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "7",
        "{}",
        "[1]",
        '[{"id": "a"}]',
        json.dumps([{"id": 1, "environment": "production", "schedule": "s"}]),
    ],
)
def test_an_annotation_that_is_no_list_of_requests_asks_for_nothing(text: str) -> None:
    assert requests_of(project(text)) == []


def test_pauses_are_those_of_one_environment() -> None:
    found = project(pausedSchedules=["sync", "report"])
    assert schedule_controls(found, "production")["paused"] == ["report", "sync"]
    assert paused_schedules(found, "staging") == []
