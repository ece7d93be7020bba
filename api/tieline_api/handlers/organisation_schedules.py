"""The schedules of all projects of an organisation."""

import asyncio
from datetime import UTC, datetime

from tieline_api import cursors
from tieline_api.auth.permissions import permission
from tieline_api.errors import ApiError
from tieline_api.http.operation import ORGANISATION, AnyCall, Call, Operations, Reply
from tieline_api.runs.model import Run
from tieline_api.schemas import schedules as rest
from tieline_api.views.organisation_schedules import PlacedSchedule, matching, organisation_schedules
from tieline_api.views.project_lookup import versions_of
from tieline_api.views.schedule_lookup import runs_of, scheduler_fields, time_text
from tieline_core.identity.ids import object_id

_AT_ONCE = 8

OPERATIONS = Operations("Schedules")


@OPERATIONS.add(
    "GET",
    f"{ORGANISATION}/schedulers",
    id="listOrganisationSchedulers",
    summary="List the schedules of all projects, next due first",
    permissions=permission("list", "projects"),
)
async def list_organisation_schedulers(
    call: Call[rest.SchedulersQuery, None],
) -> Reply[rest.OrganisationSchedulerPage]:
    """Returns a page of the schedules of all environments, each with its last run: next due first, paused and suspended
    ones last. Reports of pods are at most ten seconds old."""
    platform, query, organisation = call.platform, call.query, call.organisation.id
    registered, progress = await asyncio.gather(
        platform.schedule_records.registered(organisation),
        platform.schedule_records.of_organisation(organisation),
    )
    projects = [
        one
        for one in platform.cluster.projects.list(call.namespace)
        if query.project_id in (None, object_id(one))
    ]
    found = await asyncio.to_thread(
        organisation_schedules,
        projects,
        registered,
        progress,
        lambda project: versions_of(platform.cluster, project),
        datetime.now(UTC),
    )
    wanted = matching(found, search=query.search, environment=query.project_env)
    page = cursors.cut_sorted(wanted, kind="schedules", position=lambda one: one.position, **query.window)
    runs = await _newest_runs(call, page.items)
    items = [_to_rest(organisation, one, run) for one, run in zip(page.items, runs, strict=True)]
    body = rest.OrganisationSchedulerPage(total_count=page.total, items=items, next=page.next, prev=page.prev)
    return Reply(body=body, warnings=platform.runs.warnings(organisation))


async def _newest_runs(call: AnyCall, schedules: list[PlacedSchedule]) -> list[Run | None]:
    """The newest run of each; none while the history is away."""
    gate = asyncio.Semaphore(_AT_ONCE)
    is_away = False

    async def newest(one: PlacedSchedule) -> Run | None:
        nonlocal is_away
        async with gate:
            if is_away:
                return None
            wanted = runs_of(call.organisation.id, one.environment_id, one.schedule.name)
            try:
                return await call.platform.runs.newest(wanted)
            except ApiError:
                is_away = True
                return None

    return await asyncio.gather(*map(newest, schedules))


def _to_rest(organisation: str, one: PlacedSchedule, run: Run | None) -> rest.OrganisationScheduler:
    fields = scheduler_fields(organisation, one.environment_id, one.schedule, one.progress, run)
    return rest.OrganisationScheduler(
        **fields,
        paused=one.paused,
        next_run=time_text(one.next),
        missed=time_text(one.missed),
        project_id=object_id(one.project),
        project_name=one.project["spec"]["name"],
        environment_name=one.environment,
    )
