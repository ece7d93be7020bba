"""Logs of projects in REST."""

import re
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StringConstraints, WithJsonSchema

from tieline_api.logs.lines import fixed_time
from tieline_api.schemas.base import Query, Rest, TimeOut

_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)")


def _time(text: str) -> str:
    try:
        if not _RFC_3339.fullmatch(text):
            raise ValueError
        return fixed_time(datetime.fromisoformat(text.upper()))
    except (ValueError, OverflowError):
        raise ValueError("must be a time such as 2026-11-21T10:00:00Z") from None


TimeIn = Annotated[
    str,
    AfterValidator(_time),
    WithJsonSchema(
        {
            "type": "string",
            # As everywhere in a query, a parameter without a value counts as absent.
            "anyOf": [{"format": "date-time"}, {"maxLength": 0}],
            "examples": ["2026-11-21T10:00:00Z"],
        }
    ),
]


Severity = Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]


class LogsQuery(Query):
    """Which log lines."""

    project_env: Annotated[str, StringConstraints(max_length=64)] | None = None
    """The environment's name; optional when the project has one environment."""
    next_token: Annotated[str, StringConstraints(max_length=1024)] | None = None
    """The ``nextToken`` of the page before, with the same other parameters."""
    start: TimeIn | None = None
    """Only lines from this time on."""
    end: TimeIn | None = None
    """Only lines before this time."""
    search: Annotated[str, StringConstraints(max_length=200)] | None = None
    """Text to look for in message, error and fields, in upper or lower case."""
    severity: Severity | None = None
    """Only lines of this severity, or of a greater one: ERROR leaves out DEBUG, INFO and WARNING."""
    build: bool = False
    """What the checks of the project's versions found, in place of what its code wrote."""
    latest: bool = False
    """Only of the version that was deployed last (with ``build``: of the newest version)."""
    first: Annotated[int, Field(ge=1, le=1000)] = 100
    """How many lines, 1 to 1000."""
    order: Literal["asc", "desc"] = "desc"
    """Oldest first (asc) or newest first (desc)."""


class LogEntry(Rest):
    """One line of a log."""

    timestamp: TimeOut
    """When it was written."""
    severity: str
    """DEBUG, INFO, WARNING, ERROR or CRITICAL."""
    message: str
    """What it says."""
    error: str | None = None
    """The traceback, where there is one."""
    http_request: dict[str, Any] | None = None
    """The request that it is about."""
    fields: dict[str, Any] | None = None
    """What the code added, and the id of the execution."""


class LogPage(Rest):
    """A part of a project's log."""

    logs: list[LogEntry]
    """The lines; with ``search`` or ``severity`` a page may hold fewer than asked for, or none, and still have a next
    one."""
    next_token: str | None = None
    """Pass it as ``next_token`` for the next page; absent on the last."""
