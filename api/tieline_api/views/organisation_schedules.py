"""The schedules of a whole organisation, the next one that is due first."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from tieline_api.conversion.projects import Versions, environment_items, environment_status, served_version
from tieline_api.conversion.schedules import paused_schedules
from tieline_api.conversion.times import in_utc
from tieline_api.cursors import Position
from tieline_api.state.schedule_times import due_times
from tieline_api.state.schedules import (
    ProgressByEnvironment,
    RegisteredByEnvironment,
    RegisteredSchedule,
    ScheduleProgress,
)
from tieline_api.views.schedule_lookup import is_suspended, schedule_id, scheduled_versions
from tieline_core.identity.ids import environment_id, format_time, object_id
from tieline_core.resources.objects import ProjectObject

_NOT_DUE = "~"
"""Stands after every time."""


@dataclass(frozen=True, kw_only=True)
class PlacedSchedule:
    """A schedule, where it is, and when it is due."""

    project: ProjectObject
    environment: str
    """Its name."""
    environment_id: str
    schedule: RegisteredSchedule
    progress: ScheduleProgress
    paused: bool
    next: datetime | None
    missed: datetime | None

    @property
    def id(self) -> str:
        """The schedule's id."""
        return schedule_id(self.environment_id, self.schedule.name)

    @property
    def position(self) -> Position:
        """Where it stands: what is due next comes first, and what is not due at all last."""
        return format_time(self.next) if self.next else _NOT_DUE, self.id


def organisation_schedules(
    projects: Sequence[ProjectObject],
    registered: RegisteredByEnvironment,
    progress: ProgressByEnvironment,
    versions_of: Callable[[ProjectObject], Versions],
    now: datetime,
) -> list[PlacedSchedule]:
    """The schedules of the versions that serve, in the order of their next runs."""
    found = [
        one for project in projects for one in _of_project(project, registered, progress, versions_of, now)
    ]
    return sorted(found, key=lambda one: one.position)


def matching(
    schedules: Sequence[PlacedSchedule], *, search: str | None, environment: str | None = None
) -> list[PlacedSchedule]:
    """Those in environments with a name, whose name, project or environment has the text."""
    wanted = (search or "").casefold()
    return [
        one
        for one in schedules
        if environment in (None, one.environment)
        and any(
            wanted in text.casefold()
            for text in (one.schedule.name, one.project["spec"]["name"], one.environment)
        )
    ]


def _of_project(
    project: ProjectObject,
    registered: RegisteredByEnvironment,
    progress: ProgressByEnvironment,
    versions_of: Callable[[ProjectObject], Versions],
    now: datetime,
) -> Iterator[PlacedSchedule]:
    for item in environment_items(project):
        name = item["name"]
        identifier = environment_id(object_id(project), name)
        known = registered.get(identifier)
        status = environment_status(project, name)
        if not known or served_version(item, status, versions_of(project)) is None:
            continue
        stopped = is_suspended(item, status)
        paused = paused_schedules(project, name)
        deployed_at = in_utc(status.get("deployedAt"))
        of_environment = progress.get(identifier, {})
        reported = next((one for one in scheduled_versions(item, status) if one in known), None)
        for schedule in known[reported] if reported else ():
            so_far = of_environment.get(schedule.name, ScheduleProgress())
            following, missed = None, None
            if not stopped and schedule.name not in paused:
                following, missed = due_times(schedule, so_far, now, deployed_at=deployed_at)
            yield PlacedSchedule(
                project=project,
                environment=name,
                environment_id=identifier,
                schedule=schedule,
                progress=so_far,
                paused=schedule.name in paused,
                next=following,
                missed=missed,
            )
