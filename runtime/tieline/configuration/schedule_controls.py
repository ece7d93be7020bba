"""What people have asked of schedules: those that are paused, and runs that are to begin now."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """Somebody asks for a schedule to run now."""

    id: str
    at: datetime
    """When it was asked for, in UTC."""
    user: str | None = None
    """The external id of the one user that it is to run for; None for all that the schedule is for."""


@dataclass(frozen=True, kw_only=True)
class ScheduleControls:
    """What is asked of an environment's schedules, by their names."""

    paused: frozenset[str] = frozenset()
    requests: Mapping[str, Sequence[RunRequest]] = field(default_factory=dict)
    """Those that were claimed are among them for a while."""


def parse_schedule_controls(body: Any) -> ScheduleControls:
    """What the configuration's ``schedules`` says. Entries of another shape are left out."""
    if not isinstance(body, dict):
        return ScheduleControls()
    paused, asked = body.get("paused"), body.get("requests")
    requests: dict[str, list[RunRequest]] = {}
    for item in asked if isinstance(asked, list) else ():
        if (request := _request(item)) is not None:
            requests.setdefault(item["schedule"], []).append(request)
    return ScheduleControls(
        paused=frozenset(name for name in paused if isinstance(name, str))
        if isinstance(paused, list)
        else frozenset(),
        requests=requests,
    )


def _request(item: Any) -> RunRequest | None:
    try:
        at = datetime.fromisoformat(item["at"])
        user = item.get("user")
        whole = isinstance(item["schedule"], str) and isinstance(item["id"], str) and at.tzinfo is not None
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    if not whole or not (user is None or isinstance(user, str)):
        return None
    return RunRequest(id=item["id"], at=at.astimezone(UTC), user=user)
