"""A connector's latest version is the one that was published last, whichever clocks dated them."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieline_core.connectors.version_order import newest_first, next_moment, published_at
from tieline_core.identity.ids import ID_LABEL, new_id

NOW = datetime(2026, 11, 23, 10, 0, 0, 123456, tzinfo=UTC)


def version(name: str, at: str | None, *, created: str = "2026-11-23T09:00:00Z") -> dict[str, Any]:
    metadata = {"name": name, "labels": {ID_LABEL: new_id()}, "creationTimestamp": created}
    return {"metadata": metadata, "spec": {"name": name, **({"publishedAt": at} if at else {})}}


def names(versions: list[dict[str, Any]]) -> list[str]:
    return [one["spec"]["name"] for one in newest_first(versions)]


@given(
    clocks=st.lists(
        st.timedeltas(min_value=timedelta(minutes=-10), max_value=timedelta(minutes=10)), min_size=1
    )
)
def test_each_new_version_is_the_latest_whatever_clocks_the_replicas_have(clocks: list[timedelta]) -> None:
    versions: list[dict[str, Any]] = []
    for number, ahead in enumerate(clocks):
        versions.append(version(str(number), next_moment(versions, NOW + ahead)))
        assert names(versions)[0] == str(number)


def test_a_version_has_the_time_at_which_it_was_published() -> None:
    before = version("before", "2026-11-23T09:59:59.000Z")
    elsewhere = NOW.astimezone(timezone(timedelta(hours=5)))
    assert next_moment([before], elsewhere) == "2026-11-23T10:00:00.123Z"
    assert next_moment([], NOW) == "2026-11-23T10:00:00.123Z"


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("2026-11-23T10:00:00Z", "2026-11-23T10:00:00.500Z"),
        ("2026-11-23T12:00:00+05:00", "2026-11-23T10:00:00Z"),
        (None, "2026-11-23T09:00:00.001Z"),
        ("2026-11-23T24:61:00Z", "2026-11-23T09:00:00.001Z"),
    ],
    ids=["with and without fractions", "another zone", "undated", "no date"],
)
def test_dates_that_were_written_by_hand_are_compared_as_moments(older: str | None, newer: str) -> None:
    assert names([version("older", older), version("newer", newer)]) == ["newer", "older"]


def test_the_last_date_that_there_is_does_no_harm() -> None:
    last = version("last", "9999-12-31T23:59:59.999999Z")
    assert published_at(last) == "9999-12-31T23:59:59.999Z"
    assert next_moment([last], NOW) == "2026-11-23T10:00:00.123Z"
