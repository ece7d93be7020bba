"""How the schedules of an environment are found and shown."""

import asyncio
import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tieline_api import errors
from tieline_api.conversion import projects as convert
from tieline_api.conversion.schedules import paused_schedules
from tieline_api.conversion.times import in_utc
from tieline_api.errors import ApiError
from tieline_api.handlers.activation_lookup import environment_in_path
from tieline_api.http.operation import ORGANISATION, Call, Reply
from tieline_api.runs.model import Run, RunFilter
from tieline_api.schemas import schedules as rest
from tieline_api.store.schedules import RegisteredSchedule, ScheduleProgress, ScheduleStore
from tieline_api.use_cases.project_lookup import versions_of
from tieline_api.use_cases.schedule_times import due_times
from tieline_core.identity.ids import child_id, format_time, parse_id
from tieline_core.identity.names import current_workload
from tieline_core.resources.projects import EnvironmentState

SCHEDULERS = f"{ORGANISATION}/environments/{{environment_id}}/schedulers"
SCHEDULER = f"{SCHEDULERS}/{{scheduler_id}}"


@dataclass
class SchedulesOfEnvironment:
    """The environment in the path, and its schedules."""

    call: Call[Any, Any]

    def __post_init__(self) -> None:
        self.environment = environment_in_path(self.call)
        self._store = self._of(self.environment.name)
        self._without_history = False

    @property
    def warnings(self) -> tuple[str, ...]:
        """What readers have to know about last runs."""
        platform = self.call.platform
        return platform.runs.warnings if platform.engine.configured else ()

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
        return Reply(body=shown, etag=f'"{version}-{digest}"', warnings=self.warnings)

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
        if self._without_history:
            return None
        try:
            return await self.call.platform.runs.newest(wanted)
        except ApiError:
            # Away, or not configured: what pods have written down is told all the same, and nobody waits again.
            self._without_history = True
            return None

    def _id(self, schedule: RegisteredSchedule) -> str:
        return schedule_id(self.environment.id, schedule.name)

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


def schedule_id(environment: str, schedule: str) -> str:
    """The id of a schedule, by its environment's id and its name."""
    return child_id(environment, f"schedule/{schedule}")


def _began(run: Run | None) -> datetime | None:
    nanoseconds = (run.started_at or run.queued_at) if run else None
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC) if nanoseconds is not None else None
