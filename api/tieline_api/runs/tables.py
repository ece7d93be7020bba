"""The tables of the index of runs."""

import sqlite3
import zlib

from tieline_api.runs.queries.rows import NOT_ENDED
from tieline_api.sqlite_files import execute_all, version

_CONTENT = 9
"""Goes up when rows mean something else in the same tables."""
_SCHEMA = f"""
create table streams (
  organisation text not null,
  stream text not null,
  created text not null,
  position integer not null,
  primary key (organisation, stream)
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
  direct integer not null,
  stored integer not null,
  first_at integer not null,
  size integer not null,
  attempts integer,
  user text,
  activation_id text not null,
  version text not null,
  key text,
  shared_key integer not null,
  event_id text,
  batch integer not null,
  started integer,
  ended integer,
  next_attempt integer,
  waits_for text,
  discarded integer,
  error text not null,
  trace_id text not null,
  replay_of text,
  parent text,
  issue text,
  failed integer,
  input_at integer,
  last_at integer not null,
  primary key (organisation, environment, id)
) without rowid;
create index runs_of_organisation on runs (organisation, queued, id, environment);
create index runs_of_environment on runs (organisation, environment, queued, id);
create index runs_by_event on runs (organisation, environment, event_id, queued) where event_id is not null;
create index runs_by_key on runs (organisation, environment, key, queued) where key is not null;
create index runs_ahead on runs (organisation, environment, key, queued, id)
  where key is not null and {NOT_ENDED};
create index events_not_ended on runs (organisation, environment, task)
  where kind = 'event' and {NOT_ENDED};
create index runs_by_user on runs (organisation, environment, user, queued, id) where user is not null;
create index runs_by_replay on runs (organisation, environment, replay_of) where replay_of is not null;
create index runs_of_issue on runs (organisation, issue, queued, id, environment) where issue is not null;
create index failures_of_issue on runs (organisation, issue, failed) where issue is not null;
create index runs_by_age on runs (organisation, direct, last_at);
create index runs_by_age_in_environment on runs (organisation, environment, direct desc, last_at);
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
create table tags (
  organisation text not null,
  environment text not null,
  run text not null,
  name text not null,
  value text not null,
  attempt integer not null,
  phase integer not null,
  moment integer not null,
  queued integer not null,
  size integer not null,
  primary key (organisation, environment, run, name)
) without rowid;
create index runs_by_tag on tags (organisation, name, value, queued, run, environment);
create index runs_by_value on tags (organisation, value, queued, run, environment);
create table progress (
  organisation text not null,
  environment text not null,
  run text not null,
  attempt integer not null,
  at real not null,
  text text not null,
  fraction real not null,
  size integer not null,
  primary key (organisation, environment, run)
) without rowid;
create table usage (
  organisation text not null,
  environment text not null,
  bytes integer not null,
  primary key (organisation, environment)
) without rowid;
create table issues (
  number integer primary key,
  organisation text not null,
  environment text not null,
  id text not null,
  kind text not null,
  task text not null,
  type text not null,
  system text not null,
  status integer,
  message text not null,
  runs integer not null,
  first integer not null,
  last integer not null
);
create unique index issues_by_id on issues (organisation, id);
create index issues_of_organisation on issues (organisation, last, id);
create index issues_of_environment on issues (organisation, environment, last, id);
create table issue_counts (
  issue integer not null,
  facet text not null,
  value not null,
  runs integer not null,
  primary key (issue, facet, value)
) without rowid;
create table issue_states (
  organisation text not null,
  issue text not null,
  sequence integer not null,
  assignee text,
  content text not null,
  primary key (organisation, issue)
) without rowid;
create index issue_states_by_age on issue_states (organisation, sequence)
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
    for table in ("runs", "attempts", "tags", "progress")
    for name, event, row, change in (
        ("added", "insert", "new", "new.size"),
        ("changed", "update of size", "new", "new.size - old.size"),
        ("removed", "delete", "old", "-old.size"),
    )
]

HOUR = 3_600_000_000_000
"""Nanoseconds: failed runs are counted by the hour."""
_FACETS = (
    ("hour", f"{{row}}.failed / {HOUR}", ""),
    ("version", "{row}.version", "{row}.version <> ''"),
    ("user", "{row}.user", "{row}.user is not null"),
    ("key", "{row}.key", "{row}.key is not null"),
)
"""What is counted of an issue's runs: the value, and which runs have one."""
_NUMBER = "(select number from issues where organisation = {row}.organisation and id = {row}.issue)"
_ADD_ISSUE = """
insert into issues (organisation, environment, id, kind, task, type, system, status, message, runs, first, last)
values (
  new.organisation, new.environment, new.issue, new.kind, new.task,
  coalesce(json_extract(nullif(new.error, ''), '$.type'), ''),
  coalesce(json_extract(nullif(new.error, ''), '$.upstream.system'), ''),
  json_extract(nullif(new.error, ''), '$.upstream.status'),
  coalesce(substr(json_extract(nullif(new.error, ''), '$.message'), 1, 500), ''),
  1, new.failed, new.failed
) on conflict do update set
  runs = runs + 1, first = min(first, excluded.first), last = max(last, excluded.last),
  message = case when excluded.last >= last then excluded.message else message end
"""
_ADD_COUNT = (
    f"insert into issue_counts select {_NUMBER}, '{{facet}}', {{value}}, 1 where {{condition}} "
    "on conflict do update set runs = runs + 1"
)
_REMOVE_COUNT = (
    f"delete from issue_counts where issue = {_NUMBER} and facet = '{{facet}}' and value = {{value}} and runs <= 1;"  # noqa: S608
    f"update issue_counts set runs = runs - 1 where issue = {_NUMBER} and facet = '{{facet}}' and value = {{value}}"
)
_REMOVE_ISSUE = """
update issues set
  runs = runs - 1,
  first = coalesce((select min(failed) from runs where organisation = old.organisation and issue = old.issue), first),
  last = coalesce((select max(failed) from runs where organisation = old.organisation and issue = old.issue), last)
where organisation = old.organisation and id = old.issue;
delete from issues where organisation = old.organisation and id = old.issue and runs <= 0
"""


def _counting(statement: str, row: str) -> list[str]:
    """The statement for each facet of a row."""
    return [
        statement.format(
            facet=facet, row=row, value=value.format(row=row), condition=(condition or "true").format(row=row)
        )
        for facet, value, condition in _FACETS
    ]


_ADD = "; ".join([_ADD_ISSUE, *_counting(_ADD_COUNT, "new")])
_REMOVE = "; ".join([*_counting(_REMOVE_COUNT, "old"), _REMOVE_ISSUE])
_DIFFERS = " or ".join(
    f"old.{column} is not new.{column}" for column in ("issue", "failed", "version", "user", "key")
)
_TRIGGERS += [
    f"create trigger issues_added after insert on runs when new.issue is not null begin {_ADD}; end",
    f"create trigger issues_removed after delete on runs when old.issue is not null begin {_REMOVE}; end",
    "create trigger issues_left after update of issue, failed, version, user, key on runs "
    f"when old.issue is not null and ({_DIFFERS}) begin {_REMOVE}; end",
    "create trigger issues_joined after update of issue, failed, version, user, key on runs "
    f"when new.issue is not null and ({_DIFFERS}) begin {_ADD}; end",
]
"""Issues are counted as their runs come and go, so that a list of them reads no runs."""

VERSION = zlib.crc32("\n".join((str(_CONTENT), _SCHEMA, *_TRIGGERS)).encode()) >> 1
"""Another number for other tables, which SQLite keeps in 31 bits: a file of other tables is built anew."""


def make_tables(connection: sqlite3.Connection) -> None:
    found = version(connection)
    if found == VERSION:
        return
    # Whatever another release has left: the streams have it all.
    names = connection.execute("select name from sqlite_schema where type = 'table'").fetchall()
    for (name,) in names:
        connection.execute(f'drop table "{name}"')
    execute_all(connection, _SCHEMA)
    for trigger in _TRIGGERS:
        connection.execute(trigger)
    connection.execute(f"pragma user_version = {VERSION}")
