"""Which schedules of an organisation are late, by what pods have written down."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieline_api.state.schedules import ScheduleProgress
from tieline_api.views.late_schedules import late_schedules
from tieline_core.identity.ids import environment_id

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
PROJECT = "01JD3Y9D3EZX9KQW8T2V4N6P0C"
PRODUCTION = environment_id(PROJECT, "production")


def project(spec: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "orders", "namespace": "acme", "labels": {"tieline.dev/id": PROJECT}},
        "spec": {"name": "Orders", "environments": [{"name": "production", **(spec or {})}]},
        "status": {
            "environments": [
                {"name": "production", "status": "running", "deployedAt": "2026-11-20T00:00:00Z", **status}
            ]
        },
    }


def ran(hours_ago: int, times: str = "0 * * * * UTC") -> ScheduleProgress:
    return ScheduleProgress(settled=NOON - timedelta(hours=hours_ago), times=times)


def test_the_one_that_waits_longest_comes_first() -> None:
    known = {PRODUCTION: {"hourly": ran(3), "daily": ran(30, "0 3 * * * UTC"), "fine": ran(0)}}
    found = late_schedules([project()], known, NOON + timedelta(minutes=10))
    assert [(one.name, one.environment, one.missed) for one in found] == [
        ("daily", "production", datetime(2026, 11, 21, 3, tzinfo=UTC)),
        ("hourly", "production", NOON - timedelta(hours=2)),
    ]


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        ({"pausedSchedules": ["hourly"]}, {}),
        ({"suspended": True}, {}),
        ({}, {"status": "suspended"}),
        ({}, {"status": "draft"}),
        ({}, {"deployedAt": None}),
        ({}, {"deployedAt": "2026-11-21T11:00:00Z"}),
    ],
    ids=["paused", "to be suspended", "suspended", "a draft", "never deployed", "deployed since"],
)
def test_what_is_not_to_run_is_not_late(spec: dict[str, Any], status: dict[str, Any]) -> None:
    assert late_schedules([project(spec, **status)], {PRODUCTION: {"hourly": ran(3)}}, NOON) == []


def test_records_of_environments_that_are_gone_are_left_out() -> None:
    assert late_schedules([project()], {environment_id(PROJECT, "old"): {"hourly": ran(3)}}, NOON) == []
    assert late_schedules([], {PRODUCTION: {"hourly": ran(3)}}, NOON) == []


@given(st.text(max_size=60), st.datetimes() | st.none(), st.booleans())
def test_whatever_code_writes_beside_the_platform_is_read(
    times: str, under_way: datetime | None, held: bool
) -> None:
    due = under_way.replace(tzinfo=UTC) if under_way else None
    record = ScheduleProgress(settled=NOON, times=times, under_way=due, held=held)
    for one in late_schedules([project()], {PRODUCTION: {"odd": record}}, NOON + timedelta(days=2)):
        assert one.missed < NOON + timedelta(days=2)
