"""What work an environment has in the event engine. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from tieline_core.identity.ids import parse_time, to_utc
from tieline_protocol.cron import Cron, parse_cron

_LONG_PAST = datetime.fromtimestamp(0, UTC)
_MISSED = timedelta(seconds=60)
"""A time of a schedule that has passed counts for so long: pods run it as long, whatever the code says."""


@dataclass(frozen=True)
class KnownSchedule:
    """A schedule that the code has."""

    name: str
    cron: Cron


@dataclass(frozen=True, kw_only=True)
class EnvironmentWork:
    """An environment's work, as the event engine has it."""

    read_at: datetime
    """What was stored before is known."""
    queued: int = 0
    """Messages in the queue: events that wait for a run, or that a pod runs."""
    timer: datetime | None = None
    """When the next retry, sleep, wait or delayed event is due; long past where one is due already."""
    schedules: Mapping[str, Sequence[KnownSchedule]] | None = None
    """The schedules of each version that pods have registered, by the version's name; None while unknown."""
    settled: Mapping[str, datetime] | None = None
    """Until when each schedule has run, by its name."""
    is_swept: bool = False
    """Whether runs of a schedule are under way."""

    def next_due(self, version: str, paused: Collection[str], now: datetime) -> datetime | None:
        """When the next timer or schedule is due; a time that has passed where it is due now."""
        found = [self.timer] if self.timer else []
        for schedule in (self.schedules or {}).get(version, ()):
            if schedule.name not in paused:
                settled = (self.settled or {}).get(schedule.name, now)
                found += _next(schedule.cron, max(min(settled, now), now - _MISSED))
        return min(found, default=None)

    def knows(self, version: str) -> bool:
        """Whether a pod of the version has registered its schedules."""
        return self.schedules is not None and version in self.schedules


def _next(cron: Cron, after: datetime) -> list[datetime]:
    try:
        return [cron.next(after).astimezone(UTC)]
    except (OverflowError, RuntimeError, StopIteration, ValueError):
        return []


def earliest_timer(headers: Iterable[Mapping[str, str]], header: str) -> datetime | None:
    """When the first of stored messages is due, by their headers; long past for one without a time."""
    return min((_timer(one.get(header, "")) for one in headers), default=None)


def _timer(text: str) -> datetime:
    try:
        return max(parse_time(text.removeprefix("@at ")), _LONG_PAST)
    except ValueError:
        return _LONG_PAST


def registered_schedules(value: bytes | None) -> Mapping[str, Sequence[KnownSchedule]]:
    """The schedules of each version, of what pods have registered. What cannot be read is left out."""
    found = _mapping(value)
    return {
        version: [one for item in items if (one := _schedule(item)) is not None]
        for version, items in found.items()
        if isinstance(items, list)
    }


def _schedule(item: Any) -> KnownSchedule | None:
    if not isinstance(item, dict):
        return None
    try:
        return KnownSchedule(
            str(item["name"]), parse_cron(str(item["cron"]), str(item.get("timezone") or "UTC"))
        )
    except (KeyError, ValueError):
        return None


def progress(records: Mapping[str, bytes]) -> tuple[Mapping[str, datetime], bool]:
    """Until when each schedule has run, by its name, and whether runs of any are under way."""
    values = {name: _mapping(value) for name, value in records.items()}
    settled = {name: moment for name, value in values.items() if (moment := _moment(value.get("settled")))}
    return settled, any(value.get("sweep") for value in values.values())


def _mapping(value: bytes | None) -> dict[str, Any]:
    try:
        found = orjson.loads(value) if value else {}
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _moment(text: Any) -> datetime | None:
    """A time with its zone. Code runs beside what writes it, so it may be none: then it is None."""
    try:
        found = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return to_utc(found) if found.tzinfo else None
