"""Finds what is wrong in an environment, in what others have found out already. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tieline_core.credentials.refusals import CONDITION
from tieline_core.credentials.validation.credential_findings import EXPIRED, REFUSED
from tieline_core.identity.ids import format_time
from tieline_core.resources.notifications import FailureRate, Incident, NotificationEvent
from tieline_core.resources.projects import EnvironmentState, EnvironmentStatus
from tieline_core.resources.releases import RolloutState
from tieline_operator.apply.conditions import find_condition
from tieline_operator.apply.plan import Object
from tieline_operator.reconcilers.notification.incidents import Detected, Detection

WINDOW_MINUTES = 15
"""The window in which failures are counted."""
POLL_SECONDS = 60.0
"""How often the run history is read."""
# A connection is as it should be again only by what a person does.
_UNAUTHORISED = frozenset({EXPIRED, REFUSED})
_MAX_DETAIL = 1500
# Whether these are over shows once the rollout under way has ended.
_ENDED_BY_A_ROLLOUT = frozenset({NotificationEvent.DEPLOY_FAILED, NotificationEvent.ENVIRONMENT_ERROR})


@dataclass(frozen=True, kw_only=True)
class DeadRun:
    """A run that became a dead letter."""

    id: str
    task: str
    error: str
    """The error's type. Its message may hold what the event held, and stays in the run."""


@dataclass(frozen=True, kw_only=True)
class RunCounts:
    """What became of an environment's runs within the window."""

    ended: int = 0
    failed: int = 0
    last_dead: DeadRun | None = None


@dataclass(frozen=True, kw_only=True)
class ObservedTarget:
    """An environment as a Notification sees it."""

    status: EnvironmentStatus | None
    """None where the environment does not exist, or was never seen."""
    connections: Sequence[Object] = ()
    """Those that its templates and activations use."""
    runs: RunCounts | None = None
    """None while nothing is known of its runs."""
    missed: Mapping[str, datetime] | None = None
    """Schedules that did not run, with the time when they were due; None while nothing is known of them."""
    awaits_dead_run: bool = False
    """Whether the newest dead run is likely to be known soon."""


def detect(
    target: ObservedTarget,
    events: frozenset[NotificationEvent],
    rate: FailureRate,
    incidents: Sequence[Incident],
) -> Detection:
    """What is wrong, of the ``events`` to report; ``incidents`` are those known so far."""
    found: list[Detected] = []
    unknown: set[NotificationEvent] = set()
    if target.status is not None:
        found += _of_status(target.status, target.runs, events, incidents)
        if target.status.rollout is RolloutState.PROGRESSING:
            unknown |= _ENDED_BY_A_ROLLOUT
        if target.awaits_dead_run:
            unknown.add(NotificationEvent.RUN_DEAD)
        found += _of_connections(target.connections)
        if target.runs is None:
            unknown.add(NotificationEvent.FAILURE_RATE)
        else:
            found += _of_runs(target.runs, rate)
        if target.missed is None:
            unknown.add(NotificationEvent.SCHEDULE_MISSED)
        else:
            found += _of_schedules(target.missed)
    known = events - unknown
    return Detection(found=[one for one in found if one.event in known], unknown=frozenset(unknown) & events)


def _of_status(
    status: EnvironmentStatus,
    runs: RunCounts | None,
    events: frozenset[NotificationEvent],
    incidents: Sequence[Incident],
) -> Iterator[Detected]:
    detail = status.message[:_MAX_DETAIL]
    if status.dead_letters:
        yield Detected(
            event=NotificationEvent.RUN_DEAD,
            message=f"{_at_least(status.dead_letters)} could not be processed and will not be tried again."
            + _named(runs.last_dead if runs else None),
        )
    if status.deploy_failure:
        keeps = f" Version {status.version} keeps serving." if status.version else " Nothing serves."
        version = f"Version {status.desired_version}" if status.desired_version else "The current files"
        yield Detected(
            event=NotificationEvent.DEPLOY_FAILED,
            # A failed deploy of another version is another incident.
            subject=status.desired_version or "",
            message=f"{version} could not be deployed ({status.deploy_failure}).{keeps}\n{detail}",
        )
    is_error = status.status is EnvironmentState.ERROR
    if is_error and not _is_told_as_deploy(status, events, incidents):
        yield Detected(
            event=NotificationEvent.ENVIRONMENT_ERROR, message=f"Nothing serves requests.\n{detail}"
        )


def _named(dead: DeadRun | None) -> str:
    return f" The last one is of {dead.task} (run {dead.id}): {dead.error}" if dead else ""


def _is_told_as_deploy(
    status: EnvironmentStatus, events: frozenset[NotificationEvent], incidents: Sequence[Incident]
) -> bool:
    """Whether the failed deploy is all that is wrong: the error did not come after it."""
    if not status.deploy_failure or NotificationEvent.DEPLOY_FAILED not in events:
        return False
    subject = status.desired_version or ""
    deploys = (one for one in incidents if one.event is NotificationEvent.DEPLOY_FAILED)
    deploy = next((one for one in deploys if one.subject == subject), None)
    return deploy is None or status.updated_at <= deploy.since


def _of_connections(connections: Sequence[Object]) -> Iterator[Detected]:
    for connection in connections:
        ready = find_condition(connection)
        if ready and ready["status"] == "False" and ready["reason"] in _UNAUTHORISED:
            yield Detected(
                event=NotificationEvent.AUTHORISATION_NEEDED,
                subject=connection["metadata"]["name"],
                message=f'Connection "{connection["spec"]["name"]}": {ready["message"][:_MAX_DETAIL]}',
            )
            continue
        accepted = find_condition(connection, CONDITION)
        if accepted and accepted["status"] == "False":
            yield Detected(
                event=NotificationEvent.AUTHORISATION_NEEDED,
                subject=connection["metadata"]["name"],
                message=f'Connection "{connection["spec"]["name"]}": {accepted["message"][:_MAX_DETAIL]}',
            )


def _of_runs(runs: RunCounts, rate: FailureRate) -> Iterator[Detected]:
    if runs.ended >= rate.minimum_runs and runs.failed * 100 > rate.percent * runs.ended:
        yield Detected(
            event=NotificationEvent.FAILURE_RATE,
            message=(
                f"{runs.failed} of {runs.ended} runs failed within {WINDOW_MINUTES} minutes "
                f"({runs.failed * 100 // runs.ended} %; the threshold is {rate.percent} %)."
            ),
        )


def _of_schedules(missed: Mapping[str, datetime]) -> Iterator[Detected]:
    for schedule, due in sorted(missed.items()):
        yield Detected(
            event=NotificationEvent.SCHEDULE_MISSED,
            subject=schedule,
            message=f'The schedule "{schedule}" was due at {format_time(due)} and did not run.',
        )


def _at_least(number: int) -> str:
    """The status has powers of ten."""
    return "An event" if number == 1 else f"At least {number} events"
