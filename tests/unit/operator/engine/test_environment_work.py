"""What an environment has to do, by what the engine keeps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import orjson
import pytest

from tieline_operator.engine.environment_work import (
    EnvironmentWork,
    earliest_timer,
    progress,
    registered_schedules,
)

NOW = datetime(2026, 11, 27, 12, 0, 10, tzinfo=UTC)
CODE = orjson.dumps(
    {
        "v1": [
            {"name": "hourly", "cron": "0 * * * *", "timezone": "UTC", "activations": "static"},
            {"name": "broken", "cron": "no", "timezone": "UTC"},
            "nonsense",
        ],
        "v2": [],
    }
)


def work(**fields: object) -> EnvironmentWork:
    return EnvironmentWork(read_at=NOW, schedules=registered_schedules(CODE), **fields)  # type: ignore[arg-type]


def test_the_first_of_timers_and_schedules_is_due_next() -> None:
    timer = NOW + timedelta(minutes=5)
    assert work(timer=timer).next_due("v1", (), NOW) == timer
    settled = {"hourly": NOW.replace(second=0)}
    assert work(settled=settled).next_due("v1", (), NOW) == NOW.replace(hour=13, second=0)
    assert work(timer=timer, settled=settled).next_due("v1", (), NOW + timedelta(hours=2)) == timer


def test_a_schedule_that_did_not_run_just_now_is_due() -> None:
    missed = work(settled={"hourly": NOW - timedelta(hours=1)})
    assert missed.next_due("v1", (), NOW) == NOW.replace(second=0)
    later = NOW + timedelta(minutes=3)
    assert missed.next_due("v1", (), later) == NOW.replace(hour=13, second=0)


def test_paused_schedules_and_those_of_other_versions_wake_nobody() -> None:
    assert work().next_due("v1", {"hourly"}, NOW) is None
    assert work().next_due("v2", (), NOW) is None
    assert work().knows("v2")
    assert not work().knows("v3")
    assert not EnvironmentWork(read_at=NOW).knows("v1")


def test_timers_without_a_readable_time_are_due_at_once() -> None:
    header = "Nats-Schedule"
    known = {header: "@at 2026-11-27T13:00:00.000Z"}
    assert earliest_timer([known], header) == datetime(2026, 11, 27, 13, tzinfo=UTC)
    assert earliest_timer([known, {}], header) == datetime.fromtimestamp(0, UTC)
    assert earliest_timer([], header) is None


@pytest.mark.parametrize(
    ("text", "timer"),
    [
        ("9999-12-31T23:59:59-14:00", datetime.max.replace(tzinfo=UTC)),
        ("0001-01-01T00:00:00+14:00", datetime.fromtimestamp(0, UTC)),
    ],
)
def test_timers_that_code_wrote_can_be_compared(text: str, timer: datetime) -> None:
    assert earliest_timer([{"header": f"@at {text}"}], "header") == timer


def test_records_that_code_wrote_do_not_hide_those_of_others() -> None:
    long_ago = {"settled": "0001-01-01T00:00:00+14:00"}
    settled, _ = progress({"a": orjson.dumps(long_ago), "b": orjson.dumps({"settled": NOW.isoformat()})})
    assert settled["b"] == NOW
    assert work(settled=settled | {"hourly": settled["a"]}).next_due("v1", (), NOW) is not None
    unreadable = {"v1": [{"name": "x", "cron": f"{'1' * 5000} * * * *"}, {"name": "y", "cron": "0 * * * *"}]}
    (readable,) = registered_schedules(orjson.dumps(unreadable))["v1"]
    assert readable.name == "y"


def test_records_of_schedules_tell_how_far_they_are() -> None:
    at = "2026-11-27T12:00:00+00:00"
    settled, is_swept = progress(
        {"a": orjson.dumps({"settled": at}), "b": b"{", "c": orjson.dumps({"settled": 7})}
    )
    assert settled == {"a": datetime(2026, 11, 27, 12, tzinfo=UTC)}
    assert not is_swept
    assert progress({"a": orjson.dumps({"settled": at, "sweep": {"due": at}})})[1]
