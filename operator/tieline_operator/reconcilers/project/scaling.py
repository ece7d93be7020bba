"""Whether an environment sleeps: a pure function of its work."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from tieline_core.resources.scaling import Scaling
from tieline_operator.engine.environment_work import EnvironmentWork

WAKE_AHEAD = timedelta(seconds=30)
"""How long before a timer or a schedule is due an environment wakes: pods take a few seconds to start."""
CURRENT = timedelta(minutes=4)
"""How old what is known of the work may be where an environment is to go to sleep."""
_SHORTEST_RECHECK, _LONGEST_RECHECK = 1.0, 30.0


@dataclass(frozen=True, kw_only=True)
class ObservedWork:
    """What decides whether an environment sleeps."""

    scaling: Scaling
    version: str
    """The version that it runs."""
    is_healthy: bool
    """Whether the version is healthy, and nothing else is to be deployed."""
    asleep: bool
    """Whether its Deployment has no pods."""
    serving_since: datetime | None
    """Since when all of its pods serve."""
    active_at: datetime | None
    """When it last had work, or somebody asked it to wake."""
    reported_at: datetime | None
    """When a pod last reported whether it works."""
    can_be_woken: bool
    """Whether there is an activator, and requests identify the environment by their host."""
    paused: Collection[str] = ()
    """Its paused schedules."""
    work: EnvironmentWork | None = None
    """What it has in the event engine; None while that is not known."""


@dataclass(frozen=True)
class Sleep:
    """What is decided."""

    asleep: bool
    recheck_after: float | None = None
    """Seconds until time alone may change it."""


AWAKE = Sleep(False)


def decide(observed: ObservedWork, now: datetime) -> Sleep:
    """Whether the environment sleeps. What is not known keeps it as it is: a pod that may work is not stopped."""
    if not observed.scaling.may_sleep or not observed.is_healthy or not observed.can_be_woken:
        return AWAKE
    idle = timedelta(seconds=observed.scaling.idle_seconds)
    due = _next_due(observed, now)
    ahead = WAKE_AHEAD if observed.asleep else max(idle, WAKE_AHEAD)
    since = max(filter(None, (observed.active_at, observed.serving_since)), default=None)
    is_active = since is not None and now - since < idle
    has_work = observed.work is not None and (observed.work.queued > 0 or observed.work.is_swept)
    is_due = due is not None and due - ahead <= now
    if is_active and since is not None:
        return _awake((since + idle - now).total_seconds())
    is_unknown = not observed.asleep and not _is_known_to_be_idle(observed, since, idle, now)
    if has_work or is_due or is_unknown:
        return _awake(min(idle.total_seconds(), _LONGEST_RECHECK))
    return Sleep(True, (due - WAKE_AHEAD - now).total_seconds() if due else None)


def _awake(recheck_after: float) -> Sleep:
    return Sleep(False, max(recheck_after, _SHORTEST_RECHECK))


def _next_due(observed: ObservedWork, now: datetime) -> datetime | None:
    return observed.work.next_due(observed.version, observed.paused, now) if observed.work else None


def _is_known_to_be_idle(
    observed: ObservedWork, since: datetime | None, idle: timedelta, now: datetime
) -> bool:
    """Whether pods serve, have reported lately, and what they left in the engine when they worked last is known."""
    work = observed.work
    return (
        observed.serving_since is not None
        and observed.reported_at is not None
        and now - observed.reported_at < idle
        and work is not None
        and work.knows(observed.version)
        and now - work.read_at < CURRENT
        and (since is None or work.read_at > since)
    )
