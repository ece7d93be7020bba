"""What is asked of the stored spans: one trace, or a page of the runs of a project."""

import re
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from tieline_api.traces.spans import EXECUTION_ID, TASK, Owner, Span

MAX_SPANS_OF_TRACE = 10_000
SCANNED = 20_000
"""Runs that one page looks at, at most: a filter that fits nothing answers soon, and goes on by its token."""

MAX_TERMS = 10
_PART = r'(?:"(?:[^"\\]|\\.)*"|[^\s:"][^\s:]*)'
_VALUE = r'(?:"(?:[^"\\]|\\.)*"|[^\s"]\S*)?'
_TERM = re.compile(rf"\s*(?P<key>{_PART}):(?P<value>{_VALUE})(?=\s|$)")

Position = tuple[int, int]
"""Where a run stands in a list: its start (nanoseconds) and the order of its arrival."""


@dataclass(frozen=True, kw_only=True)
class RunQuery:
    """Which runs. ``start`` is in, ``end`` is not (nanoseconds)."""

    first: int
    start: int | None = None
    end: int | None = None
    filter: Sequence[tuple[str, str]] = ()
    error: bool | None = None
    """Whether the run failed, whatever became of the requests that it made."""
    task: str | None = None
    beyond: Position | None = None
    """The last run that the page before has looked at."""


@dataclass(frozen=True)
class Page:
    """Spans that runs begin with, newest first, and where the next page goes on, when there is more."""

    entries: list[Span]
    last: Position | None


COLUMNS = (
    "trace_id, span_id, parent_id, name, start, end, entry, status, message, service, task, execution_id, "
    "attributes"
)


def trace(connection: sqlite3.Connection, organisation: str, project: str, trace_id: bytes) -> list[Span]:
    """The spans of a trace in the order of their start, of all the project's environments; [] for none."""
    rows = connection.execute(
        f"select {COLUMNS} from spans where trace_id = ? and owner in "  # noqa: S608  (constants)
        "(select id from owners where organisation = ? and project = ?) order by start, id limit ?",
        (trace_id, organisation, project, MAX_SPANS_OF_TRACE),
    )
    return [span_of_row(row) for row in rows]


def runs(connection: sqlite3.Connection, owner: Owner, wanted: RunQuery) -> Page:
    """The page of an environment's runs that ``wanted`` describes."""
    found = connection.execute(
        "select id from owners where organisation = ? and project = ? and environment = ?",
        (owner.organisation, owner.project, owner.environment),
    ).fetchone()
    if found is None:
        return Page([], None)
    # One state of the database for both questions, whatever is written meanwhile.
    connection.execute("begin")
    conditions, values = _conditions(found[0], wanted)
    where = " and ".join(conditions)
    more, bound = _matching(wanted)
    edge: Position | None = None
    if more:
        edge = connection.execute(
            f"select start, id from spans e where {where} "  # noqa: S608  (constants; values are bound)
            "order by start desc, id desc limit 1 offset ?",
            [*values, SCANNED - 1],
        ).fetchone()
    if edge is not None:
        conditions.append("(e.start, e.id) >= (?, ?)")
        values += edge
    where = " and ".join([*conditions, *more])
    rows = connection.execute(
        f"select {COLUMNS}, id from spans e where {where} "  # noqa: S608
        "order by start desc, id desc limit ?",
        [*values, *bound, wanted.first + 1],
    ).fetchall()
    connection.execute("commit")
    page = rows[: wanted.first]
    last = (page[-1][4], page[-1][-1]) if len(rows) > wanted.first else edge
    return Page([span_of_row(row[:-1]) for row in page], last)


def _conditions(owner: int, wanted: RunQuery) -> tuple[list[str], list[Any]]:
    """What an index answers."""
    conditions = ["e.owner = ?", "e.entry = 1"]
    found: list[Any] = [owner]
    exact = {"task": wanted.task} if wanted.task is not None else {}
    for column, value in [*exact.items(), *_columns(wanted)]:
        conditions.append(f"e.{column} = ? and e.{column} <> ''")
        found.append(value)
    for condition, moment in (("e.start >= ?", wanted.start), ("e.start < ?", wanted.end)):
        if moment is not None:
            conditions.append(condition)
            found.append(moment)
    if wanted.beyond is not None:
        conditions.append("(e.start, e.id) < (?, ?)")
        found += wanted.beyond
    return conditions, found


def _columns(wanted: RunQuery) -> list[tuple[str, str]]:
    names = {EXECUTION_ID: "execution_id", TASK: "task"}
    return [(names[key], value) for key, value in wanted.filter if key in names]


def _matching(wanted: RunQuery) -> tuple[list[str], list[Any]]:
    """What no index answers: whether a run failed, and what all spans of its trace tell, within its environment."""
    conditions: list[str] = []
    values: list[Any] = []
    if wanted.error is not None:
        # The run's own status: one that has coped with the failure of a request has not failed.
        conditions.append("e.status = 'ERROR'" if wanted.error else "e.status <> 'ERROR'")
    for key, value in wanted.filter:
        if key in (EXECUTION_ID, TASK):
            continue
        # Looking for the text first spares reading the JSON of the spans that cannot fit.
        text = orjson.dumps(key) + b":" + orjson.dumps(value)
        conditions.append(
            "exists (select 1 from spans s where s.owner = e.owner and s.trace_id = e.trace_id "
            "and instr(s.attributes, ?) and exists (select 1 from json_each(s.attributes) a "
            "where a.key = ? and a.value = ?))"
        )
        values += [text.decode(), key, value]
    return conditions, values


def span_of_row(row: Sequence[Any]) -> Span:
    """The span of a row of COLUMNS."""
    (
        trace_id, span_id, parent_id, name, start, end, entry, status, message, service, task, execution, held,
    ) = row  # fmt: skip
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=parent_id or b"",
        name=name,
        start=start,
        end=end,
        entry=bool(entry),
        status=status,
        message=message,
        service=service,
        task=task,
        execution_id=execution,
        attributes=orjson.loads(held),
    )


class BadFilterError(Exception):
    """The text is no filter; the message says what to write."""


def parse_filter(text: str) -> tuple[tuple[str, str], ...]:
    """The pairs of attribute and value in the ``filter`` of a list of traces: ``attribute:value``, separated by spaces.

    Either side may be put in double quotes, in which ``\\"`` and ``\\\\`` stand for themselves:
    ``http.request.method:POST "shop.order id":"A 1"``. The attribute ends at its first colon outside quotes.
    Raises BadFilterError.
    """
    return tuple(_terms(text))


def _terms(text: str) -> Iterator[tuple[str, str]]:
    position, end = 0, len(text.rstrip())
    for _ in range(MAX_TERMS):
        if position >= end:
            return
        found = _TERM.match(text, position, end)
        if found is None:
            raise BadFilterError(
                "must be attribute:value pairs separated by spaces, such as http.request.method:POST; "
                'put what holds spaces or quotes in double quotes: "order id":"A 1"'
            )
        yield _plain(found["key"]), _plain(found["value"])
        position = found.end()
    if position < end:
        raise BadFilterError(f"may have at most {MAX_TERMS} attribute:value pairs")


def _plain(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL) if text.startswith('"') else text
