"""The tables of the SQLite file with spans."""

import sqlite3
from pathlib import Path

from tieline_api import sqlite_files
from tieline_api.sqlite_files import execute_all, version

VERSION = 1

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
create table streams (
  organisation text primary key,
  created text not null,
  position integer not null
) without rowid
"""


def connect(path: Path, *, max_bytes: int) -> sqlite3.Connection:
    """Opens the file for writing, and makes it. Raises sqlite3.Error and OSError."""
    return sqlite_files.connect(path, max_bytes=max_bytes, make_tables=_make_tables)


def _make_tables(connection: sqlite3.Connection) -> None:
    found = version(connection)
    if found == VERSION:
        return
    if found:
        raise sqlite3.DatabaseError(f"it holds traces of version {found}, not {VERSION}")
    execute_all(connection, _SCHEMA)
    connection.execute(f"pragma user_version = {VERSION}")
