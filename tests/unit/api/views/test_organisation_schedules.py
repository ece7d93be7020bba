"""The schedules of all projects, in the order of their next runs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.unit.api.views.test_late_schedules import NOON, PRODUCTION, project, ran
from tieline_api.state.schedules import RegisteredSchedule
from tieline_api.views.organisation_schedules import PlacedSchedule, matching, organisation_schedules

HOURLY, DAILY = ("hourly", "0 * * * *"), ("daily", "0 3 * * *")


def registered(*schedules: tuple[str, str], version: str = "v1") -> dict[str, Any]:
    made = [
        RegisteredSchedule(name=name, cron=cron, timezone="UTC", activations="static")
        for name, cron in schedules
    ]
    return {PRODUCTION: {version: made}}


def listed(
    known: Mapping[str, Any], of: dict[str, Any] | None = None, progress: Mapping[str, Any] | None = None
) -> list[PlacedSchedule]:
    def versions(_: Any) -> Any:
        return lambda name: {"metadata": {"name": name}}

    return organisation_schedules(
        [of or project(version="v1")], known, progress or {}, versions, NOON + timedelta(minutes=1)
    )


def test_the_next_one_that_is_due_comes_first_and_a_paused_one_last() -> None:
    of = project({"pausedSchedules": ["asleep"]}, version="v1")
    found = listed(registered(DAILY, ("asleep", "* * * * *"), HOURLY), of)
    assert [(one.schedule.name, one.next, one.paused) for one in found] == [
        ("hourly", datetime(2026, 11, 21, 13, tzinfo=UTC), False),
        ("daily", datetime(2026, 11, 22, 3, tzinfo=UTC), False),
        ("asleep", None, True),
    ]


def test_a_schedule_that_missed_its_time_says_so() -> None:
    progress = {PRODUCTION: {"hourly": ran(3)}}
    (found,) = listed(registered(HOURLY), progress=progress)
    assert found.missed == NOON - timedelta(hours=2)


@pytest.mark.parametrize(
    ("status", "version", "names"),
    [
        ({"version": "v1"}, "v1", ["hourly"]),
        ({"version": "v1", "desiredVersion": "v2"}, "v2", ["hourly"]),
        ({"version": "v1"}, "v0", []),
        ({}, "v1", []),
    ],
    ids=["serves", "shall serve", "an earlier one", "a draft"],
)
def test_the_schedules_are_those_of_the_version_that_serves(
    status: dict[str, Any], version: str, names: list[str]
) -> None:
    found = listed(registered(HOURLY, version=version), project(**status))
    assert [one.schedule.name for one in found] == names


def test_a_suspended_environment_is_due_for_nothing() -> None:
    (found,) = listed(registered(HOURLY), project({"suspended": True}, version="v1"))
    assert (found.next, found.missed, found.paused) == (None, None, False)


def test_lists_are_filtered_by_text() -> None:
    found = listed(registered(HOURLY, DAILY))
    assert [one.schedule.name for one in matching(found, search="HOUR")] == ["hourly"]
    assert len(matching(found, search="orders")) == 2
    assert len(matching(found, search=None)) == 2
    assert matching(found, search="nowhere") == []


def test_lists_are_filtered_by_environment() -> None:
    found = listed(registered(HOURLY, DAILY))
    assert len(matching(found, search=None, environment="production")) == 2
    assert matching(found, search=None, environment="PRODUCTION") == []
