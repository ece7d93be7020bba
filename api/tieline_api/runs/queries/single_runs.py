"""What is asked about single runs."""

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import replace

from tieline_api.runs.model import Attempt, AttemptPage, Run
from tieline_api.runs.queries.rows import COLUMNS, NOT_ENDED, run_of_row
from tieline_api.runs.records import error_from_json, steps_from_json
from tieline_protocol.run_records import ENDED, POD_DIED


def find(
    connection: sqlite3.Connection, organisation: str, environments: Sequence[str], run: str
) -> list[Run]:
    """The run with this id of each of the environments, in the order in which the engine stored the first of each.

    What records say of themselves, such as when the run was queued, proves nothing.
    """
    marks = ", ".join("?" * len(environments))
    rows = connection.execute(
        f"select {COLUMNS} from runs where organisation = ? and environment in ({marks}) and id = ? "  # noqa: S608
        "order by stored, first_at, environment",
        (organisation, *environments, run),
    )
    return [run_of_row(row) for row in rows]


def ahead_of(
    connection: sqlite3.Connection, organisation: str, runs: Iterable[Run]
) -> dict[tuple[str, str], str]:
    """The first run of its key that has not ended, for each queued run that waits behind it: by environment and id."""
    firsts: dict[tuple[object, ...], tuple[int, str]] = {}
    found: dict[tuple[str, str], str] = {}
    for run in runs:
        if not run.may_wait_behind:
            continue
        scope = (None, None, None) if run.shared_key else (run.kind, run.task, run.user)
        key = (run.environment, run.key, run.shared_key, *scope)
        if key not in firsts:
            firsts[key] = _first_of_key(connection, organisation, run)
        queued_at, first = firsts[key]
        if (queued_at, first) < (run.queued_at, run.id):
            found[run.environment, run.id] = first
    return found


def _first_of_key(connection: sqlite3.Connection, organisation: str, run: Run) -> tuple[int, str]:
    """When the first run of a run's key that has not ended was queued, and its id."""
    row = connection.execute(
        f"select queued, id from runs where organisation = ? and environment = ? and key = ? and {NOT_ENDED} "  # noqa: S608
        "and shared_key = ? and (shared_key or (kind = ? and task = ? and user is ?)) order by queued, id limit 1",
        (organisation, run.environment, run.key, run.shared_key, run.kind, run.task, run.user),
    ).fetchone()
    return (row[0], row[1]) if row else (run.queued_at, run.id)


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
    return AttemptPage([_as_it_ended(one, run) for one in reversed(found)], total - len(found))


def _as_it_ended(attempt: Attempt, run: Run) -> Attempt:
    """The attempt with its own outcome: records say what the run was after it, and pods that died said nothing."""
    is_over = attempt.number < run.attempt or run.status in ENDED
    if attempt.status in ("running", "waiting") and (is_over or attempt.error is not None):
        return replace(attempt, status="failed", error=attempt.error or POD_DIED)
    return attempt


def by_event(
    connection: sqlite3.Connection, organisation: str, environment: str, task: str, event_id: str
) -> Run | None:
    """The newest run of the event with this id that is no replay."""
    row = connection.execute(
        f"select {COLUMNS} from runs where organisation = ? and environment = ? and event_id = ? "  # noqa: S608
        "and task = ? and replay_of is null order by queued desc limit 1",
        (organisation, environment, event_id, task),
    ).fetchone()
    return run_of_row(row) if row else None
