"""What to do about a schedule now: a pure function of its record and the time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from tieline.configuration.schedule_controls import RunRequest
from tieline.scheduling.records import STATIC, Record, Sweep
from tieline.scheduling.schedules import Schedule

MAX_ATTEMPTS = 2
"""How often a run is begun that never comes to its end because its pod dies."""

REQUEST_LASTS = timedelta(hours=1)
"""A request that no pod could begin with for so long is forgotten."""
_MOST_CLAIMED = 200
"""More than can be asked for while a request lasts."""

FIRST_PAGE = ""
"""Where the first page of users begins."""


@dataclass(frozen=True, kw_only=True)
class Wait:
    """Nothing is to do before ``until``. ``write`` is a record to keep: a first one, or one that skips a due time."""

    until: datetime
    write: Record | None = None


@dataclass(frozen=True, kw_only=True)
class WaitForHolder:
    """Another pod works on it: look again soon."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """Claim it by writing ``record``, and work on it."""

    record: Record
    given_up: tuple[str, ...] = ()
    """Whose runs have killed their pods too often."""
    taken_over: bool = False


def decide(
    schedule: Schedule,
    record: Record | None,
    *,
    now: datetime,
    started: datetime,
    holder: str,
    known: datetime | None = None,
    abandoned: bool = False,
    paused: bool = False,
    requests: Sequence[RunRequest] = (),
) -> Wait | WaitForHolder | Work:
    """What the process ``holder``, which runs since ``started``, should do.

    ``known`` is what it has last seen as settled, for a record that somebody has deleted. ``abandoned`` tells that
    the one that holds the sweep has not been heard of for too long. While it is ``paused``, due times are skipped; runs
    that people ask for (``requests``) begin all the same.
    """
    first = record is None
    if record is None:
        # Nothing was due before the schedule was first seen.
        record = Record(settled=max(known or started, started), times=schedule.times)
    if record.sweep is not None:
        if record.sweep.holder not in ("", holder) and not abandoned:
            return WaitForHolder()
        return _take_over(record, record.sweep, holder)
    # Times that the code has only now are no missed ones.
    after = record.settled if record.times == schedule.times else max(record.settled, started)
    due = schedule.cron.last(after=max(after, now - schedule.tolerance), until=now)
    request = _oldest(requests, record, now)
    if request is not None and (due is None or paused or request.at < due):
        sweep = _sweep(schedule, request.at, holder, request)
        claimed = (*record.claimed, request.id)[-_MOST_CLAIMED:]
        return Work(record=replace(record, settled=after, times=schedule.times, sweep=sweep, claimed=claimed))
    if due is None:
        return Wait(until=_next(schedule, now), write=record if first else None)
    due = due.astimezone(UTC)
    if paused:
        return Wait(until=_next(schedule, now), write=replace(record, settled=due, times=schedule.times))
    return Work(record=replace(record, times=schedule.times, sweep=_sweep(schedule, due, holder)))


def _oldest(requests: Sequence[RunRequest], record: Record, now: datetime) -> RunRequest | None:
    """The request to begin with."""
    waiting = [one for one in requests if one.id not in record.claimed and now - one.at < REQUEST_LASTS]
    return min(waiting, key=lambda one: (one.at, one.id), default=None)


def _sweep(schedule: Schedule, due: datetime, holder: str, request: RunRequest | None = None) -> Sweep:
    static = schedule.activations == "static"
    page, after = ({STATIC: 0}, None) if static else ({}, FIRST_PAGE)
    if request is not None and request.user is not None:
        # A version that runs it for nobody in particular has nothing to run for one user.
        page, after = {} if static else {request.user: 0}, None
    return Sweep(due=due, holder=holder, page=page, after=after, request=request.id if request else None)


def _take_over(record: Record, sweep: Sweep, holder: str) -> Work:
    given_up = tuple(name for name, begun in sweep.page.items() if begun >= MAX_ATTEMPTS)
    page = {name: begun for name, begun in sweep.page.items() if begun < MAX_ATTEMPTS}
    claimed = replace(sweep, holder=holder, page=page)
    return Work(
        record=replace(record, sweep=claimed),
        given_up=given_up,
        taken_over=sweep.holder != holder,
    )


def next_runs(page: Mapping[str, int], *, parallel: int) -> dict[str, int]:
    """Which runs of a page to begin with now, each with its attempt.

    All at once where nothing went wrong so far. Runs that were begun before may be what killed their pod: of
    these so few that, should it happen again, it is known which ones they were.
    """
    again = [name for name, begun in page.items() if begun]
    chosen = again[:parallel] if again else list(page)
    return {name: page[name] + 1 for name in chosen}


def settled(schedule: Schedule, record: Record, now: datetime) -> Record:
    """The record once the sweep has ended."""
    if record.sweep is None:
        return record
    sweep = record.sweep
    until = record.settled if sweep.request else sweep.due
    if schedule.overlap == "skip":
        until = max(until, now)
    ran = max(record.ran or sweep.due, sweep.due)
    return Record(settled=max(record.settled, until), times=record.times, ran=ran, claimed=record.claimed)


def _next(schedule: Schedule, now: datetime) -> datetime:
    return schedule.cron.next(now).astimezone(UTC)
