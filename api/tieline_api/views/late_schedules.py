"""Schedules of a whole organisation that should have run, and did not."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tieline_api.conversion.projects import environment_items, environment_status
from tieline_api.conversion.schedules import paused_schedules
from tieline_api.conversion.times import in_utc
from tieline_api.state.schedule_times import missed_time
from tieline_api.state.schedules import ProgressByEnvironment, ScheduleProgress
from tieline_core.identity.ids import environment_id, object_id
from tieline_core.resources.objects import ProjectObject
from tieline_core.resources.projects import EnvironmentState

_STOPPED = frozenset({EnvironmentState.DRAFT, EnvironmentState.SUSPENDED})


@dataclass(frozen=True, kw_only=True)
class LateSchedule:
    """A schedule whose due time has passed without a run."""

    project: ProjectObject
    environment: str
    """Its name."""
    environment_id: str
    name: str
    missed: datetime
    """The due time, in UTC."""


def late_schedules(
    projects: Sequence[ProjectObject], progress: ProgressByEnvironment, now: datetime
) -> list[LateSchedule]:
    """Those that are late, the one that waits longest first."""
    found = [one for project in projects for one in _of_project(project, progress, now)]
    return sorted(found, key=lambda one: (one.missed, one.environment_id, one.name))


def _of_project(
    project: ProjectObject, progress: ProgressByEnvironment, now: datetime
) -> Iterator[LateSchedule]:
    for item in environment_items(project):
        identifier = environment_id(object_id(project), item["name"])
        schedules = progress.get(identifier)
        status = environment_status(project, item["name"])
        if not schedules or item.get("suspended") or status.get("status") in _STOPPED:
            continue
        paused = paused_schedules(project, item["name"])
        deployed_at = in_utc(status.get("deployedAt"))
        for name, missed in _missed(schedules, now, deployed_at):
            if name not in paused:
                yield LateSchedule(
                    project=project,
                    environment=item["name"],
                    environment_id=identifier,
                    name=name,
                    missed=missed,
                )


def _missed(
    schedules: Mapping[str, ScheduleProgress], now: datetime, deployed_at: datetime | None
) -> Iterator[tuple[str, datetime]]:
    for name, progress in schedules.items():
        missed = missed_time(progress, now, deployed_at=deployed_at)
        if missed is not None:
            yield name, missed
