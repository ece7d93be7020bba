"""Lists of issues: from their own table, without reading runs."""

import sqlite3
from collections.abc import Sequence
from typing import Any

import orjson

from tieline_api.runs.issues import (
    MAX_COUNTED,
    Decision,
    Issue,
    IssueFilter,
    IssuePageRequest,
    VersionAge,
    state_of,
)
from tieline_api.runs.tables import HOUR

HOURS = 24
_MAX_VERSIONS = 100
_MAX_USERS = 10_000
_FROM = (
    "issues left join issue_states said on said.organisation = issues.organisation and said.issue = issues.id"
)
_VERSIONS = (
    "(select json_group_array(value) from (select value from issue_counts where issue = issues.number "  # noqa: S608
    f"and facet = 'version' order by value desc limit {_MAX_VERSIONS}))"
)
"""Versions that REST makes are named by time: of too many, those count that a regression can be in."""
_STATE = (
    f"case when said.content is null then 'open' else issue_state(said.content, issues.last, {_VERSIONS}) end"
)
_COUNTED = (
    "(select count(*) from (select 1 from issue_counts where issue = issues.number and facet = '{facet}' "  # noqa: S608
    f"limit {MAX_COUNTED}))"
)
_COLUMNS = ", ".join(
    (
        "issues.id", "issues.environment", "kind", "task", "type", "system", "status", "message", "runs", "first",
        "last", _VERSIONS, _COUNTED.format(facet="user"), _COUNTED.format(facet="key"), "said.content",
        "coalesce(said.sequence, 0)", _STATE,
        "(select json_group_object(value, runs) from issue_counts where issue = issues.number and facet = 'hour' "
        "and value > ?)",
    )
)  # fmt: skip


def page(
    connection: sqlite3.Connection, wanted: IssueFilter, page: IssuePageRequest, limit: int
) -> list[Issue]:
    """The first ``limit`` issues after (or before) the page's position, in the order in which they follow it."""
    _add_state(connection, page.age, page.now)
    conditions, values = _conditions(wanted)
    for position, sign in ((page.after, "<"), (page.before, ">")):
        if position is not None:
            conditions.append(f"(issues.last, issues.id) {sign} (?, ?)")
            values += position
    order = "asc" if page.backwards else "desc"
    rows = connection.execute(
        f"select {_COLUMNS} from {_FROM} where {' and '.join(conditions)} "  # noqa: S608  (constants)
        f"order by issues.last {order}, issues.id {order} limit ?",
        [page.now // HOUR - HOURS, *values, limit],
    )
    return [_issue(row, page.age) for row in rows]


def count(
    connection: sqlite3.Connection, wanted: IssueFilter, most: int, *, age: VersionAge, now: int
) -> int:
    """How many issues there are, counted up to ``most``."""
    _add_state(connection, age, now)
    conditions, values = _conditions(wanted)
    found = connection.execute(
        f"select count(*) from (select 1 from {_FROM} where {' and '.join(conditions)} limit ?)",  # noqa: S608
        [*values, most],
    ).fetchone()
    return int(found[0])


def users(connection: sqlite3.Connection, organisation: str, issue: str, most: int) -> list[tuple[str, int]]:
    """The users with most of an issue's runs, by their ids in the customer's application: of the first 10,000."""
    rows = connection.execute(
        "select value, runs from (select value, runs from issue_counts where facet = 'user' and issue = "
        "(select number from issues where organisation = ? and id = ?) limit ?) order by runs desc, value limit ?",
        [organisation, issue, _MAX_USERS, most],
    )
    return [(str(user), int(runs)) for user, runs in rows]


def _add_state(connection: sqlite3.Connection, age: VersionAge, now: int) -> None:
    def state(content: str, last: int, versions: str) -> str:
        return state_of(Decision.parse(content), last=last, versions=orjson.loads(versions), age=age, now=now)

    connection.create_function("issue_state", 3, state, deterministic=True)


def _conditions(wanted: IssueFilter) -> tuple[list[str], list[Any]]:
    conditions, values = ["issues.organisation = ?"], [wanted.organisation]

    def add(condition: str, *given: Any) -> None:
        conditions.append(condition)
        values.extend(given)

    if wanted.environments is not None:
        add(
            "issues.environment in (select value from json_each(?))",
            orjson.dumps(wanted.environments).decode(),
        )
    for column, value in (
        ("issues.id", wanted.id),
        ("kind", wanted.kind),
        ("task", wanted.task),
        ("system", wanted.system),
        ("said.assignee", wanted.assignee),
    ):
        if value is not None:
            add(f"{column} = ?", value)
    if wanted.since is not None:
        add("issues.last >= ?", wanted.since)
    if wanted.until is not None:
        add("issues.first < ?", wanted.until)
    if wanted.states is not None:
        add(f"{_STATE} in ({', '.join('?' * len(wanted.states))})", *wanted.states)
    return conditions, values


def _issue(row: Sequence[Any], age: VersionAge) -> Issue:
    (
        identifier, environment, kind, task, kind_of_error, system, status, message, runs, first, last, versions,
        users, keys, content, decided, state, hours,
    ) = row  # fmt: skip
    # What is gone is older than what is there.
    by_age = sorted(orjson.loads(versions), key=lambda one: (age(one) or 0, one))
    return Issue(
        id=identifier,
        environment=environment,
        kind=kind,
        task=task,
        type=kind_of_error,
        system=system,
        status=status,
        message=message,
        runs=runs,
        first=first,
        last=last,
        first_version=by_age[0] if by_age else "",
        last_version=by_age[-1] if by_age else "",
        versions=tuple(by_age),
        users=users,
        keys=keys,
        hours={int(hour): count for hour, count in orjson.loads(hours).items()},
        decision=Decision.parse(content) if content else None,
        decided=decided,
        state=state,
    )
