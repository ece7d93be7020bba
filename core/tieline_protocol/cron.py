"""When a schedule is due: cron expressions in a time zone, with the changes between summer and winter time."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

_FIELDS = ("minute", "hour", "day of month", "month", "day of week")
# A latest time is looked for near the end first: expressions with many times have one there.
_SPANS = (timedelta(minutes=1), timedelta(hours=1), timedelta(days=1))


class CronError(ValueError):
    """The expression or the time zone cannot be used; the message says why."""


@dataclass(frozen=True)
class Cron:
    """A cron expression in a time zone. All times that go in and out are aware; those that come out are the zone's.

    >>> report = parse_cron("30 2 * * *", "Europe/Berlin")
    >>> str(report.next(datetime(2026, 3, 28, 12, tzinfo=UTC)))
    '2026-03-29 03:00:00+02:00'

    (On that day there is no 02:30 in Berlin: it runs once, right after the gap.)
    """

    expression: str
    zone: ZoneInfo

    def next(self, after: datetime) -> datetime:
        """The first time after ``after``."""
        return next(self._from(after))

    def last(self, *, after: datetime, until: datetime) -> datetime | None:
        """The latest time after ``after``, and not after ``until``; None when there is none."""
        for span in _SPANS:
            if until - span <= after:
                break
            found = self._last(until - span, until)
            if found is not None:
                return found
        return self._last(after, until)

    def _last(self, after: datetime, until: datetime) -> datetime | None:
        found = None
        end = until.astimezone(UTC)
        for moment in self._from(after):
            if moment.astimezone(UTC) > end:
                break
            found = moment
        return found

    def _from(self, after: datetime) -> Iterator[datetime]:
        times: Iterator[datetime] = CronSim(self.expression, after.astimezone(self.zone))
        if self._at_fixed_seconds:
            times = self._by_the_clock(after)
        start = after.astimezone(UTC)
        for moment in times:
            # Compared in UTC: two times of one zone are compared by the clock, which shows some times twice.
            if moment.astimezone(UTC) > start:
                yield moment

    @property
    def _at_fixed_seconds(self) -> bool:
        """Six fields that name an hour and a minute: these follow the clock, as five such fields do."""
        fields = self.expression.split()
        return len(fields) == 6 and not any(field.startswith("*") for field in fields[:3])

    def _by_the_clock(self, after: datetime) -> Iterator[datetime]:
        start = after.astimezone(self.zone).replace(tzinfo=None) - timedelta(hours=3)
        last = None
        for clock in CronSim(self.expression, start):
            moment = clock.replace(tzinfo=self.zone)
            while moment.astimezone(UTC).astimezone(self.zone) != moment:
                moment = (moment + timedelta(minutes=1)).replace(second=0)
            if moment != last:
                yield moment
            last = moment


def parse_cron(expression: str, timezone: str = "UTC") -> Cron:
    """The Cron of five fields (minute, hour, day of month, month, day of week) or six (seconds before them).

    Names (``MON``, ``JAN``), lists, ranges and steps are known, as are ``L`` and ``LW`` for a month's last day and last
    working day, ``5L`` for its last Friday, and ``1#2`` for its second Monday. Raises CronError.

    >>> parse_cron("61 * * * *")
    Traceback (most recent call last):
        ...
    tieline_protocol.cron.CronError: '61 * * * *' is no cron expression: bad minute
    """
    return _parsed(expression, timezone)


@lru_cache(maxsize=4096)
def _parsed(expression: str, timezone: str) -> Cron:
    """Looking whether a time ever comes takes as long as looking for the next one: lists do it for each schedule."""
    zone = _zone(timezone)
    fields = expression.split()
    if len(fields) not in (5, 6):
        raise CronError(
            f"{expression!r} is no cron expression: it has {len(fields)} fields, not 5 ({', '.join(_FIELDS)}) or 6 "
            "(seconds before them)"
        )
    cron = Cron(" ".join(fields), zone)
    try:
        cron.next(datetime(2000, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        reason = str(error)
        raise CronError(f"{expression!r} is no cron expression: {reason[:1].lower()}{reason[1:]}") from None
    except (StopIteration, RuntimeError):
        raise CronError(f"{expression!r} names a time that never comes") from None
    return cron


@lru_cache(maxsize=64)
def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise CronError(
            f"There is no time zone {name!r}; take a name of the IANA database such as 'Europe/Berlin'"
        ) from None
