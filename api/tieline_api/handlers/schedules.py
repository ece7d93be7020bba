"""Schedules: listing them, running them now, and pausing them."""

import asyncio
import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tieline_api import errors
from tieline_api.auth.permissions import permission
from tieline_api.conversion import projects as convert
from tieline_api.conversion.schedules import ScheduleRequest, paused_schedules
from tieline_api.conversion.times import in_utc
from tieline_api.engine.errors import EngineUnavailableError
from tieline_api.handlers.activation_lookup import EnvironmentRef, activations_of, environment_in_path
from tieline_api.http.operation import ORGANISATION, Call, Operation, Reply
from tieline_api.runs.model import Run, RunFilter
from tieline_api.schemas import schedules as rest
from tieline_api.store.schedules import RegisteredSchedule, ScheduleProgress, ScheduleStore
from tieline_api.store.writer import refuse_removal
from tieline_api.use_cases.project_lookup import change_project, set_environment, versions_of
from tieline_api.use_cases.schedule_requests import request_run
from tieline_api.use_cases.schedule_times import due_times
from tieline_core.identity.ids import child_id, format_time, new_id, parse_id
from tieline_core.identity.names import current_workload
from tieline_core.objects import Object
from tieline_core.resources.projects import MAX_PAUSED_SCHEDULES, EnvironmentState

SCHEDULERS = f"{ORGANISATION}/environments/{{environment_id}}/schedulers"
SCHEDULER = f"{SCHEDULERS}/{{scheduler_id}}"
_AT_ONCE = 8


async def list_schedulers(call: Call[None, None]) -> Reply:
    """Returns the schedules of the version that serves in an environment, by name: those that its pods have told of
    when they started. An environment to which nothing is deployed has none."""
    place = _Place(call)
    gate = asyncio.Semaphore(_AT_ONCE)

    async def shown(schedule: RegisteredSchedule) -> rest.Scheduler:
        async with gate:
            return await place.scheduler(schedule)

    found = await asyncio.gather(*map(shown, await place.registered()))
    return Reply(
        body=rest.SchedulerList(sorted(found, key=lambda one: one.name)), warnings=call.platform.runs.warnings
    )


async def get_scheduler(call: Call[None, None]) -> Reply:
    """Returns a schedule."""
    place = _Place(call)
    return await place.reply(await place.need())


async def run_scheduler(call: Call[None, rest.RunNow]) -> Reply:
    """Runs a schedule now: for one user, or without ``user`` as if it were due. It begins within seconds, after runs of
    the schedule that are under way, also while the schedule is paused. A run that was asked for already and has not
    begun is not added again. A request that no pod can begin with is forgotten after an hour."""
    place = _Place(call)
    schedule = await place.need()
    place.need_running()
    wanted = ScheduleRequest(
        id=new_id(),
        environment=place.environment.name,
        schedule=schedule.name,
        at=datetime.now(UTC),
        user=_user(call, place.environment, schedule) if call.body.user is not None else None,
    )
    added = await request_run(call.platform, place.environment.project, wanted, place.progress)
    already = "This run was asked for already and has not begun yet: nothing was added"
    return Reply(warnings=() if added else (already,))


async def update_scheduler(call: Call[None, rest.SchedulerUpdate]) -> Reply:
    """Pauses a schedule or resumes it, within seconds and for later versions of the code too. Due times of a paused
    schedule are skipped and not made up for. Runs that are under way go on."""
    place = _Place(call)
    schedule = await place.need()
    known = {one.name for one in await place.registered()}
    environment, name = place.environment.name, schedule.name

    def change(live: Object, mine: Object) -> None:
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


def _user(call: Call[Any, Any], environment: EnvironmentRef, schedule: RegisteredSchedule) -> str:
    """The external id of the user in the body; ApiError 422 where the schedule cannot run for that user."""
    if schedule.activations == "static":
        raise errors.invalid("user", "must be left out: the schedule runs for no user")
    found = call.platform.world.user(call.namespace, call.body.user)
    if found is None:
        raise errors.invalid("user", "is no user of this organisation: create the user first")
    if not activations_of(call, environment, found):
        raise errors.invalid("user", "has no activation on the environment: activate the user first")
    external_id: str = found["spec"]["externalId"]
    return external_id


@dataclass
class _Place:
    """The environment in the path, and its schedules."""

    call: Call[Any, Any]

    def __post_init__(self) -> None:
        self.environment = environment_in_path(self.call)
        self._store = self._of(self.environment.name)

    async def registered(self) -> list[RegisteredSchedule]:
        """The schedules of the version that serves; until its pods have told of any, of the one that shall."""
        if self._is_draft:
            return []
        item, status = self._item, self._status
        versions = (status.get("version"), status.get("desiredVersion"), item.get("version"))
        return await self._store.registered([name for name in versions if name])

    async def need(self) -> RegisteredSchedule:
        """The schedule in the path. ApiError 404."""
        identifier = self.call.path["scheduler_id"]
        wanted = parse_id(identifier)
        for schedule in await self.registered():
            if self._id(schedule) == wanted:
                return schedule
        raise errors.not_found("schedule", identifier)

    def need_running(self) -> None:
        """ApiError 409 where no pod would run anything."""
        if self._is_draft:
            raise errors.conflict(
                f'Nothing is deployed to the environment "{self.environment.name}" yet: deploy it first'
            )
        if self._is_suspended:
            raise errors.conflict(
                f'The environment "{self.environment.name}" is suspended: deploy it to start it again'
            )

    async def progress(self, environment: str, schedule: str) -> ScheduleProgress:
        """How far a schedule of any of the project's environments is."""
        return await self._of(environment).progress(schedule)

    async def reply(self, schedule: RegisteredSchedule) -> Reply:
        """The answer about one schedule. If-Match is about the project, which has the pauses."""
        shown = await self.scheduler(schedule)
        digest = hashlib.sha256(shown.model_dump_json().encode()).hexdigest()[:32]
        version = self.environment.project["metadata"]["resourceVersion"]
        return Reply(body=shown, etag=f'"{version}-{digest}"', warnings=self.call.platform.runs.warnings)

    async def scheduler(self, schedule: RegisteredSchedule) -> rest.Scheduler:
        """A schedule as REST shows it."""
        environment, call = self.environment, self.call
        identifier = self._id(schedule)
        progress = await self._store.progress(schedule.name)
        run = await self._newest(schedule)
        last = max(
            (one for one in (_began(run), progress.under_way, progress.ran) if one is not None), default=None
        )
        paused = schedule.name in paused_schedules(environment.project, environment.name)
        stopped = paused or self._is_suspended
        following, missed = None, None
        if not stopped:
            following, missed = await asyncio.to_thread(
                due_times,
                schedule,
                progress,
                datetime.now(UTC),
                deployed_at=in_utc(self._status.get("deployedAt")),
            )
        path = SCHEDULER.format(
            organisation_id=call.organisation.id, environment_id=environment.id, scheduler_id=identifier
        )
        return rest.Scheduler(
            id=identifier,
            name=schedule.name,
            schedule=schedule.cron,
            url=path,
            environment_id=environment.id,
            timezone=schedule.timezone,
            activations=schedule.activations,
            paused=paused,
            next_run=format_time(following) if following else None,
            last_run=format_time(last) if last else None,
            last_run_id=run.id if run else None,
            last_run_status=run.status if run else None,
            missed=format_time(missed) if missed else None,
        )

    async def _newest(self, schedule: RegisteredSchedule) -> Run | None:
        wanted = RunFilter(
            organisation=self.call.organisation.id,
            environments=(self.environment.id,),
            kind="schedule",
            task=schedule.name,
        )
        try:
            return await self.call.platform.runs.newest(wanted)
        except EngineUnavailableError:
            return None

    def _id(self, schedule: RegisteredSchedule) -> str:
        return child_id(self.environment.id, f"schedule/{schedule.name}")

    def _of(self, environment: str) -> ScheduleStore:
        project, call = self.environment.project, self.call
        workload = current_workload(project, environment)
        return ScheduleStore(call.platform.documents, call.organisation.id, project, environment, workload)

    @property
    def _item(self) -> Any:
        items = convert.environment_items(self.environment.project)
        return next(one for one in items if one["name"] == self.environment.name)

    @property
    def _status(self) -> Any:
        return convert.environment_status(self.environment.project, self.environment.name)

    @property
    def _is_draft(self) -> bool:
        versions = versions_of(self.call.platform.world, self.environment.project)
        return convert.served_version(self._item, self._status, versions) is None

    @property
    def _is_suspended(self) -> bool:
        return bool(self._item.get("suspended")) or self._status.get("status") == EnvironmentState.SUSPENDED


def _began(run: Run | None) -> datetime | None:
    nanoseconds = (run.started_at or run.queued_at) if run else None
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC) if nanoseconds is not None else None


OPERATIONS = (
    Operation(
        id="listSchedulers",
        path=SCHEDULERS,
        summary="List the schedules of an environment",
        handler=list_schedulers,
        permissions=permission("get", "projects"),
        response=rest.SchedulerList,
    ),
    Operation(
        id="getScheduler",
        path=SCHEDULER,
        summary="Get a schedule",
        handler=get_scheduler,
        permissions=permission("get", "projects"),
        response=rest.Scheduler,
        conditional=True,
    ),
    Operation(
        id="runScheduler",
        method="POST",
        path=SCHEDULER,
        summary="Run a schedule now",
        handler=run_scheduler,
        permissions=permission("patch", "projects"),
        body_optional=True,
        success=204,
    ),
    Operation(
        id="updateScheduler",
        method="PUT",
        path=SCHEDULER,
        summary="Pause a schedule, or resume it",
        handler=update_scheduler,
        permissions=permission("patch", "projects"),
        response=rest.Scheduler,
        conditional=True,
    ),
)
