"""What is asked of the index of runs."""

import heapq
import sqlite3
from collections.abc import Sequence
from typing import Any

import orjson

from tieline_api.runs.backlog import WAITING, Waiting
from tieline_api.runs.model import Attempt, AttemptPage, PageRequest, Run, RunFilter
from tieline_api.runs.records import error_from_json, steps_from_json
from tieline_api.runs.tally import BEFORE, Tally, Windows

_REPLAYS = (
    "select max(again.id) from runs again where again.organisation = runs.organisation "
    "and again.environment = runs.environment and again.replay_of = runs.id"
)
_COLUMNS = (
    "id, environment, kind, task, status, attempt, queued, attempts, user, activation_id, version, key, event_id, "
    f"started, ended, next_attempt, discarded, error, trace_id, replay_of, ({_REPLAYS}), nullif(input_at, 0)"
)


def page(connection: sqlite3.Connection, wanted: RunFilter, page: PageRequest, limit: int) -> list[Run]:
    """The first ``limit`` runs after (or before) the page's position, in the order in which they follow it."""
    order = "asc" if page.backwards else "desc"
    found: list[Run] = []
    for conditions, values in _scopes(connection, wanted, page):
        rows = connection.execute(
            f"select {_COLUMNS} from runs where {conditions} "  # noqa: S608  (constants; values are bound)
            f"order by queued {order}, id {order}, environment {order} limit ?",
            [*values, limit],
        )
        found += map(_run, rows)
    pick = heapq.nsmallest if page.backwards else heapq.nlargest
    return pick(limit, found, key=lambda run: run.position)


def count(connection: sqlite3.Connection, wanted: RunFilter, most: int) -> int:
    """How many runs there are, counted up to ``most``."""
    total = 0
    for conditions, values in _scopes(connection, wanted, PageRequest(first=most)):
        total += connection.execute(
            f"select count(*) from (select 1 from runs where {conditions} limit ?)",  # noqa: S608
            [*values, most - total],
        ).fetchone()[0]
    return total


def tally(connection: sqlite3.Connection, organisation: str, windows: Windows) -> Tally:
    """Counts the organisation's runs by when they were queued, without a limit."""
    found = Tally()
    rows = connection.execute(
        "select case when queued < ? then ? else (queued - ?) / ? end, count(*), sum(status in ('failed', 'dead')) "
        "from runs where organisation = ? and queued >= ? and queued < ? group by 1",
        (
            windows.start, BEFORE, windows.start, windows.width,
            organisation, windows.before, windows.end,
        ),
    )  # fmt: skip
    for bucket, executions, errors in rows:
        found.add(bucket, executions, errors)
    return found


def backlog(connection: sqlite3.Connection, organisation: str, most: int) -> list[Waiting]:
    """The groups of runs that wait, up to ``most``, the one with the oldest run first."""
    marks = ", ".join("?" * len(WAITING))
    rows = connection.execute(
        "select environment, task, key, status, count(*), min(queued) from runs "  # noqa: S608
        f"where organisation = ? and status in ({marks}) and discarded is null and (status <> 'dead' or not exists ("
        "select 1 from runs again where again.organisation = runs.organisation "
        "and again.environment = runs.environment and again.replay_of = runs.id)) "
        "group by environment, task, key, status order by min(queued), environment, task limit ?",
        (organisation, *WAITING, most),
    )
    return [Waiting(*row) for row in rows]


def find(
    connection: sqlite3.Connection, organisation: str, environments: Sequence[str], run: str
) -> list[Run]:
    """The run with this id of each of the environments, in the order in which the stream has the first of each.

    What records say of themselves, such as when the run was queued, proves nothing.
    """
    marks = ", ".join("?" * len(environments))
    rows = connection.execute(
        f"select {_COLUMNS} from runs where organisation = ? and environment in ({marks}) and id = ? "  # noqa: S608
        "order by first_at, environment",
        (organisation, *environments, run),
    )
    return [_run(row) for row in rows]


def attempts(
    connection: sqlite3.Connection, organisation: str, run: Run, *, most: int, most_steps: int
) -> AttemptPage:
    """The newest ``most`` attempts of a run, with the newest ``most_steps`` steps of them all."""
    scope = (organisation, run.environment, run.id)
    rows = connection.execute(
        "select number, status, started, ended, error, trace_id, version, steps from attempts "
        "where organisation = ? and environment = ? and run = ? order by number desc limit ?",
        (*scope, most),
    ).fetchall()
    total = len(rows)
    if total == most:
        total = connection.execute(
            "select count(*) from attempts where organisation = ? and environment = ? and run = ?", scope
        ).fetchone()[0]
    found, room = [], most_steps
    for number, status, started, ended, error, trace_id, version, text in rows:
        steps, left_out = steps_from_json(text, room)
        room -= len(steps)
        attempt = Attempt(
            number=number,
            status=status,
            started_at=started,
            ended_at=ended,
            error=error_from_json(error),
            trace_id=trace_id,
            version=version,
            steps=steps,
            steps_left_out=left_out,
        )
        found.append(attempt)
    return AttemptPage(found[::-1], total - len(found))


def by_event(
    connection: sqlite3.Connection, organisation: str, environment: str, task: str, event_id: str
) -> Run | None:
    """The newest run of the event with this id that is no replay."""
    row = connection.execute(
        f"select {_COLUMNS} from runs where organisation = ? and environment = ? and event_id = ? "  # noqa: S608
        "and task = ? and replay_of is null order by queued desc limit 1",
        (organisation, environment, event_id, task),
    ).fetchone()
    return _run(row) if row else None


def known(
    connection: sqlite3.Connection, organisation: str, runs: Sequence[tuple[str, str]]
) -> set[tuple[str, str]]:
    """Which of the runs, by environment and id, are in the index."""
    rows = connection.execute(
        "select r.environment, r.id from json_each(?) j cross join runs r on r.organisation = ? "
        "and r.environment = json_extract(j.value, '$[0]') and r.id = json_extract(j.value, '$[1]')",
        (orjson.dumps(list(runs)).decode(), organisation),
    )
    return {(environment, run) for environment, run in rows}


def _scopes(
    connection: sqlite3.Connection, wanted: RunFilter, page: PageRequest
) -> list[tuple[str, list[Any]]]:
    """Conditions for the organisation, or for each environment, as an index has its runs in order."""
    conditions, values = _conditions(connection, wanted, page)
    if wanted.environments is None:
        return [(" and ".join(["organisation = ?", *conditions]), [wanted.organisation, *values])]
    return [
        (
            " and ".join(["organisation = ? and environment = ?", *conditions]),
            [wanted.organisation, environment, *values],
        )
        for environment in wanted.environments
    ]


def _conditions(
    connection: sqlite3.Connection, wanted: RunFilter, page: PageRequest
) -> tuple[list[str], list[Any]]:
    conditions: list[str] = []
    values: list[Any] = []

    def add(condition: str, *given: Any) -> None:
        conditions.append(condition)
        values.extend(given)

    for position, sign in ((page.after, "<"), (page.before, ">")):
        if position is not None:
            add(f"queued {sign}= ?", position[0])
            add(f"(queued, id, environment) {sign} (?, ?, ?)", *position)
    if wanted.start is not None:
        add("queued >= ?", wanted.start)
    if wanted.end is not None:
        add("queued < ?", wanted.end)
    for column, value in (
        ("status", wanted.status),
        ("kind", wanted.kind),
        ("task", wanted.task),
        ("user", wanted.user),
        ("key", wanted.key),
        ("event_id", wanted.event_id),
    ):
        if value is not None:
            add(f"{column} = ?", value)
    if wanted.discarded is not None:
        add(f"discarded is {'not null' if wanted.discarded else 'null'}")
    if wanted.replayed is not None:
        add(f"({_REPLAYS}) is {'not null' if wanted.replayed else 'null'}")
    if wanted.versions is not None:
        add(f"version in ({', '.join('?' * len(wanted.versions))})", *wanted.versions)
    if wanted.trace_id is not None:
        add(
            "(trace_id = ? or exists (select 1 from attempts a where a.organisation = runs.organisation "
            "and a.environment = runs.environment and a.run = runs.id and a.trace_id = ?))",
            wanted.trace_id,
            wanted.trace_id,
        )
    if wanted.search:
        connection.create_function("error_has", 2, _error_has, deterministic=True)
        add("error <> '' and error_has(error, ?)", wanted.search.casefold())
    return conditions, values


def _error_has(error: str, text: str) -> bool:
    found = error_from_json(error)
    if found is None:
        return False
    upstream = found.upstream.body if found.upstream else ""
    return any(text in one.casefold() for one in (found.type, found.message, upstream))


def _run(row: Sequence[Any]) -> Run:
    (
        identifier, environment, kind, task, status, attempt, queued, most, user, activation_id, version, key,
        event_id, started, ended, next_attempt, discarded, error, trace_id, replay_of, replayed_by,
        input_at,
    ) = row  # fmt: skip
    return Run(
        id=identifier,
        environment=environment,
        kind=kind,
        task=task,
        status=status,
        attempt=attempt,
        queued_at=queued,
        attempts=most,
        user=user,
        activation_id=activation_id,
        version=version,
        key=key,
        event_id=event_id,
        started_at=started,
        ended_at=ended,
        next_attempt_at=next_attempt,
        discarded_at=discarded,
        error=error_from_json(error),
        trace_id=trace_id,
        replay_of=replay_of,
        replayed_by=replayed_by,
        input_at=input_at,
    )
