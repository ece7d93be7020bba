"""What people ask of schedules: pauses in the spec of a Project, and runs to begin now in an annotation of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import orjson

from tieline_api.conversion.projects import environment_item
from tieline_core.identity.ids import format_time, parse_time
from tieline_core.objects import Json
from tieline_core.resources.objects import ProjectObject

REQUESTS = "tieline.dev/schedule-requests"
"""The annotation of a Project with the runs that people asked for, as JSON."""
REQUEST_LASTS = timedelta(hours=1)
"""A request that no pod could begin with for so long is forgotten; pods keep to the same time."""


@dataclass(frozen=True, kw_only=True)
class ScheduleRequest:
    """A run that somebody asked for."""

    id: str
    environment: str
    schedule: str
    at: datetime
    user: str | None = None
    """The external id of the one user that it is for."""

    def same_run(self, other: "ScheduleRequest") -> bool:
        """Whether both ask for the same."""
        return (self.environment, self.schedule, self.user) == (other.environment, other.schedule, other.user)


def requests_of(project: ProjectObject) -> list[ScheduleRequest]:
    """The runs that were asked for, oldest first. What is no such thing is left out: anybody may annotate."""
    text = (project["metadata"].get("annotations") or {}).get(REQUESTS) or "[]"
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return []
    requests = [_request(item) for item in found] if isinstance(found, list) else []
    return sorted((one for one in requests if one is not None), key=lambda one: (one.at, one.id))


def requests_text(requests: Sequence[ScheduleRequest]) -> str:
    """The annotation's value."""
    return orjson.dumps([{"environment": one.environment, **_for_pods(one)} for one in requests]).decode()


def paused_schedules(project: ProjectObject, environment: str) -> list[str]:
    """The names of an environment's schedules that are paused."""
    return list(environment_item(project, environment).get("pausedSchedules") or ())


def schedule_controls(project: ProjectObject, environment: str) -> Json:
    """What pods of an environment receive."""
    return {
        "paused": sorted(paused_schedules(project, environment)),
        "requests": [_for_pods(one) for one in requests_of(project) if one.environment == environment],
    }


def _for_pods(request: ScheduleRequest) -> Json:
    return {
        "id": request.id,
        "schedule": request.schedule,
        "at": format_time(request.at),
        **({"user": request.user} if request.user is not None else {}),
    }


def _request(item: Any) -> ScheduleRequest | None:
    try:
        user = item.get("user")
        texts = (item["id"], item["environment"], item["schedule"], *(() if user is None else (user,)))
        if not all(isinstance(text, str) for text in texts):
            return None
        at = parse_time(item["at"])
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    return ScheduleRequest(
        id=item["id"], environment=item["environment"], schedule=item["schedule"], at=at, user=user
    )
