"""Computes an environment's status from what is desired and what is there. Pure.

"Serving" is a ready pod. `running` is kept while anything serves, even an older version during a rollout
or after a newer one failed; `suspended` comes only when no pod is left; `error` when something should
serve and nothing does, with the reason in the message. `draft` is also a version that is being rolled out where none
serves: the first one, and one that follows a version that failed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from tieline_core.identity.ids import format_time
from tieline_core.resources.projects import EnvironmentState, EnvironmentStatus
from tieline_operator.apply.plan import Object, Outcome, earliest, failed, in_progress, ready
from tieline_operator.engine.queue_levels import EMPTY, QueueLevel
from tieline_operator.workload.pods import (
    UNSCHEDULABLE_SECONDS,
    Failure,
    Pod,
    rollout_complete,
    rollout_failure,
)

_MAX_MESSAGE = 8192
_LONG_MINUTES = 10
"""How long the oldest event may be queued before the message says so."""
# A restart is reported for this long after the pod serves again.
_NOTICE_SECONDS = 600


@dataclass(frozen=True, kw_only=True)
class DesiredEnvironment:
    """The desired state of an environment, from the spec."""

    name: str
    id: str
    workload: str = ""
    """The name of its objects."""
    draft: bool = False
    """No version was ever chosen: there is no workload."""
    suspended: bool = False
    replicas: int = 1
    version: str | None = None
    """The version that should serve."""
    revision: str | None = None
    """The revision of the desired pod template; None where there is none."""
    problem: Failure | None = None
    """Why the version cannot be rolled out (it was refused, or does not exist)."""
    waiting: str = ""
    """What must happen before the Deployment is touched."""
    connection_problem: Failure | None = None
    """Why code that runs cannot do its work: a connection that it needs cannot be used."""
    in_sync: bool = True
    """Whether the Deployment in the cluster is the desired one."""
    pinned_version: str | None = None
    pinned_digest: str = ""
    public_url: str = ""
    queue_level: QueueLevel = EMPTY


@dataclass(frozen=True, kw_only=True)
class ActualEnvironment:
    """The actual state of an environment."""

    deployment: Object | None = None
    pods: Sequence[Pod] = ()
    previous: EnvironmentStatus | None = None


@dataclass(frozen=True, kw_only=True)
class ComputedStatus:
    """The status of an environment."""

    state: EnvironmentState
    outcome: Outcome
    serving: str | None = None
    """The version that serves."""
    ready_replicas: int = 0
    notice: str = ""
    """A recent failure that is over."""
    requeue_after: float | None = None


def compute_status(desired: DesiredEnvironment, actual: ActualEnvironment, now: datetime) -> ComputedStatus:
    """The environment's state, and its part of the project's Ready."""
    serving = [pod for pod in actual.pods if pod.ready]
    computed = _state(desired, actual, serving, now)
    return replace(computed, serving=_served_version(desired, serving), ready_replicas=len(serving))


def status_of(
    desired: DesiredEnvironment, computed: ComputedStatus, previous: EnvironmentStatus | None, now: datetime
) -> dict[str, Any]:
    """The item of ``status.environments``. ``updatedAt`` moves when what runs, or the state, does."""
    message = (
        "; ".join(filter(None, (computed.notice, queue_notice(desired))))
        if computed.outcome.status == "True"
        else computed.outcome.message[:_MAX_MESSAGE]
    )
    same = previous is not None and (previous.status, previous.version) == (computed.state, computed.serving)
    moment = format_time(now)
    values = {
        "name": desired.name,
        "id": desired.id,
        "workload": desired.workload,
        "status": str(computed.state),
        "message": message,
        "version": computed.serving,
        "desiredVersion": desired.version,
        "pinnedVersion": desired.pinned_version,
        "pinnedDigest": desired.pinned_digest,
        "readyReplicas": computed.ready_replicas,
        # Most queues are empty: then nothing is written.
        "queued": desired.queue_level.queued or None,
        "oldestQueuedMinutes": desired.queue_level.oldest_minutes or None,
        "deadLetters": desired.queue_level.dead_letters or None,
        "publicUrl": desired.public_url,
        "createdAt": format_time(previous.created_at) if previous else moment,
        "updatedAt": format_time(previous.updated_at) if previous and same else moment,
        "deployedAt": _deployed_at(desired, previous, moment),
        "deployFailure": _deploy_failure(desired, computed, previous),
    }
    return {key: value for key, value in values.items() if value not in (None, "")}


def queue_notice(desired: DesiredEnvironment) -> str:
    """Says that events wait for long, and that there are dead letters; empty while neither is so.

    Numbers are rounded down, so that the message changes rarely.
    """
    level, notices = desired.queue_level, []
    if level.queued and level.oldest_minutes >= _LONG_MINUTES:
        notices.append(
            f"{desired.name}: {level.queued}+ events are queued, the oldest for {level.oldest_minutes}+ minutes; "
            f"list them with GET {_runs(desired, 'queued')}"
        )
    if level.dead_letters:
        notices.append(
            f"{desired.name}: {level.dead_letters}+ dead letters; list them with GET {_runs(desired, 'dead')}"
        )
    return "; ".join(notices)


def _runs(desired: DesiredEnvironment, status: str) -> str:
    return f"runs?status={status}&project_env={desired.name}"


def _deployed_at(desired: DesiredEnvironment, previous: EnvironmentStatus | None, moment: str) -> str | None:
    """When the version that should serve was chosen; None for a choice of before this was recorded."""
    if previous is None or previous.desired_version != desired.version:
        return moment if desired.version else None
    return format_time(previous.deployed_at) if previous.deployed_at else None


def _deploy_failure(
    desired: DesiredEnvironment, computed: ComputedStatus, previous: EnvironmentStatus | None
) -> str | None:
    """Why the version that should serve has never served since it was chosen; None while that is not known to fail.

    A version that served and fails later is no failed deploy. A failure stays while the same version is tried again.
    """
    served = desired.version is not None and computed.serving == desired.version
    if served or computed.outcome.status == "True":
        return None
    same = previous is not None and previous.desired_version == desired.version
    if same and previous is not None and previous.deploy_failure:
        return computed.outcome.reason if computed.outcome.status == "False" else previous.deploy_failure
    if computed.outcome.status != "False":
        return None
    if (
        same
        and previous is not None
        and (
            previous.status is EnvironmentState.ERROR
            or (previous.status is EnvironmentState.RUNNING and previous.version == desired.version)
        )
    ):
        return None
    return computed.outcome.reason


def _state(
    desired: DesiredEnvironment, actual: ActualEnvironment, serving: Sequence[Pod], now: datetime
) -> ComputedStatus:
    if desired.draft:
        return ComputedStatus(
            state=EnvironmentState.DRAFT,
            outcome=ready("Draft", f"{desired.name} is a draft; deploy it to run it"),
        )
    if desired.suspended or desired.replicas == 0:
        return _stopped(desired, actual)
    failure, recheck_after = _failure(desired, actual, now)
    if serving:
        outcome = _serving(desired, actual, serving, failure)
        notice, until = _notice(desired, serving, now)
        again = earliest(recheck_after, until)
        return ComputedStatus(
            state=EnvironmentState.RUNNING, outcome=outcome, notice=notice, requeue_after=again
        )
    return replace(_not_serving(desired, actual, failure, now), requeue_after=recheck_after)


def _stopped(desired: DesiredEnvironment, actual: ActualEnvironment) -> ComputedStatus:
    remaining = [pod for pod in actual.pods if not pod.finished]
    if not remaining and (actual.deployment is None or desired.in_sync or desired.problem or desired.waiting):
        return ComputedStatus(
            state=EnvironmentState.SUSPENDED, outcome=ready("Suspended", f"{desired.name} is suspended")
        )
    before = actual.previous.status if actual.previous else EnvironmentState.DRAFT
    state = before if before is EnvironmentState.ERROR else EnvironmentState.RUNNING
    message = (
        f"Stopping {desired.name}: {len(remaining)} of its pods are left"
        if remaining
        else f"Stopping {desired.name}"
    )
    return ComputedStatus(state=state, outcome=in_progress("Stopping", message))


def _serving(
    desired: DesiredEnvironment, actual: ActualEnvironment, serving: Sequence[Pod], failure: Failure | None
) -> Outcome:
    version = _served_version(desired, serving)
    keeps = f"; version {version} keeps serving" if version != desired.version else ""
    if desired.problem:
        return failed(desired.problem.reason, f"{desired.name}: {desired.problem.message}{keeps}")
    if desired.waiting:
        return in_progress("Waiting", f"{desired.name}: {desired.waiting}{keeps}")
    if failure:
        does = (
            f"version {desired.version} does not start"
            if keeps
            else f"only {len(serving)} of {desired.replicas} pods serve"
            if len(serving) < desired.replicas
            else "new pods do not start, and earlier ones keep serving"
        )
        return failed(failure.reason, f"{desired.name}: {does}: {failure.message}{keeps}")
    if desired.in_sync and rollout_complete(actual.deployment, desired.replicas) and not keeps:
        if desired.connection_problem:
            return failed(
                desired.connection_problem.reason, f"{desired.name}: {desired.connection_problem.message}"
            )
        return ready("Running", f"{desired.name} runs version {version}")
    return in_progress("RollingOut", f"{desired.name}: rolling out version {desired.version}{keeps}")


def _notice(desired: DesiredEnvironment, serving: Sequence[Pod], now: datetime) -> tuple[str, float | None]:
    """The notice that a serving pod was killed and restarted, and for how long it stays."""
    detail, remaining = _last_kill(serving, now)
    return (f"{desired.name}: a pod was restarted {detail}", remaining) if detail else ("", None)


def _last_kill(pods: Sequence[Pod], now: datetime) -> tuple[str, float | None]:
    """When and why one of the pods was killed last, and for how long that is still reported."""
    ends = [pod.killed for pod in pods if pod.killed]
    if not ends:
        return "", None
    when, failure = max(ends, key=lambda end: end[0])
    remaining = _NOTICE_SECONDS - (now - when).total_seconds()
    return (f"at {format_time(when)}: {failure.message}", remaining) if remaining > 0 else ("", None)


def _not_serving(
    desired: DesiredEnvironment, actual: ActualEnvironment, failure: Failure | None, now: datetime
) -> ComputedStatus:
    failure = desired.problem or failure
    if failure:
        return ComputedStatus(
            state=EnvironmentState.ERROR, outcome=failed(failure.reason, f"{desired.name}: {failure.message}")
        )
    before = actual.previous.status if actual.previous else EnvironmentState.DRAFT
    if before is EnvironmentState.RUNNING:
        message = f"{desired.name}: nothing serves, a pod of version {desired.version} is being started again"
        detail, _ = _last_kill(actual.pods, now)
        why = f"; one was ended {detail}" if detail else ""
        return ComputedStatus(
            state=EnvironmentState.ERROR, outcome=in_progress("NothingServes", message + why)
        )
    if (
        before is EnvironmentState.ERROR
        and actual.previous
        and actual.previous.desired_version != desired.version
    ):
        # The error was another version's. A client that polls for the outcome of a deploy must not see it.
        before = EnvironmentState.DRAFT
    doing = desired.waiting or f"starting version {desired.version}"
    return ComputedStatus(state=before, outcome=in_progress("Starting", f"{desired.name}: {doing}"))


def _failure(
    desired: DesiredEnvironment, actual: ActualEnvironment, now: datetime
) -> tuple[Failure | None, float | None]:
    """Why the desired pods do not serve, and when to check again if it depends on time."""
    if not desired.in_sync or desired.waiting:
        return None, None
    pods = [pod for pod in actual.pods if pod.revision == desired.revision and not pod.finished]
    for pod in sorted(pods, key=lambda pod: pod.created):
        if pod.failure:
            return pod.failure, None
    waits = [pod.unschedulable for pod in pods if pod.unschedulable]
    if waits:
        since, detail = min(waits)
        remaining = UNSCHEDULABLE_SECONDS - (now - since).total_seconds()
        if remaining > 0:
            return None, remaining
        return Failure("Unschedulable", f"No node has room: {detail}"), None
    return rollout_failure(actual.deployment), None


def _served_version(desired: DesiredEnvironment, serving: Sequence[Pod]) -> str | None:
    """The version that serves; during a rollout, where both do, the old one."""
    old = [pod for pod in serving if pod.version != desired.version]
    newest = max(old or serving, key=lambda pod: pod.created, default=None)
    return newest.version or None if newest else None
