"""How much an organisation's integrations do, in REST."""

from typing import Annotated

from pydantic import Field

from tieline_api.schemas.base import Query, Rest, TimeOut
from tieline_api.schemas.project_logs import TimeIn


class MetricsSummaryQuery(Query):
    """Which window of time."""

    start: TimeIn | None = None
    """Where the window starts; a day before its end when left out."""
    end: TimeIn | None = None
    """Where it ends; now when left out."""
    buckets: Annotated[int, Field(ge=1, le=500)] | None = None
    """In how many parts of equal length to answer the window as a ``series``, 1 to 500."""


class Comparison(Rest):
    """A number of a window of time, and that of the window of the same length before it."""

    current: int
    """Of the window."""
    past: int
    """Of the one before it."""


class MetricsBucket(Rest):
    """A part of the window."""

    start: TimeOut
    """When it starts."""
    executions: int
    """Runs that were queued in it."""
    errors: int
    """How many of them failed, or are dead letters."""


class MetricsSummary(Rest):
    """What an organisation's integrations did in a window of time."""

    deployed_projects: Comparison
    """Projects with an environment that is running now; ``past``: those with one that is there since before the
    window."""
    total_executions: Comparison
    """Runs that were queued in the window, whatever became of them."""
    total_errors: Comparison
    """How many of them failed, or are dead letters."""
    series: list[MetricsBucket] | None = None
    """The window in parts, where ``buckets`` asks for them."""


class Average(Rest):
    """An average in a window of time, and that in the window of the same length before it."""

    current: float
    """In the window."""
    past: float
    """In the one before it."""


class ProjectMetrics(Rest):
    """What a project's environments did."""

    total_executions: Comparison
    """Runs that were queued in the window, whatever became of them."""
    total_errors: Comparison
    """How many of them failed, or are dead letters."""
    average_latency: Average
    """Milliseconds from their start to their end, of those that have ended; 0 where none has."""


class ProjectsMetricsSummary(MetricsSummary):
    """What an organisation's integrations did in a window of time, also for each project."""

    items: dict[str, ProjectMetrics]
    """By the project's id. All projects are in it, also those without runs."""
