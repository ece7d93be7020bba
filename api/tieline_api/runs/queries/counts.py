"""How many runs there are of each kind, which are counted without listing them."""

import sqlite3
from collections.abc import Sequence

from tieline_api.runs.backlog import WAITING, Waiting
from tieline_api.runs.queries.rows import FAILED, NOT_ENDED
from tieline_api.runs.release_tally import ReleaseTally, RunCount
from tieline_api.runs.tally import BEFORE, Tally, Totals, Windows

_TALLY = (
    "select case when queued < ? then ? else (queued - ?) / ? end, environment, count(*), "  # noqa: S608  (constants)
    f"sum(status in ({FAILED})), count(ended - started), total(ended - started) "
    "from runs where organisation = ? and queued >= ? and queued < ? group by 1, 2"
)


def tally(connection: sqlite3.Connection, organisation: str, windows: Windows) -> Tally:
    """Counts the organisation's runs by when they were queued, without a limit."""
    found = Tally()
    rows = connection.execute(
        _TALLY,
        (
            windows.start, BEFORE, windows.start, windows.width,
            organisation, windows.before, windows.end,
        ),
    )  # fmt: skip
    for bucket, environment, executions, errors, ended, took in rows:
        # `total` is a floating-point number: `sum` fails when made-up times overflow 64 bits.
        found.add(bucket, environment, Totals(executions, errors, ended, round(took)))
    return found


def release_tally(
    connection: sqlite3.Connection, organisation: str, environment: str, starts: Sequence[int]
) -> ReleaseTally:
    """Counts an environment's runs by version, and by the last of ``starts`` (oldest first) before them."""
    if not starts:
        return ReleaseTally()
    place = " + ".join("(queued >= ?)" for _ in starts)
    rows = connection.execute(
        f"select version, {place} - 1, count(*), sum(status in ({FAILED})) from runs "  # noqa: S608  (constants)
        "where organisation = ? and environment = ? and queued >= ? group by 1, 2",
        (*starts, organisation, environment, starts[0]),
    )
    return ReleaseTally({(version, at): RunCount(total, failed) for version, at, total, failed in rows})


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


def waiting_tasks(
    connection: sqlite3.Connection, organisation: str, environment: str, most: int
) -> dict[str, int]:
    """How many events of an environment have not ended, by task: of ``most`` tasks at most."""
    rows = connection.execute(
        "select task, count(*) from runs where organisation = ? and environment = ? "  # noqa: S608  (constants)
        f"and kind = 'event' and {NOT_ENDED} group by task order by task limit ?",
        (organisation, environment, most),
    )
    return dict(rows.fetchall())


def environments_with_events(
    connection: sqlite3.Connection, organisation: str, environments: Sequence[str]
) -> list[str]:
    """Those of the environments that have runs of the event engine."""
    question = "select 1 from runs where organisation = ? and environment = ? and direct = 0 limit 1"
    return [one for one in environments if connection.execute(question, (organisation, one)).fetchone()]
