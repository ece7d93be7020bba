"""The index of runs: an SQLite file that is made from the engine's streams, and can be made from them again.

One record changes a run and one of its attempts. How far a stream was read is kept in the same transaction, so that a
replica that was killed goes on where it was. Inputs stay in the stream.
"""

import logging
import sqlite3
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import orjson

from tieline_api import sqlite_files
from tieline_api.runs import query
from tieline_api.runs.backlog import Waiting
from tieline_api.runs.model import AttemptPage, PageRequest, Run, RunFilter
from tieline_api.runs.records import CheckedRecord, error_to_json, nanoseconds
from tieline_api.runs.tally import Tally, Windows
from tieline_api.sqlite_files import UNREADABLE, execute_all, reading, transaction, used_bytes, version
from tieline_protocol.run_records import ENDED_PHASE

T = TypeVar("T")

logger = logging.getLogger("tieline.runs")

_VERSION = 3
_REMOVED_AT_ONCE = 2000
_EVICTED_AT_ONCE = 200
"""Who takes most is asked again after so many, so that nobody falls below the share of others."""
_PUT_AT_ONCE = 50
"""Runs of one transaction: a message that says more than the smallest file has room for is taken in parts."""
_KEPT_SHARE = 0.9
_HARD_SHARE = 1.25
"""The file may be so much larger than what runs may take: removing needs room, too."""
_SCHEMA = """
create table streams (
  organisation text primary key,
  created text not null,
  position integer not null
) without rowid;
create table runs (
  organisation text not null,
  environment text not null,
  id text not null,
  kind text not null,
  task text not null,
  status text not null,
  attempt integer not null,
  phase integer not null,
  moment integer not null,
  tie blob not null,
  queued integer not null,
  first_at integer not null,
  size integer not null,
  attempts integer,
  user text,
  activation_id text not null,
  version text not null,
  key text,
  event_id text,
  started integer,
  ended integer,
  next_attempt integer,
  discarded integer,
  error text not null,
  trace_id text not null,
  replay_of text,
  input_at integer,
  last_at integer not null,
  primary key (organisation, environment, id)
) without rowid;
create index runs_of_organisation on runs (organisation, queued, id, environment);
create index runs_of_environment on runs (organisation, environment, queued, id);
create index runs_by_event on runs (organisation, environment, event_id) where event_id is not null;
create index runs_by_replay on runs (organisation, environment, replay_of) where replay_of is not null;
create index runs_by_age on runs (organisation, last_at);
create index runs_by_age_in_environment on runs (organisation, environment, last_at);
create table attempts (
  organisation text not null,
  environment text not null,
  run text not null,
  number integer not null,
  status text not null,
  phase integer not null,
  moment integer not null,
  tie blob not null,
  started integer,
  ended integer,
  error text not null,
  trace_id text not null,
  version text not null,
  steps text not null,
  size integer not null,
  primary key (organisation, environment, run, number)
) without rowid;
create table usage (
  organisation text not null,
  environment text not null,
  bytes integer not null,
  primary key (organisation, environment)
) without rowid
"""
_USAGE = """
create trigger {table}_{name} after {event} on {table} begin
  insert into usage values ({row}.organisation, {row}.environment, {change})
  on conflict do update set bytes = bytes + excluded.bytes;
end
"""
"""What rows take is summed up as they come and go: who takes most is asked while the file is full."""
_TRIGGERS = [
    _USAGE.format(table=table, name=name, event=event, row=row, change=change)
    for table in ("runs", "attempts")
    for name, event, row, change in (
        ("added", "insert", "new", "new.size"),
        ("changed", "update of size", "new", "new.size - old.size"),
        ("removed", "delete", "old", "-old.size"),
    )
]
_ROW_BYTES = 600
"""Of a run's row and its entries in indexes, without texts; about as much as an attempt's row with its own."""
_OF_RECORD = (
    "kind", "task", "status", "attempt", "phase", "moment", "tie", "queued", "attempts", "user", "activation_id",
    "version", "key", "event_id", "started", "ended", "next_attempt", "discarded", "error", "trace_id", "replay_of",
    "size",
)  # fmt: skip
_PUT_RUN = (
    f"insert into runs (organisation, environment, id, {', '.join(_OF_RECORD)}, first_at, last_at) "  # noqa: S608
    f"values (?, ?, ?, {', '.join('?' * len(_OF_RECORD))}, ?, ?) on conflict do update set "
    # A run stays where it is in lists, whatever later records say of when it was queued.
    f"{', '.join(f'{name} = excluded.{name}' for name in _OF_RECORD if name != 'queued')} "
    f"where (excluded.phase >= {ENDED_PHASE}, excluded.attempt, excluded.phase, excluded.moment, excluded.tie) > "
    f"(runs.phase >= {ENDED_PHASE}, runs.attempt, runs.phase, runs.moment, runs.tie)"
)
_TOUCH_RUN = (
    "update runs set last_at = max(last_at, ?), input_at = max(coalesce(input_at, 0), coalesce(?, 0)) "
    "where organisation = ? and environment = ? and id = ?"
)
_OF_ATTEMPT = (
    "status",
    "phase",
    "moment",
    "tie",
    "started",
    "ended",
    "error",
    "trace_id",
    "version",
    "steps",
    "size",
)
_PUT_ATTEMPT = (
    f"insert into attempts (organisation, environment, run, number, {', '.join(_OF_ATTEMPT)}) "  # noqa: S608
    f"values (?, ?, ?, ?, {', '.join('?' * len(_OF_ATTEMPT))}) on conflict do update set "
    f"{', '.join(f'{name} = excluded.{name}' for name in _OF_ATTEMPT)} "
    "where (excluded.phase, excluded.moment, excluded.tie) > (attempts.phase, attempts.moment, attempts.tie)"
)


@dataclass(frozen=True)
class IndexedMessage:
    """The records of one message of a history, which all are of one environment."""

    sequence: int
    environment: str
    records: Sequence[CheckedRecord]


class RunIndex:
    """Runs in a file. Every method may be called in any thread; raises sqlite3.Error, OSError and TooSlowError."""

    def __init__(self, path: Path, *, max_bytes: int, read_seconds: float = 5.0) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._read_seconds = read_seconds
        self._writing = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def begin(self, organisation: str, created: str) -> int:
        """How far the organisation's stream was read. What is known of an earlier stream of it is removed."""

        def work(connection: sqlite3.Connection) -> int:
            known = connection.execute(
                "select created, position from streams where organisation = ?", (organisation,)
            ).fetchone()
            if known and known[0] == created:
                return int(known[1])
            self._forget(connection, organisation)
            connection.execute("insert into streams values (?, ?, 0)", (organisation, created))
            return 0

        return self._write(work)

    def forget(self, organisation: str) -> None:
        """Removes all that is known of an organisation's runs."""
        self._write(lambda connection: self._forget(connection, organisation))

    def apply(self, organisation: str, messages: Sequence[IndexedMessage], *, position: int) -> None:
        """Takes what the stream has up to ``position``."""

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(
                "update streams set position = max(position, ?) where organisation = ?",
                (position, organisation),
            )

        runs = list(_by_run(organisation, messages).items())
        for start in range(0, len(runs), _PUT_AT_ONCE):
            self._write_making_room(partial(_put_all, runs=runs[start : start + _PUT_AT_ONCE]))
        self._write_making_room(work)

    def _write_making_room(self, work: Callable[[sqlite3.Connection], None]) -> None:
        """Where the file is full, what is old of those who take most makes room."""
        try:
            self._write(work)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_FULL:
                raise
            self._write(_evict)
            self.bound()
            self._write(work)

    def sweep(self, organisation: str, *, first: int) -> None:
        """Removes the runs of which the stream, whose oldest message is ``first``, has nothing any more."""
        while self._write(lambda connection: _remove_before(connection, organisation, first)):
            pass

    def bound(self) -> None:
        """Removes what is too much: the oldest of the environment that takes most, in the organisation that does."""
        if self._write(used_bytes) > self._max_bytes:
            while self._write(used_bytes) > self._max_bytes * _KEPT_SHARE and self._write(_evict):
                pass

    def page(self, wanted: RunFilter, page: PageRequest, limit: int) -> list[Run]:
        """The first ``limit`` runs after (or before) the page's position, in the order in which they follow it."""
        return self._read(lambda connection: query.page(connection, wanted, page, limit), empty=[])

    def count(self, wanted: RunFilter, most: int) -> int:
        """How many runs there are, counted up to ``most``."""
        return self._read(lambda connection: query.count(connection, wanted, most), empty=0)

    def tally(self, organisation: str, windows: Windows) -> Tally:
        """How many of an organisation's runs were queued in each window, and how many of these failed."""
        return self._read(lambda connection: query.tally(connection, organisation, windows), empty=Tally())

    def backlog(self, organisation: str, most: int) -> list[Waiting]:
        """What waits in an organisation, in up to ``most`` groups: the one with the oldest run first."""
        return self._read(lambda connection: query.backlog(connection, organisation, most), empty=[])

    def get(self, organisation: str, environments: Sequence[str], run: str) -> Run | None:
        """A run of one of the environments: of several that have reported this id, that of the first."""
        return next(iter(self.find(organisation, environments, run)), None)

    def find(self, organisation: str, environments: Sequence[str], run: str) -> list[Run]:
        """The run with this id of each of the environments that has reported one; who was the first comes first."""
        return self._read(
            lambda connection: query.find(connection, organisation, environments, run), empty=[]
        )

    def attempts(self, organisation: str, run: Run, *, most: int, most_steps: int) -> AttemptPage:
        """The newest attempts of a run, with the newest steps."""
        return self._read(
            lambda connection: query.attempts(
                connection, organisation, run, most=most, most_steps=most_steps
            ),
            empty=AttemptPage([]),
        )

    def by_event(self, organisation: str, environment: str, task: str, event_id: str) -> Run | None:
        """The first run of the event with this id."""
        return self._read(
            lambda connection: query.by_event(connection, organisation, environment, task, event_id),
            empty=None,
        )

    def known(self, organisation: str, runs: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
        """Which of the runs, by environment and id, it has."""
        return self._read(lambda connection: query.known(connection, organisation, runs), empty=set())

    def close(self) -> None:
        """Closes the file; the next use opens it anew."""
        with self._writing:
            self._close()

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._writing:
            try:
                if self._connection is None:
                    self._connection = sqlite_files.connect(
                        self._path, max_bytes=int(self._max_bytes * _HARD_SHARE), make_tables=_make_tables
                    )
                with transaction(self._connection):
                    return work(self._connection)
            except sqlite3.Error as error:
                code = getattr(error, "sqlite_errorcode", None)
                if code != sqlite3.SQLITE_FULL:
                    self._close()
                if code in UNREADABLE:
                    sqlite_files.set_aside(self._path, what="runs", logger=logger)
                raise

    def _read(self, ask: Callable[[sqlite3.Connection], T], *, empty: T) -> T:
        if not self._path.exists():
            return empty
        with reading(self._path, seconds=self._read_seconds) as connection:
            if version(connection) != _VERSION:
                return empty
            return ask(connection)

    @staticmethod
    def _forget(connection: sqlite3.Connection, organisation: str) -> None:
        for table in ("attempts", "runs", "streams", "usage"):
            connection.execute(f"delete from {table} where organisation = ?", (organisation,))  # noqa: S608


def _make_tables(connection: sqlite3.Connection) -> None:
    found = version(connection)
    if found == _VERSION:
        return
    # Whatever another release has left: the streams have it all.
    names = connection.execute("select name from sqlite_schema where type = 'table'").fetchall()
    for (name,) in names:
        connection.execute(f'drop table "{name}"')
    execute_all(connection, _SCHEMA)
    for trigger in _TRIGGERS:
        connection.execute(trigger)
    connection.execute(f"pragma user_version = {_VERSION}")


_Run = tuple[str, str, str]
"""Organisation, environment and id."""


@dataclass
class _News:
    """What some messages say of a run: of several records those that count."""

    record: CheckedRecord
    attempts: dict[int, CheckedRecord]
    queued: int
    """As the first of them says."""
    first_at: int
    last_at: int = 0
    input_at: int | None = None


def _by_run(organisation: str, messages: Sequence[IndexedMessage]) -> dict[_Run, _News]:
    found: dict[_Run, _News] = {}
    for message in messages:
        for one in message.records:
            run = (organisation, message.environment, one.record.id)
            news = found.get(run)
            if news is None:
                queued = nanoseconds(one.record.queued_at)
                news = found[run] = _News(one, {}, queued, message.sequence)
            news.record = max(news.record, one, key=_order_in_run)
            if attempt := one.order[0]:
                news.attempts[attempt] = max(news.attempts.get(attempt, one), one, key=_order)
            news.last_at = message.sequence
            if one.record.input is not None:
                news.input_at = message.sequence
    return found


def _order_in_run(one: CheckedRecord) -> tuple[bool, tuple[int, int, int, bytes]]:
    return one.order[1] >= ENDED_PHASE, one.order


def _order(one: CheckedRecord) -> tuple[int, int, int, bytes]:
    return one.order


def _put_all(connection: sqlite3.Connection, runs: Sequence[tuple[_Run, _News]]) -> None:
    for run, news in runs:
        _put(connection, run, news)


def _put(connection: sqlite3.Connection, run: _Run, news: _News) -> None:
    record, (attempt, phase, moment, tie) = news.record.record, news.record.order
    error = error_to_json(record.error)
    connection.execute(
        _PUT_RUN,
        (
            *run, record.kind, record.task, record.status, attempt, phase, moment, tie,
            news.queued, record.attempts, record.user, record.activation_id, record.version,
            record.key, record.event_id, _maybe(record.started_at), _maybe(record.ended_at),
            _maybe(record.next_attempt_at), _maybe(record.discarded_at), error, record.trace_id, record.replay_of,
            _size(record.task, record.user, record.version, record.key, record.event_id, error),
            news.first_at, news.last_at,
        ),
    )  # fmt: skip
    connection.execute(_TOUCH_RUN, (news.last_at, news.input_at, *run))
    for number, one in news.attempts.items():
        record, (_, phase, moment, tie) = one.record, one.order
        steps = orjson.dumps(list(record.steps)).decode() if record.steps else ""
        connection.execute(
            _PUT_ATTEMPT,
            (
                *run, number, record.status, phase, moment, tie, _maybe(record.started_at), _maybe(record.ended_at),
                (error := error_to_json(record.error)), record.trace_id, record.version, steps,
                _size(record.version, error, steps),
            ),
        )  # fmt: skip


def _size(*texts: str | None) -> int:
    """About what a row takes in the file."""
    return _ROW_BYTES + sum(len(text.encode()) for text in texts if text)


def _maybe(seconds: float | None) -> int | None:
    return None if seconds is None else nanoseconds(seconds)


def _remove_before(connection: sqlite3.Connection, organisation: str, first: int) -> int:
    found = connection.execute(
        "select organisation, environment, id from runs where organisation = ? and last_at < ? limit ?",
        (organisation, first, _REMOVED_AT_ONCE),
    ).fetchall()
    return _remove(connection, found)


def _evict(connection: sqlite3.Connection) -> int:
    """Removes some runs of the environment that takes most, in the organisation that does, and not what others have.

    What is oldest the stream says, and not when a record claims that its run was queued.
    """
    most = connection.execute(
        "select organisation, environment from usage where organisation = "
        "(select organisation from usage group by organisation order by sum(bytes) desc, organisation limit 1) "
        "order by bytes desc, environment limit 1"
    ).fetchone()
    if most is None:
        return 0
    found = connection.execute(
        "select organisation, environment, id from runs where organisation = ? and environment = ? "
        "order by last_at limit ?",
        (*most, _EVICTED_AT_ONCE),
    ).fetchall()
    if not found:
        # Nothing is left to count: others are next.
        connection.execute("delete from usage where organisation = ? and environment = ?", most)
        return 1
    return _remove(connection, found)


def _remove(connection: sqlite3.Connection, runs: Sequence[_Run]) -> int:
    for table, column in (("attempts", "run"), ("runs", "id")):
        connection.executemany(
            f"delete from {table} where organisation = ? and environment = ? and {column} = ?",  # noqa: S608
            runs,
        )
    return len(runs)
