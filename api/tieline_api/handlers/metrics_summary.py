"""How much an organisation's integrations do, and how often they fail."""

import time
from collections.abc import Iterable, Mapping

from tieline_api import errors
from tieline_api.auth.permissions import permission
from tieline_api.conversion import runs as convert
from tieline_api.conversion.projects import environment_items, environment_status
from tieline_api.conversion.times import in_utc
from tieline_api.http.operation import ORGANISATION, Call, Operations, Reply
from tieline_api.runs.tally import BEFORE, Tally, Totals, Windows, current
from tieline_api.schemas import metrics_summary as rest
from tieline_core.identity.ids import environment_id, object_id
from tieline_core.resources.objects import ProjectObject
from tieline_core.resources.projects import EnvironmentState

_SECOND = 1_000_000_000
_DAY = 86400 * _SECOND

OPERATIONS = Operations("Runs and events")


@OPERATIONS.add(
    "GET",
    f"{ORGANISATION}/metricssummary",
    id="getMetricsSummary",
    summary="Get how much ran and how much failed",
    permissions=permission("list", "projects"),
)
async def get_metrics_summary(call: Call[rest.MetricsSummaryQuery, None]) -> Reply[rest.MetricsSummary]:
    """Returns how many runs there were in a window of time, and how many of them failed, beside those of the window
    of the same length before it. Each run counts once, when it was queued; all of them count, unlike in lists."""
    summary, _ = await _summary(call)
    return Reply(body=summary, warnings=call.platform.runs.warnings(call.organisation.id))


@OPERATIONS.add(
    "GET",
    f"{ORGANISATION}/projects/metricssummary",
    id="getProjectsMetricsSummary",
    summary="Get how much ran and how much failed, by project",
    permissions=permission("list", "projects"),
)
async def get_projects_metrics_summary(
    call: Call[rest.MetricsSummaryQuery, None],
) -> Reply[rest.ProjectsMetricsSummary]:
    """Returns what getMetricsSummary returns, and the numbers of each project with the average latency of its runs."""
    summary, found = await _summary(call)
    projects = call.platform.cluster.ordered.projects.objects(call.namespace)
    items = {object_id(project): _of_project(project, found) for project in projects}
    body = rest.ProjectsMetricsSummary(**dict(summary), items=items)
    return Reply(body=body, warnings=call.platform.runs.warnings(call.organisation.id))


async def _summary(call: Call[rest.MetricsSummaryQuery, None]) -> tuple[rest.MetricsSummary, Tally]:
    windows = _windows(call.query)
    found = await call.platform.runs.tally(call.organisation.id, windows)
    summary = rest.MetricsSummary(
        deployed_projects=_deployed(call.platform.cluster.ordered.projects.objects(call.namespace), windows),
        total_executions=_compared(found.executions),
        total_errors=_compared(found.errors),
        series=_series(found, windows) if call.query.buckets else None,
    )
    return summary, found


def _of_project(project: ProjectObject, found: Tally) -> rest.ProjectMetrics:
    ids = [environment_id(object_id(project), one["name"]) for one in environment_items(project)]
    none = Totals()
    now = sum((found.within.get(one, none) for one in ids), none)
    past = sum((found.before.get(one, none) for one in ids), none)
    return rest.ProjectMetrics(
        total_executions=rest.Comparison(current=now.executions, past=past.executions),
        total_errors=rest.Comparison(current=now.errors, past=past.errors),
        average_latency=rest.Average(current=now.latency, past=past.latency),
    )


def _windows(query: rest.MetricsSummaryQuery) -> Windows:
    end = max(convert.nanoseconds(query.end), 0) if query.end else time.time_ns()
    start = convert.nanoseconds(query.start) if query.start else end - _DAY
    if start >= end:
        raise errors.invalid("start", "must be before end (now, when end is left out)")
    return Windows(start=max(start, 0), end=end, buckets=query.buckets or 1)


def _deployed(projects: Iterable[ProjectObject], windows: Windows) -> rest.Comparison:
    since = [found for project in projects if (found := _running_since(project)) is not None]
    return rest.Comparison(current=len(since), past=sum(moment < windows.start for moment in since))


def _running_since(project: ProjectObject) -> int | None:
    """When the oldest of a project's running environments came into being (nanoseconds); None without one."""
    seen = [environment_status(project, one["name"]) for one in environment_items(project)]
    created = [
        in_utc(one.get("createdAt")) for one in seen if one.get("status") == EnvironmentState.RUNNING.value
    ]
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
