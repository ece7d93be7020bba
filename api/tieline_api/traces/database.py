"""The SQLite file: its tables, how it is opened for writing and for reading, and its size."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

_VERSION = 1
_PAGE_BYTES = 4096
_BUSY_SECONDS = 5.0
_STEPS_BETWEEN_CHECKS = 10_000

_SCHEMA = """
create table owners (
  id integer primary key,
  organisation text not null,
  project text not null,
  environment text not null,
  unique (organisation, project, environment)
);
-- id grows with the order of arrival, so what is oldest is found, and removed, at the front.
create table spans (
  id integer primary key,
  owner integer not null,
  trace_id blob not null,
  span_id blob not null,
  parent_id blob,
  name text not null,
  start integer not null,
  end integer not null,
  entry integer not null,
  status text not null,
  message text not null,
  service text not null,
  task text not null,
  execution_id text not null,
  attributes text not null,
  received integer not null
);
create unique index spans_by_id on spans (owner, trace_id, span_id);
create index entries_by_time on spans (owner, start, id) where entry = 1;
create index entries_by_task on spans (owner, task, start, id) where entry = 1 and task <> '';
create index entries_by_execution on spans (owner, execution_id, start, id) where entry = 1 and execution_id <> '';
create index errors_by_trace on spans (owner, trace_id) where status = 'ERROR';
"""


class TooSlowError(Exception):
    """A question took longer than it may."""


def connect(path: Path, *, max_bytes: int) -> sqlite3.Connection:
    """Opens the file for writing, and makes it when it is not there. Raises sqlite3.Error and OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        connection.execute(f"pragma page_size = {_PAGE_BYTES}")
        connection.execute("pragma journal_mode = wal")
        # A crash of the machine may lose the last moments, never the file.
        connection.execute("pragma synchronous = normal")
        connection.execute(f"pragma journal_size_limit = {16 * 1024 * 1024}")
        connection.execute(f"pragma max_page_count = {max(max_bytes // _PAGE_BYTES, 64)}")
        _make_tables(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _make_tables(connection: sqlite3.Connection) -> None:
    connection.execute("begin immediate")
    try:
        version = connection.execute("pragma user_version").fetchone()[0]
        if version == 0:
            for statement in _SCHEMA.split(";"):
                connection.execute(statement)
            connection.execute(f"pragma user_version = {_VERSION}")
        elif version != _VERSION:
            raise sqlite3.DatabaseError(f"it holds traces of version {version}, not {_VERSION}")
    except BaseException:
        connection.execute("rollback")
        raise
    connection.execute("commit")


@contextmanager
def reading(path: Path, *, seconds: float) -> Iterator[sqlite3.Connection]:
    """A connection that cannot write; what takes longer than ``seconds`` raises TooSlowError."""
    until = time.monotonic() + seconds
    with closing(
        sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=seconds, isolation_level=None
        )
    ) as connection:
        # Not mode=ro: that cannot read a file in WAL mode which nobody has open.
        connection.execute("pragma query_only = on")
        connection.set_progress_handler(lambda: time.monotonic() > until, _STEPS_BETWEEN_CHECKS)
        try:
            yield connection
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
                raise TooSlowError(f"The question took longer than {seconds:g} seconds") from None
            raise


def used_bytes(connection: sqlite3.Connection) -> int:
    """What the spans and their indexes take; pages that are free to be used again do not count."""
    pages = connection.execute("pragma page_count").fetchone()[0]
    free = connection.execute("pragma freelist_count").fetchone()[0]
    return int(pages - free) * _PAGE_BYTES
