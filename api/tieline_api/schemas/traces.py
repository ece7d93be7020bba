"""Traces of projects in REST."""

from typing import Annotated

from pydantic import Field, StringConstraints

from tieline_api.schemas.base import Query, Rest, TimeOut
from tieline_api.schemas.project_logs import TimeIn


class TracesQuery(Query):
    """Which runs."""

    project_env: Annotated[str, StringConstraints(max_length=64)] | None = None
    """The environment's name; optional when the project has one environment."""
    next_token: Annotated[str, StringConstraints(max_length=1024)] | None = None
    """The ``nextToken`` of the page before, with the same other parameters."""
    start: TimeIn | None = None
    """Only runs that began from this time on."""
    end: TimeIn | None = None
    """Only runs that began before this time."""
    filter: Annotated[str, StringConstraints(max_length=2000)] | None = None
    """``attribute:value`` pairs separated by spaces, all of which some span of the trace must have exactly;
    what holds spaces goes in double quotes. ``executionId`` and ``task`` are those of the run."""
    error: bool | None = None
    """Only runs that failed (true), or that did not (false). A run that copes with a failed request has not failed."""
    task: Annotated[str, StringConstraints(max_length=128)] | None = None
    """Only runs of this webhook or schedule."""
    first: Annotated[int, Field(ge=1, le=1000)] = 100
    """How many runs, 1 to 1000."""


class SpanStatus(Rest):
    """How a span ended."""

    code: str
    """UNSET, OK or ERROR."""
    message: str | None = None
    """What went wrong."""


class RunError(Rest):
    """What a run failed by."""

    type: str | None = None
    """The exception's type, where there was one."""
    message: str
    """What went wrong; the log has all of it under the execution's id."""


class RunUser(Rest):
    """The user that a run was for."""

    external_id: str
    """The user's id in the customer's own application."""


class TraceItem(Rest):
    """One run: the span that it began with."""

    trace_id: str
    """The trace: 32 hexadecimal digits."""
    span_id: str
    """The span that the run began with: 16 hexadecimal digits."""
    name: str
    """The span's name."""
    service_name: str
    """The service that the span was made by."""
    start_time: TimeOut
    """When it began."""
    duration: float
    """How long it took, in milliseconds."""
    status: SpanStatus
    """How the run ended: ERROR when it failed."""
    error: RunError | None = None
    """What it failed by; absent when it did not."""
    user: RunUser | None = None
    """Whom it was for; absent for runs of the static activation."""
    activation_id: str | None = None
    """The activation that it was for."""
    execution_id: str | None = None
    """The run's id, as in logs and in answers."""


class TracePage(Rest):
    """A part of a project's runs, newest first."""

    items: list[TraceItem]
    """The runs; with ``filter`` or ``error`` a page may hold fewer than asked for, or none, and still have a
    next one."""
    next_token: str | None = None
    """Pass it as ``next_token`` for the next page; absent on the last."""


class SpanAttribute(Rest):
    """Something that is known about a span."""

    key: str
    """Its name."""
    value: str
    """Its value; what is no text is written as JSON."""


class TraceSpan(Rest):
    """One span of a trace."""

    span_id: str
    """16 hexadecimal digits."""
    parent_span_id: str | None = None
    """The span that it is a part of; it may belong to a system elsewhere."""
    name: str
    """What was done."""
    start_time: TimeOut
    """When it began."""
    end_time: TimeOut
    """When it ended."""
    attributes: list[SpanAttribute]
    """What is known about it."""
    status: SpanStatus
    """How it ended."""


class Trace(Rest):
    """All spans of a trace, in the order of their start."""

    trace_id: str
    """32 hexadecimal digits."""
    spans: list[TraceSpan]
    """The spans."""
