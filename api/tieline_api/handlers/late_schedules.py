"""Schedules of an organisation that should have run, and did not."""

import asyncio
from datetime import UTC, datetime

from tieline_api.auth.permissions import permission
from tieline_api.http.operation import ORGANISATION, Call, Operations, Reply
from tieline_api.schemas import schedules as rest
from tieline_api.views.late_schedules import LateSchedule, late_schedules
from tieline_api.views.schedule_lookup import schedule_id
from tieline_core.identity.ids import format_time, object_id

OPERATIONS = Operations("Schedules")


@OPERATIONS.add(
    "GET",
    f"{ORGANISATION}/schedulers/late",
    id="listLateSchedulers",
    summary="List the schedules that did not run when they were due",
    permissions=permission("list", "projects"),
)
async def list_late_schedulers(call: Call[rest.LateQuery, None]) -> Reply[rest.LateSchedulerList]:
    """Returns the schedules whose due time passed more than five minutes ago without a run, over all projects: the one
    that waits longest first. Paused schedules and those of stopped environments are not among them. The answer is at
    most ten seconds old."""
    platform = call.platform
    progress = await platform.schedule_records.of_organisation(call.organisation.id)
    projects = platform.cluster.projects.list(call.namespace)
    found = await asyncio.to_thread(late_schedules, projects, progress, datetime.now(UTC))
    items = [_to_rest(one) for one in found[: call.query.first]]
    return Reply(body=rest.LateSchedulerList(items=items, total_count=len(found)))


def _to_rest(late: LateSchedule) -> rest.LateScheduler:
    return rest.LateScheduler(
        id=schedule_id(late.environment_id, late.name),
        name=late.name,
        project_id=object_id(late.project),
        project_name=late.project["spec"]["name"],
        environment_id=late.environment_id,
        environment_name=late.environment,
        missed=format_time(late.missed),
    )
