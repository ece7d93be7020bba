"""When schedules are due, with the real time zones."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from tieline_protocol.cron import Cron, CronError, parse_cron

BERLIN = "Europe/Berlin"


def runs(cron: Cron, after: datetime, until: datetime) -> list[str]:
    found, moment = [], after
    while (moment := cron.next(moment)).astimezone(UTC) <= until.astimezone(UTC):
        found.append(moment.isoformat())
    return found


def in_zone(zone: str, *when: int) -> datetime:
    return datetime(*when, tzinfo=ZoneInfo(zone))  # type: ignore[arg-type]


@pytest.mark.parametrize("expression", ["30 2 * * *", "0 30 2 * * *", "0,15,30,45 2 * * *"])
def test_a_time_in_the_gap_runs_once_right_after_it(expression: str) -> None:
    day = in_zone(BERLIN, 2026, 3, 29)
    assert runs(parse_cron(expression, BERLIN), day, day.replace(hour=23)) == ["2026-03-29T03:00:00+02:00"]


@pytest.mark.parametrize("expression", ["30 2 * * *", "0 30 2 * * *"])
def test_a_time_in_the_overlap_runs_once(expression: str) -> None:
    day = in_zone(BERLIN, 2026, 10, 25)
    assert runs(parse_cron(expression, BERLIN), day, day.replace(hour=23)) == ["2026-10-25T02:30:00+02:00"]


def test_what_runs_every_so_many_minutes_does_so_across_both_changes() -> None:
    cron = parse_cron("*/30 * * * *", BERLIN)
    for month, day in ((3, 29), (10, 25)):
        start = in_zone(BERLIN, 2026, month, day).astimezone(UTC)
        found = [datetime.fromisoformat(moment) for moment in runs(cron, start, start + timedelta(hours=6))]
        assert [moment.astimezone(UTC) for moment in found] == [
            start + timedelta(minutes=30 * number) for number in range(1, 13)
        ]


@pytest.mark.parametrize(
    ("zone", "day", "expected"),
    [
        ("America/New_York", (2026, 3, 8), ["2026-03-08T03:00:00-04:00"]),
        ("America/New_York", (2026, 11, 1), ["2026-11-01T02:30:00-05:00"]),
        ("Australia/Sydney", (2026, 10, 4), ["2026-10-04T03:00:00+11:00"]),
        ("Asia/Kolkata", (2026, 3, 29), ["2026-03-29T02:30:00+05:30"]),
        ("UTC", (2026, 3, 29), ["2026-03-29T02:30:00+00:00"]),
    ],
)
def test_zones_change_on_their_own_days(zone: str, day: tuple[int, int, int], expected: list[str]) -> None:
    start = in_zone(zone, *day)
    assert runs(parse_cron("30 2 * * *", zone), start, start.replace(hour=23)) == expected


def test_midnight_that_does_not_exist_comes_an_hour_later() -> None:
    start = in_zone("Africa/Cairo", 2026, 4, 23, 12)
    assert runs(parse_cron("0 0 * * *", "Africa/Cairo"), start, start + timedelta(days=1)) == [
        "2026-04-24T01:00:00+03:00"
    ]


@pytest.mark.parametrize("minutes", range(0, 240, 7))
def test_wherever_one_starts_around_a_change_the_next_time_is_the_same(minutes: int) -> None:
    for month, day in ((3, 29), (10, 25)):
        start = in_zone(BERLIN, 2026, month, day).astimezone(UTC)
        every = [datetime.fromisoformat(one) for one in runs(QUARTERS, start, start + timedelta(hours=40))]
        moment = start + timedelta(minutes=minutes)
        following = next(one for one in every if one.astimezone(UTC) > moment)
        assert QUARTERS.next(moment).astimezone(UTC) == following.astimezone(UTC)
        assert QUARTERS.next(moment.astimezone(ZoneInfo(BERLIN))).isoformat() == following.isoformat()


QUARTERS = parse_cron("5,20,35,50 1,2,3 * * *", BERLIN)


@pytest.mark.parametrize(
    ("expression", "first"),
    [
        ("0 9 * * MON-FRI", "2026-01-01T09:00:00+00:00"),
        ("0 9 L * *", "2026-01-31T09:00:00+00:00"),
        ("0 9 LW * *", "2026-01-30T09:00:00+00:00"),
        ("0 9 * * 5L", "2026-01-30T09:00:00+00:00"),
        ("0 9 * * MON#2", "2026-01-12T09:00:00+00:00"),
        ("0 9 1 JAN,JUL *", "2026-01-01T09:00:00+00:00"),
        ("*/10 * * * * *", "2026-01-01T00:00:10+00:00"),
        ("0 12 29 2 *", "2028-02-29T12:00:00+00:00"),
    ],
)
def test_what_expressions_may_hold(expression: str, first: str) -> None:
    assert parse_cron(expression).next(datetime(2026, 1, 1, tzinfo=UTC)).isoformat() == first


def test_the_latest_time_is_found_however_many_there_were() -> None:
    every_second, monthly = parse_cron("* * * * * *"), parse_cron("0 0 1 * *")
    end = datetime(2026, 6, 7, 12, tzinfo=UTC)
    assert every_second.last(after=end - timedelta(days=7), until=end) == end
    assert monthly.last(after=end - timedelta(days=7), until=end) == datetime(2026, 6, 1, tzinfo=UTC)
    assert monthly.last(after=end - timedelta(days=5), until=end) is None
    assert every_second.last(after=end, until=end) is None


@pytest.mark.parametrize(
    ("expression", "timezone", "says"),
    [
        ("61 * * * *", "UTC", "bad minute"),
        ("0 0 * * FUN", "UTC", "bad day-of-week"),
        ("* * * *", "UTC", "4 fields"),
        ("", "UTC", "0 fields"),
        ("0 0 30 2 *", "UTC", "day-of-month"),
        ("* * */20 * 1L", "UTC", "never comes"),
        ("0 0 * * *", "Mars/Olympus", "IANA"),
        ("0 0 * * *", "../etc/passwd", "IANA"),
    ],
)
def test_what_can_never_be_due_is_refused_with_the_reason(expression: str, timezone: str, says: str) -> None:
    with pytest.raises(CronError, match=says):
        parse_cron(expression, timezone)


def test_an_expression_is_checked_once() -> None:
    assert parse_cron("7 4 29 2 *", BERLIN) is parse_cron("7 4 29 2 *", BERLIN)
    for _ in range(2):
        with pytest.raises(CronError, match="no cron expression"):
            parse_cron("7 4 x 2 *", BERLIN)
