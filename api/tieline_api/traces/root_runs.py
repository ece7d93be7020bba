"""Direct runs of webhooks and schedules, and background work: runs that are told by a span alone."""

import heapq
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tieline_api.sqlite_files import version
from tieline_api.traces.query import COLUMNS, span_of_row
from tieline_api.traces.spans import EXCEPTION_TYPE, USER, DirectKind, Span

_SINCE_VERSION = 3
_EACH_AT_ONCE = 2000
_ALL = -1
"""As a limit of SQLite: none."""

RootPosition = tuple[int, str, str]
"""Where a run stands: its start (nanoseconds), its id, its environment."""


@dataclass(frozen=True, kw_only=True)
class RootQuery:
    """Which runs. ``start`` is in, ``end`` is not (nanoseconds)."""

    organisation: str
    environments: Sequence[str] | None
    """None for all of the organisation."""
    limit: int
    older_than: RootPosition | None = None
    newer_than: RootPosition | None = None
    newest_first: bool = True
    id: str | None = None
    kind: DirectKind | None = None
    failed: bool | None = None
    task: str | None = None
    user: str | None = None
    start: int | None = None
    end: int | None = None
    search: str | None = None
    """In what failed runs say, in upper or lower case."""
    trace_id: bytes | None = None


@dataclass(frozen=True)
class RootRun:
    """The span that tells a run, and where it ran."""

    environment: str
    span: Span
    kind: DirectKind

    @property
    def position(self) -> RootPosition:
        """Where it stands in lists."""
        return (self.span.start, self.span.run_id, self.environment)


@dataclass(frozen=True, slots=True)
class RootOutcome:
    """When a run that a span tells began (nanoseconds), and whether it failed."""

    environment: str
    run_id: str
    start: int
    failed: bool


def roots(connection: sqlite3.Connection, wanted: RootQuery) -> list[RootRun]:
    """The first ``limit`` runs in the order that is asked for."""
    found: list[RootRun] = []
    for owner, environment in _owners(connection, wanted):
        rows = _of_owner(connection, owner, environment, wanted, f"{COLUMNS}, run, run_id")
        found += [
            RootRun(environment, replace(span_of_row(row[:-2]), run=row[-2], run_id=row[-1]), row[-2])
            for row in rows
        ]
    pick = heapq.nlargest if wanted.newest_first else heapq.nsmallest
    return pick(wanted.limit, found, key=lambda one: one.position)


def ids(connection: sqlite3.Connection, wanted: RootQuery) -> list[tuple[str, str]]:
    """Environment and id of up to ``limit`` runs, in no order."""
    found: list[tuple[str, str]] = []
    for owner, environment in _owners(connection, wanted):
        left = replace(wanted, limit=wanted.limit - len(found))
        rows = _of_owner(connection, owner, environment, left, "run_id")
        found += [(environment, row[0]) for row in rows]
    return found


def each(
    connection: sqlite3.Connection, wanted: RootQuery, take: Callable[[Sequence[RootOutcome]], None]
) -> None:
    """Hands over all runs, whatever the ``limit``, some at a time and in no order."""
    for owner, environment in _owners(connection, wanted):
        rows = _of_owner(connection, owner, environment, replace(wanted, limit=_ALL), "run_id, start, status")
        while some := rows.fetchmany(_EACH_AT_ONCE):
            take([RootOutcome(environment, run, start, status == "ERROR") for run, start, status in some])


def _owners(connection: sqlite3.Connection, wanted: RootQuery) -> list[tuple[int, str]]:
    """The environments to look at, each of which an index answers for."""
    if version(connection) < _SINCE_VERSION:
        return []
    connection.create_function("folded", 1, _folded, deterministic=True)
    owners = connection.execute(
        "select id, environment from owners where organisation = ? order by id", (wanted.organisation,)
    ).fetchall()
    chosen = None if wanted.environments is None else frozenset(wanted.environments)
    return [(owner, environment) for owner, environment in owners if chosen is None or environment in chosen]


def _of_owner(
    connection: sqlite3.Connection, owner: int, environment: str, wanted: RootQuery, columns: str
) -> sqlite3.Cursor:
    # A run has one root. Where there are more (attempts whose history is gone), the last one tells how it ended.
    conditions = [
        "e.owner = ? and e.run <> ''",
        "not exists (select 1 from spans o where o.owner = e.owner and o.run <> '' "
        "and o.run_id = e.run_id and (o.start, o.id) > (e.start, e.id))",
    ]
    values: list[Any] = [owner]

    def add(condition: str, *given: Any) -> None:
        conditions.append(condition)
        values.extend(given)

    if wanted.id is not None:
        add("e.run_id = ?", wanted.id)
    if wanted.older_than is not None:
        add("e.start <= ?", wanted.older_than[0])
        add("(e.start, e.run_id, ?) < (?, ?, ?)", environment, *wanted.older_than)
    if wanted.newer_than is not None:
        add("e.start >= ?", wanted.newer_than[0])
        add("(e.start, e.run_id, ?) > (?, ?, ?)", environment, *wanted.newer_than)
    if wanted.start is not None:
        add("e.start >= ?", wanted.start)
    if wanted.end is not None:
        add("e.start < ?", wanted.end)
    if wanted.kind is not None:
        add("e.run = ?", wanted.kind)
    if wanted.task is not None:
        add("e.task = ?", wanted.task)
    if wanted.failed is not None:
        add("e.status = 'ERROR'" if wanted.failed else "e.status <> 'ERROR'")
    if wanted.trace_id is not None:
        add("e.trace_id = ?", wanted.trace_id)
    if wanted.user is not None:
        add(f"json_extract(e.attributes, '$.\"{USER}\"') = ?", wanted.user)
    if wanted.search:
        add(
            "e.status = 'ERROR' and (instr(folded(e.message), ?) or "
            f"instr(folded(coalesce(json_extract(e.attributes, '$.\"{EXCEPTION_TYPE}\"'), '')), ?))",
            wanted.search.casefold(),
            wanted.search.casefold(),
        )
    order = "desc" if wanted.newest_first else "asc"
    return connection.execute(
        f"select {columns} from spans e where {' and '.join(conditions)} "  # noqa: S608  (constants; values are bound)
        f"order by e.start {order}, e.run_id {order} limit ?",
        [*values, wanted.limit],
    )


def _folded(text: str) -> str:
    return text.casefold()
