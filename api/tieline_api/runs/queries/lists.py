"""Lists of runs: which index has those of a filter, in pages and counted."""

import heapq
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from tieline_api.runs.model import PageRequest, Position, Run, RunFilter
from tieline_api.runs.queries.rows import COLUMNS, FAILED, REPLAYS, run_of_row
from tieline_api.runs.records import error_from_json
from tieline_core.identity.ids import parse_id

_TAGGED = (
    "tags as tag indexed by {index} cross join runs on runs.organisation = tag.organisation "
    "and runs.environment = tag.environment and runs.id = tag.run"
)
"""Runs as an index of tags has them, in order."""
_HAS_TAG = (
    "exists (select 1 from tags other where other.organisation = runs.organisation "
    "and other.environment = runs.environment and other.run = runs.id and other.name = ? and other.value = ?)"
)
_COMPARED = 1000
"""Of several tags the rarest is looked up: so many runs of each are counted."""


def page(connection: sqlite3.Connection, wanted: RunFilter, page: PageRequest, limit: int) -> list[Run]:
    """The first ``limit`` runs after (or before) the page's position, in the order in which they follow it."""
    order = "asc" if page.backwards else "desc"
    # One that several sources have is there once.
    found: dict[Position, Run] = {}
    for source in _sources(connection, wanted, page):
        rows = connection.execute(
            f"select {COLUMNS} from {source.table} where {source.condition} "  # noqa: S608  (constants)
            f"order by {', '.join(f'{column} {order}' for column in source.order)} limit ?",
            [*source.values, limit],
        )
        found |= {run.position: run for run in map(run_of_row, rows)}
    pick = heapq.nsmallest if page.backwards else heapq.nlargest
    return pick(limit, found.values(), key=lambda run: run.position)


def count(connection: sqlite3.Connection, wanted: RunFilter, most: int) -> int:
    """How many runs there are, counted up to ``most``."""
    sources = _sources(connection, wanted, PageRequest(first=most))
    if wanted.find is not None:
        found: set[tuple[str, str]] = set()
        for source in sources:
            found |= set(
                connection.execute(
                    f"select runs.environment, runs.id from {source.table} where {source.condition} limit ?",  # noqa: S608
                    [*source.values, most],
                )
            )
        return min(len(found), most)
    total = 0
    for source in sources:
        total += connection.execute(
            f"select count(*) from (select 1 from {source.table} where {source.condition} limit ?)",  # noqa: S608
            [*source.values, most - total],
        ).fetchone()[0]
    return total


@dataclass(frozen=True)
class _Source:
    """Where runs are read, in the order of an index."""

    table: str
    condition: str
    values: list[Any]
    order: tuple[str, str, str]


_OF_RUNS = ("runs.queued", "runs.id", "runs.environment")
_OF_TAGS = ("tag.queued", "tag.run", "tag.environment")


def _sources(connection: sqlite3.Connection, wanted: RunFilter, page: PageRequest) -> list[_Source]:
    """What has the runs, each in the order of lists; only what is found by an id is in several of them."""
    if wanted.find is not None:
        return _found(connection, wanted, page, wanted.find)
    if wanted.tags:
        name, value = _rarest(connection, wanted.organisation, wanted.tags)
        return [
            _tagged(connection, wanted, page, "runs_by_tag", "tag.name = ? and tag.value = ?", name, value)
        ]
    conditions, values = _conditions(connection, wanted, page, _OF_RUNS)
    if wanted.environments is None:
        condition = " and ".join(["runs.organisation = ?", *conditions])
        return [_Source("runs", condition, [wanted.organisation, *values], _OF_RUNS)]
    condition = " and ".join(["runs.organisation = ? and runs.environment = ?", *conditions])
    return [
        _Source("runs", condition, [wanted.organisation, environment, *values], _OF_RUNS)
        for environment in wanted.environments
    ]


def _found(connection: sqlite3.Connection, wanted: RunFilter, page: PageRequest, text: str) -> list[_Source]:
    """Each index by which a run may be found, in each environment."""
    conditions, values = _conditions(connection, wanted, page, _OF_RUNS)
    environments = wanted.environments
    if environments is None:
        rows = connection.execute(
            "select environment from usage where organisation = ?", (wanted.organisation,)
        )
        environments = tuple(environment for (environment,) in rows)
    places = [
        ("runs indexed by runs_by_event", "event_id", text),
        ("runs indexed by runs_by_key", "key", text),
        ("runs indexed by runs_by_user", "user", text),
    ]
    if (identifier := parse_id(text)) is not None:
        places.append(("runs", "id", identifier))
    # A run may have the value several times.
    first = (
        "tag.value = ? and not exists (select 1 from tags other where other.organisation = tag.organisation "
        "and other.environment = tag.environment and other.run = tag.run and other.value = tag.value "
        "and other.name < tag.name)"
    )
    return [
        _tagged(connection, wanted, page, "runs_by_value", first, text),
        *(
            _Source(
                table,
                " and ".join(
                    [f"runs.organisation = ? and runs.environment = ? and runs.{column} = ?", *conditions]
                ),
                [wanted.organisation, environment, value, *values],
                _OF_RUNS,
            )
            for environment in environments
            for table, column, value in places
        ),
    ]


def _tagged(
    connection: sqlite3.Connection, wanted: RunFilter, page: PageRequest, index: str, having: str, *given: str
) -> _Source:
    conditions, values = _conditions(connection, wanted, page, _OF_TAGS)
    scope, of_scope = [f"tag.organisation = ? and {having}"], [wanted.organisation, *given]
    if wanted.environments is not None:
        scope.append("tag.environment in (select value from json_each(?))")
        of_scope.append(orjson.dumps(wanted.environments).decode())
    return _Source(
        _TAGGED.format(index=index), " and ".join([*scope, *conditions]), [*of_scope, *values], _OF_TAGS
    )


def _rarest(
    connection: sqlite3.Connection, organisation: str, tags: Sequence[tuple[str, str]]
) -> tuple[str, str]:
    """The tag that the fewest runs have: an order's number rather than a customer's."""
    if len(tags) == 1:
        return tags[0]

    def runs(tag: tuple[str, str]) -> int:
        name, value = tag
        counted = connection.execute(
            "select count(*) from (select 1 from tags where organisation = ? and name = ? and value = ? limit ?)",
            (organisation, name, value, _COMPARED),
        ).fetchone()
        return int(counted[0])

    return min(tags, key=runs)


def _conditions(
    connection: sqlite3.Connection, wanted: RunFilter, page: PageRequest, order: tuple[str, str, str]
) -> tuple[list[str], list[Any]]:
    conditions: list[str] = []
    values: list[Any] = []

    def add(condition: str, *given: Any) -> None:
        conditions.append(condition)
        values.extend(given)

    for condition, *given in _window(wanted, page, order):
        add(condition, *given)
    for tag in wanted.tags:
        add(_HAS_TAG, *tag)
    for column, value in (
        ("kind", wanted.kind),
        ("task", wanted.task),
        ("user", wanted.user),
        ("key", wanted.key),
        ("event_id", wanted.event_id),
        ("issue", wanted.issue),
    ):
        if value is not None:
            add(f"{column} = ?", value)
    for condition, expected in (
        ("discarded is not null", wanted.discarded),
        (f"({REPLAYS}) is not null", wanted.replayed),
        (f"status in ({FAILED})", wanted.failed),
    ):
        if expected is not None:
            add(condition if expected else f"not ({condition})")
    for column, values_of in (
        ("runs.id", wanted.ids),
        ("status", wanted.statuses),
        ("version", wanted.versions),
    ):
        if values_of is not None:
            add(f"{column} in ({', '.join('?' * len(values_of))})", *values_of)
    if wanted.actionable:
        add("(not direct or input_at > 0)")
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


def _window(wanted: RunFilter, page: PageRequest, order: tuple[str, str, str]) -> Iterator[tuple[Any, ...]]:
    """Conditions for the part of the list, each with its values."""
    queued = order[0]
    for position, sign in ((page.after, "<"), (page.before, ">")):
        if position is not None:
            yield f"{queued} {sign}= ?", position[0]
            yield f"({', '.join(order)}) {sign} (?, ?, ?)", *position
    if wanted.start is not None:
        yield f"{queued} >= ?", wanted.start
    if wanted.end is not None:
        yield f"{queued} < ?", wanted.end


def _error_has(error: str, text: str) -> bool:
    found = error_from_json(error)
    if found is None:
        return False
    upstream = found.upstream.body if found.upstream else ""
    return any(text in one.casefold() for one in (found.type, found.message, upstream))
