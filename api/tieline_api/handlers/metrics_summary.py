"""How much an organisation's integrations do, and how often they fail."""

import time
from collections.abc import Iterable, Mapping

from tieline_api import errors
from tieline_api.auth.permissions import permission
from tieline_api.conversion import runs as convert
from tieline_api.conversion.projects import environment_items, environment_status
from tieline_api.conversion.times import in_utc
from tieline_api.http.operation import ORGANISATION, Call, Operation, Reply
from tieline_api.runs.tally import BEFORE, Tally, Windows, current
from tieline_api.schemas import metrics_summary as rest
from tieline_core.objects import ObjectView
from tieline_core.resources.projects import EnvironmentState

_SECOND = 1_000_000_000
_DAY = 86400 * _SECOND


async def get_metrics_summary(call: Call[rest.MetricsSummaryQuery, None]) -> Reply:
    """Returns how many runs there were in a window of time, and how many of them failed, beside those of the window
    of the same length before it. Each run counts once, when it was queued; all of them count, unlike in lists."""
    windows = _windows(call.query)
    found = await call.platform.runs.tally(call.organisation.id, windows)
    body = rest.MetricsSummary(
        deployed_projects=_deployed(call.platform.world.ordered.projects.objects(call.namespace), windows),
        total_executions=_compared(found.executions),
        total_errors=_compared(found.errors),
        series=_series(found, windows) if call.query.buckets else None,
    )
    return Reply(body=body, warnings=call.platform.runs.warnings)


def _windows(query: rest.MetricsSummaryQuery) -> Windows:
    end = max(convert.nanoseconds(query.end), 0) if query.end else time.time_ns()
    start = convert.nanoseconds(query.start) if query.start else end - _DAY
    if start >= end:
        raise errors.invalid("start", "must be before end (now, when end is left out)")
    return Windows(start=max(start, 0), end=end, buckets=query.buckets or 1)


def _deployed(projects: Iterable[ObjectView], windows: Windows) -> rest.Comparison:
    since = [found for project in projects if (found := _running_since(project)) is not None]
    return rest.Comparison(current=len(since), past=sum(moment < windows.start for moment in since))


def _running_since(project: ObjectView) -> int | None:
    """When the oldest of a project's running environments came into being (nanoseconds); None without one."""
    seen = [environment_status(project, one["name"]) for one in environment_items(project)]
    created = [in_utc(one.get("createdAt")) for one in seen if one.get("status") == EnvironmentState.RUNNING]
    return min((int(one.timestamp()) * _SECOND for one in created if one is not None), default=None)


def _compared(counts: Mapping[int, int]) -> rest.Comparison:
    return rest.Comparison(current=current(counts), past=counts.get(BEFORE, 0))


def _series(found: Tally, windows: Windows) -> list[rest.MetricsBucket]:
    return [
        rest.MetricsBucket(
            start=convert.time_to_rest(windows.start + bucket * windows.width),
            executions=found.executions[bucket],
            errors=found.errors[bucket],
        )
        for bucket in range(windows.buckets)
    ]


_ROWS = (
    ("getMetricsSummary", f"{ORGANISATION}/metricssummary"),
    ("getProjectsMetricsSummary", f"{ORGANISATION}/projects/metricssummary"),
)
OPERATIONS = tuple(
    Operation(
        id=identifier,
        path=path,
        summary="Get how much ran and how much failed",
        handler=get_metrics_summary,
        permissions=permission("list", "projects"),
        response=rest.MetricsSummary,
    )
    for identifier, path in _ROWS
)
