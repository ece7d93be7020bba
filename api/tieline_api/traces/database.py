"""The tables of the SQLite file with spans."""

import sqlite3
from pathlib import Path

from tieline_api import sqlite_files
from tieline_api.sqlite_files import execute_all, version

VERSION = 3

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
  received integer not null,
  run text not null default '',
  run_id text not null default ''
);
create unique index spans_by_id on spans (owner, trace_id, span_id);
create index entries_by_time on spans (owner, start, id) where entry = 1;
create index entries_by_task on spans (owner, task, start, id) where entry = 1 and task <> '';
create index entries_by_execution on spans (owner, execution_id, start, id) where entry = 1 and execution_id <> '';
create index errors_by_trace on spans (owner, trace_id) where status = 'ERROR'
"""
_SINCE_2 = """
create table streams (
  organisation text primary key,
  created text not null,
  position integer not null
) without rowid
"""
_SINCE_3 = """
create index runs_by_time on spans (owner, start, run_id) where run <> '';
create index runs_by_id on spans (owner, run_id, start, id) where run <> ''
"""
"""``run`` is the kind of the run that the span tells, or empty (spans.py)."""
# Version 1 did not know roots from other spans that a run begins with.
_FROM_1 = """
alter table spans add column run text not null default '';
update spans set run = case
  when json_extract(attributes, '$."faas.trigger"') = 'timer' then 'schedule'
  when json_extract(attributes, '$."http.request.method"') is not null then 'webhook'
  else '' end
where entry = 1 and execution_id <> ''
"""
# Up to version 2 the id of a run was its execution's.
_TO_3 = """
alter table spans add column run_id text not null default '';
update spans set run_id = execution_id where run <> '';
drop index if exists runs_by_time
"""


def connect(path: Path, *, max_bytes: int) -> sqlite3.Connection:
    """Opens the file for writing, and makes or migrates it. Raises sqlite3.Error and OSError."""
    return sqlite_files.connect(path, max_bytes=max_bytes, make_tables=_make_tables)


def _make_tables(connection: sqlite3.Connection) -> None:
    found = version(connection)
    if found == VERSION:
        return
    if found > VERSION:
        raise sqlite3.DatabaseError(f"it holds traces of version {found}, not {VERSION}")
    if found == 0:
        execute_all(connection, _SCHEMA)
    if found == 1:
        execute_all(connection, _FROM_1)
    if found < 2:
        execute_all(connection, _SINCE_2)
    if found > 0:
        execute_all(connection, _TO_3)
    execute_all(connection, _SINCE_3)
    connection.execute(f"pragma user_version = {VERSION}")
