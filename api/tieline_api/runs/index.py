"""The index of runs: an SQLite file that is made from the engine's streams, and can be made from them again.

One record changes a run and one of its attempts. How far a stream was read is kept in the same transaction, so that a
replica that was killed goes on where it was. Inputs stay in the stream.
"""

import logging
import sqlite3
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import orjson

from tieline_api import sqlite_files
from tieline_api.runs import query
from tieline_api.runs.model import Attempt, PageRequest, Run, RunFilter
from tieline_api.runs.records import CheckedRecord, error_to_json, nanoseconds
from tieline_api.sqlite_files import UNREADABLE, execute_all, reading, transaction, used_bytes, version

T = TypeVar("T")

logger = logging.getLogger("tieline.runs")

_VERSION = 2
_REMOVED_AT_ONCE = 2000
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
  attempts integer,
  user text,
  activation_id text not null,
  version text not null,
  key text,
  event_id text,
  started integer,
  ended integer,
  next_attempt integer,
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
  primary key (organisation, environment, run, number)
) without rowid
"""
_OF_RECORD = (
    "kind", "task", "status", "attempt", "phase", "moment", "tie", "queued", "attempts", "user", "activation_id",
    "version", "key", "event_id", "started", "ended", "next_attempt", "error", "trace_id", "replay_of",
)  # fmt: skip
_PUT_RUN = (
    f"insert into runs (organisation, environment, id, {', '.join(_OF_RECORD)}, last_at) "  # noqa: S608  (constants)
    f"values (?, ?, ?, {', '.join('?' * len(_OF_RECORD))}, ?) on conflict do update set "
    f"{', '.join(f'{name} = excluded.{name}' for name in _OF_RECORD)} "
    "where (excluded.attempt, excluded.phase, excluded.moment, excluded.tie) > "
    "(runs.attempt, runs.phase, runs.moment, runs.tie)"
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
            for run, news in _by_run(organisation, messages).items():
                _put(connection, run, news)
            connection.execute(
                "update streams set position = max(position, ?) where organisation = ?",
                (position, organisation),
            )

        try:
            self._write(work)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_FULL:
                raise
            # The oldest make room for the newest.
            self._write(_remove_oldest)
            self._write(work)

    def sweep(self, organisation: str, *, first: int) -> None:
        """Removes the runs of which the stream, whose oldest message is ``first``, has nothing any more."""
        while self._write(lambda connection: _remove_before(connection, organisation, first)):
            pass

    def bound(self) -> None:
        """Removes the oldest of what is too much."""
        if self._write(used_bytes) > self._max_bytes:
            while self._write(used_bytes) > self._max_bytes * _KEPT_SHARE and self._write(_remove_oldest):
                pass

    def page(self, wanted: RunFilter, page: PageRequest, limit: int) -> list[Run]:
        """The first ``limit`` runs after (or before) the page's position, in the order in which they follow it."""
        return self._read(lambda connection: query.page(connection, wanted, page, limit), empty=[])

    def count(self, wanted: RunFilter, most: int) -> int:
        """How many runs there are, counted up to ``most``."""
        return self._read(lambda connection: query.count(connection, wanted, most), empty=0)

    def get(self, organisation: str, environments: Sequence[str], run: str) -> Run | None:
        """A run of one of the environments."""
        return self._read(
            lambda connection: query.get(connection, organisation, environments, run), empty=None
        )

    def attempts(self, organisation: str, run: Run) -> list[Attempt]:
        """The attempts of a run, oldest first."""
        return self._read(lambda connection: query.attempts(connection, organisation, run), empty=[])

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
        for table in ("attempts", "runs", "streams"):
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
    connection.execute(f"pragma user_version = {_VERSION}")


_Run = tuple[str, str, str]
"""Organisation, environment and id."""


@dataclass
class _News:
    """What some messages say of a run: of several records those that count."""

    record: CheckedRecord
    attempts: dict[int, CheckedRecord]
    last_at: int = 0
    input_at: int | None = None


def _by_run(organisation: str, messages: Sequence[IndexedMessage]) -> dict[_Run, _News]:
    found: dict[_Run, _News] = {}
    for message in messages:
        for one in message.records:
            run = (organisation, message.environment, one.record.id)
            news = found.get(run)
            if news is None:
                news = found[run] = _News(one, {})
            news.record = max(news.record, one, key=_order)
            if attempt := one.order[0]:
                news.attempts[attempt] = max(news.attempts.get(attempt, one), one, key=_order)
            news.last_at = message.sequence
            if one.record.input is not None:
                news.input_at = message.sequence
    return found


def _order(one: CheckedRecord) -> tuple[int, int, int, bytes]:
    return one.order


def _put(connection: sqlite3.Connection, run: _Run, news: _News) -> None:
    record, (attempt, phase, moment, tie) = news.record.record, news.record.order
    connection.execute(
        _PUT_RUN,
        (
            *run, record.kind, record.task, record.status, attempt, phase, moment, tie,
            nanoseconds(record.queued_at), record.attempts, record.user, record.activation_id, record.version,
            record.key, record.event_id, _maybe(record.started_at), _maybe(record.ended_at),
            _maybe(record.next_attempt_at), error_to_json(record.error), record.trace_id, record.replay_of,
            news.last_at,
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
                error_to_json(record.error), record.trace_id, record.version, steps,
            ),
        )  # fmt: skip


def _maybe(seconds: float | None) -> int | None:
    return None if seconds is None else nanoseconds(seconds)


def _remove_before(connection: sqlite3.Connection, organisation: str, first: int) -> int:
    found = connection.execute(
        "select organisation, environment, id from runs where organisation = ? and last_at < ? limit ?",
        (organisation, first, _REMOVED_AT_ONCE),
    ).fetchall()
    return _remove(connection, found)


def _remove_oldest(connection: sqlite3.Connection) -> int:
    found = connection.execute(
        "select organisation, environment, id from runs order by queued limit ?", (_REMOVED_AT_ONCE,)
    ).fetchall()
    return _remove(connection, found)


def _remove(connection: sqlite3.Connection, runs: Sequence[_Run]) -> int:
    for table, column in (("attempts", "run"), ("runs", "id")):
        connection.executemany(
            f"delete from {table} where organisation = ? and environment = ? and {column} = ?",  # noqa: S608
            runs,
        )
    return len(runs)
