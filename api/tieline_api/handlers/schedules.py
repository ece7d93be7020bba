"""Schedules: listing them, running them now, and pausing them."""

import asyncio
from datetime import UTC, datetime

from tieline_api import errors
from tieline_api.auth.permissions import permission
from tieline_api.cluster.writer import refuse_removal
from tieline_api.conversion.schedules import ScheduleRequest, paused_schedules
from tieline_api.http.operation import AnyCall, Call, Operations, Reply
from tieline_api.schemas import schedules as rest
from tieline_api.state.schedules import RegisteredSchedule
from tieline_api.use_cases.schedule_requests import request_run
from tieline_api.views.activation_lookup import EnvironmentRef, activations_of, environment_object_in_path
from tieline_api.views.project_lookup import change_project, set_environment
from tieline_api.views.schedule_lookup import SCHEDULER, SCHEDULERS, SchedulesOfEnvironment
from tieline_core.identity.ids import new_id
from tieline_core.objects import Object
from tieline_core.resources.objects import ProjectObject
from tieline_core.resources.projects import MAX_PAUSED_SCHEDULES

_AT_ONCE = 8

OPERATIONS = Operations("Schedules")


@OPERATIONS.add(
    "GET",
    SCHEDULERS,
    id="listSchedulers",
    summary="List the schedules of an environment",
    permissions=permission("get", "projects"),
)
async def list_schedulers(call: Call[None, None]) -> Reply[rest.SchedulerList]:
    """Returns the schedules of the version that serves in an environment, by name: those that its pods have registered
    when they started. An environment to which nothing is deployed has none."""
    place = SchedulesOfEnvironment(call)
    gate = asyncio.Semaphore(_AT_ONCE)

    async def shown(schedule: RegisteredSchedule) -> rest.Scheduler:
        async with gate:
            return await place.scheduler(schedule)

    found = await asyncio.gather(*map(shown, await place.registered()))
    return Reply(body=rest.SchedulerList(sorted(found, key=lambda one: one.name)), warnings=place.warnings)


@OPERATIONS.add(
    "GET",
    SCHEDULER,
    id="getScheduler",
    summary="Get a schedule",
    permissions=permission("get", "projects"),
    conditional=True,
)
async def get_scheduler(call: Call[None, None]) -> Reply[rest.Scheduler]:
    """Returns a schedule."""
    place = SchedulesOfEnvironment(call)
    return await place.reply(await place.require())


@OPERATIONS.add(
    "POST",
    SCHEDULER,
    id="runScheduler",
    summary="Run a schedule now",
    permissions=permission("patch", "projects"),
    by_environment=environment_object_in_path,
    body_optional=True,
    success=204,
)
async def run_scheduler(call: Call[None, rest.RunNow]) -> Reply[None]:
    """Runs a schedule now: for one user, or without ``user`` as if it were due. It begins within seconds, after runs of
    the schedule that are under way, also while the schedule is paused. A run that was asked for already and has not
    begun is not added again. A request that no pod can begin with is forgotten after an hour."""
    place = SchedulesOfEnvironment(call)
    schedule = await place.require()
    place.require_running()
    wanted = ScheduleRequest(
        id=new_id(),
        environment=place.environment.name,
        schedule=schedule.name,
        at=datetime.now(UTC),
        user=_user(call, place.environment, schedule, user) if (user := call.body.user) is not None else None,
    )
    added = await request_run(call.platform, place.environment.project, wanted, place.progress)
    already = "This run is already requested and has not started yet: no second request was added"
    return Reply(warnings=() if added else (already,))


@OPERATIONS.add(
    "PUT",
    SCHEDULER,
    id="updateScheduler",
    summary="Pause a schedule, or resume it",
    permissions=permission("patch", "projects"),
    by_environment=environment_object_in_path,
    conditional=True,
)
async def update_scheduler(call: Call[None, rest.SchedulerUpdate]) -> Reply[rest.Scheduler]:
    """Pauses a schedule or resumes it, within seconds and for later versions of the code too. Due times of a paused
    schedule are skipped and not made up for. Runs that are under way go on."""
    place = SchedulesOfEnvironment(call)
    schedule = await place.require()
    known = {one.name for one in await place.registered()}
    environment, name = place.environment.name, schedule.name

    def change(live: ProjectObject, mine: Object) -> None:
        paused = set(paused_schedules(live, environment))
        if call.body.paused == (name in paused):
            return
        paused ^= {name}
        if len(paused) > MAX_PAUSED_SCHEDULES:
            paused &= known
        where = ("environments", {"name": environment}, "pausedSchedules")
        refuse_removal(live, where, what=f'pausedSchedules of environments["{environment}"]')
        set_environment(live, mine, environment, pausedSchedules=sorted(paused))
        if not paused:
            item = next(one for one in mine["spec"]["environments"] if one["name"] == environment)
            del item["pausedSchedules"]

    changed = await change_project(call, place.environment.project, change)
    place.environment = EnvironmentRef(project=changed, name=environment, id=place.environment.id)
    return await place.reply(schedule)


def _user(call: AnyCall, environment: EnvironmentRef, schedule: RegisteredSchedule, user: str) -> str:
    """The external id of a user; ApiError 422 where the schedule cannot run for that user."""
    if schedule.activations == "static":
        raise errors.invalid("user", "must be left out: the schedule runs for no user")
    found = call.platform.cluster.user(call.namespace, user)
    if found is None:
        raise errors.invalid("user", "is no user of this organisation: create the user first")
    if not activations_of(call, environment, found):
        raise errors.invalid("user", "has no activation on the environment: activate the user first")
    external_id: str = found["spec"]["externalId"]
    return external_id
