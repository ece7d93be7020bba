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
from tieline_api.http.operation import ORGANISATION, AnyCall, Reply
from tieline_api.runs.model import Run, RunFilter
from tieline_api.schemas import schedules as rest
from tieline_api.state.schedule_times import due_times
from tieline_api.state.schedules import RegisteredSchedule, ScheduleProgress, ScheduleStore
from tieline_api.views.activation_lookup import environment_in_path
from tieline_api.views.project_lookup import versions_of
from tieline_core.identity.ids import child_id, environment_id, format_time, object_id, parse_id
from tieline_core.resources.objects import (
    PartialEnvironmentSpecDict,
    PartialEnvironmentStatusDict,
)
from tieline_core.resources.projects import EnvironmentState

SCHEDULERS = f"{ORGANISATION}/environments/{{environment_id}}/schedulers"
SCHEDULER = f"{SCHEDULERS}/{{scheduler_id}}"


@dataclass
class SchedulesOfEnvironment:
    """The environment in the path, and its schedules."""

    call: AnyCall

    def __post_init__(self) -> None:
        self.environment = environment_in_path(self.call)
        self._store = self._of(self.environment.id)
        self._without_history = False

    @property
    def warnings(self) -> tuple[str, ...]:
        """What readers have to know about last runs."""
        return self.call.platform.runs.warnings(self.call.organisation.id)

    async def registered(self) -> list[RegisteredSchedule]:
        """The schedules of the first of ``scheduled_versions`` whose pods have reported any."""
        if self._is_draft:
            return []
        return await self._store.registered(scheduled_versions(self._item, self._status))

    async def require(self) -> RegisteredSchedule:
        """The schedule in the path. ApiError 404."""
        identifier = self.call.path["scheduler_id"]
        wanted = parse_id(identifier)
        for schedule in await self.registered():
            if self._id(schedule) == wanted:
                return schedule
        raise errors.not_found("schedule", identifier)

    def require_running(self) -> None:
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
        identifier = environment_id(object_id(self.environment.project), environment)
        return await self._of(identifier).progress(schedule)

    async def reply(self, schedule: RegisteredSchedule) -> Reply[rest.Scheduler]:
        """The answer about one schedule. If-Match is about the project, which has the pauses."""
        shown = await self.scheduler(schedule)
        digest = hashlib.sha256(shown.model_dump_json().encode()).hexdigest()[:32]
        version = self.environment.project["metadata"]["resourceVersion"]
        return Reply(body=shown, etag=f'"{version}-{digest}"', warnings=self.warnings)

    async def scheduler(self, schedule: RegisteredSchedule) -> rest.Scheduler:
        """A schedule as REST shows it."""
        environment, call = self.environment, self.call
        progress = await self._store.progress(schedule.name)
        run = await self._newest(schedule)
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
        fields = scheduler_fields(call.organisation.id, environment.id, schedule, progress, run)
        return rest.Scheduler(
            **fields, paused=paused, next_run=time_text(following), missed=time_text(missed)
        )

    async def _newest(self, schedule: RegisteredSchedule) -> Run | None:
        if self._without_history:
            return None
        try:
            return await self.call.platform.runs.newest(
                runs_of(self.call.organisation.id, self.environment.id, schedule.name)
            )
        except ApiError:
            # The history is away: the answer has what pods have written down, and does not wait for it again.
            self._without_history = True
            return None

    def _id(self, schedule: RegisteredSchedule) -> str:
        return schedule_id(self.environment.id, schedule.name)

    def _of(self, environment_id: str) -> ScheduleStore:
        return ScheduleStore(self.call.platform.documents, self.call.organisation.id, environment_id)

    @property
    def _item(self) -> Any:
        return convert.environment_item(self.environment.project, self.environment.name)

    @property
    def _status(self) -> Any:
        return convert.environment_status(self.environment.project, self.environment.name)

    @property
    def _is_draft(self) -> bool:
        versions = versions_of(self.call.platform.cluster, self.environment.project)
        return convert.served_version(self._item, self._status, versions) is None

    @property
    def _is_suspended(self) -> bool:
        return is_suspended(self._item, self._status)


def scheduled_versions(item: PartialEnvironmentSpecDict, status: PartialEnvironmentStatusDict) -> list[str]:
    """The versions whose schedules an environment has: the one that serves, then the one that is being deployed."""
    names = (status.get("version"), status.get("desiredVersion"), item.get("version"))
    return [name for name in names if name]


def is_suspended(item: PartialEnvironmentSpecDict, status: PartialEnvironmentStatusDict) -> bool:
    """Whether an environment is suspended, or is to be."""
    return bool(item.get("suspended")) or status.get("status") == EnvironmentState.SUSPENDED.value


def schedule_id(environment: str, schedule: str) -> str:
    """The id of a schedule, by its environment's id and its name."""
    return child_id(environment, f"schedule/{schedule}")


def runs_of(organisation: str, environment: str, schedule: str) -> RunFilter:
    """The runs of a schedule."""
    return RunFilter(organisation=organisation, environments=(environment,), kind="schedule", task=schedule)


def scheduler_fields(
    organisation: str,
    environment: str,
    schedule: RegisteredSchedule,
    progress: ScheduleProgress,
    run: Run | None,
) -> dict[str, Any]:
    """What REST shows of a schedule besides when it is due; ``run`` is its newest one."""
    identifier = schedule_id(environment, schedule.name)
    last = max(
        (one for one in (_began(run), progress.under_way, progress.ran) if one is not None), default=None
    )
    return {
        "id": identifier,
        "name": schedule.name,
        "schedule": schedule.cron,
        "url": SCHEDULER.format(
            organisation_id=organisation, environment_id=environment, scheduler_id=identifier
        ),
        "environment_id": environment,
        "timezone": schedule.timezone,
        "activations": schedule.activations,
        "last_run": time_text(last),
        "last_run_id": run.id if run else None,
        "last_run_status": run.status if run else None,
    }


def time_text(moment: datetime | None) -> str | None:
    """A time in REST."""
    return format_time(moment) if moment else None


def _began(run: Run | None) -> datetime | None:
    nanoseconds = (run.started_at or run.queued_at) if run else None
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC) if nanoseconds is not None else None
