"""Computes an environment's status from what is desired and what is there. Pure.

"Serving" is a ready pod. `running` is kept while anything serves, even an older version during a rollout
or after a newer one failed; `suspended` comes only when no pod is left, and stays when a deploy is refused before it
has pods; `error` when something should serve and nothing does, with the reason in the message, until a version serves.
`draft` is also the first version while it is rolled out.

The state is what runs. `rollout` is what became of the last deploy: clients that wait for its outcome read that.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from tieline_core.identity.ids import format_time
from tieline_core.resources.projects import (
    MAX_HEALTHY_VERSIONS,
    EnvironmentState,
    EnvironmentStatus,
    HealthyVersion,
)
from tieline_core.resources.releases import Release, RolloutState
from tieline_operator.apply.plan import Object, Outcome, earliest, failed, in_progress, ready
from tieline_operator.engine.queue_levels import EMPTY, QueueLevel
from tieline_operator.reconcilers.project import releases as release_history
from tieline_operator.reconcilers.project.releases import Deploy
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
    sleeping: bool = False
    """Whether it has no pods until work comes."""
    replicas: int = 1
    version: str | None = None
    """The version that should serve."""
    digest: str = ""
    """Of that version's files."""
    revision: str | None = None
    """The revision of the desired pod template; None where there is none."""
    problem: Failure | None = None
    """Why the version cannot be rolled out (it was refused, or does not exist)."""
    is_late: bool = False
    """Whether the problem may be that of a cache which is behind: the deploy has not failed yet."""
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
    healthy_seconds: float
    """How long a version must serve without a restart until it is healthy."""
    deploy: Deploy | None = None
    """What the next release says of the deploy; None while no version is chosen."""


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
    complete: bool = False
    """Whether all pods are of the desired version and settings, and serve."""
    serving_since: datetime | None = None
    """Since when all pods serve the desired version without a restart; None while they do not."""
    sleeping: bool = False
    """Whether it sleeps, or wakes and no pod serves yet."""
    notice: str = ""
    """A recent failure that is over."""
    failure: Failure | None = None
    """Why the desired version does not serve; None where that is not known, and while it does."""
    requeue_after: float | None = None


def compute_status(desired: DesiredEnvironment, actual: ActualEnvironment, now: datetime) -> ComputedStatus:
    """The environment's state, and its part of the project's Ready."""
    serving = [pod for pod in actual.pods if pod.ready]
    computed = _state(desired, actual, serving, now)
    before = actual.previous.version if actual.previous else None
    computed = replace(
        computed,
        serving=before if computed.sleeping else _served_version(desired, serving),
        ready_replicas=len(serving),
    )
    since = _serving_since(desired, actual, computed, now)
    until_healthy = _until_healthy(desired, since, now) if since else 0.0
    return replace(
        computed,
        serving_since=since,
        requeue_after=earliest(computed.requeue_after, until_healthy or None),
    )


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
    rollout = _rollout(desired, computed, previous)
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
        "sleeping": computed.sleeping or None,
        # Most queues are empty: then nothing is written.
        "queued": desired.queue_level.queued or None,
        "oldestQueuedMinutes": desired.queue_level.oldest_minutes or None,
        "deadLetters": desired.queue_level.dead_letters or None,
        "engineBytes": desired.queue_level.engine_bytes or None,
        "publicUrl": desired.public_url,
        "createdAt": format_time(previous.created_at) if previous else moment,
        "updatedAt": format_time(previous.updated_at) if previous and same else moment,
        "deployedAt": _deployed_at(desired, previous, moment),
        "rollout": str(rollout) if rollout else None,
        "deployFailure": _deploy_failure(computed, previous) if rollout is RolloutState.FAILED else None,
        "servingSince": format_time(computed.serving_since) if computed.serving_since else None,
        "healthyVersions": [one.model_dump() for one in _healthy_versions(desired, computed, previous, now)]
        or None,
        "releases": [_given(one) for one in _releases(desired, computed, rollout, previous, now)] or None,
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


def _rollout(
    desired: DesiredEnvironment, computed: ComputedStatus, previous: EnvironmentStatus | None
) -> RolloutState | None:
    """What became of the last deploy. None for a draft, and while the environment is suspended.

    It stays complete: a version that served and fails later is no failed deploy. A failure stays while the same
    version is tried again. After a suspension the same version is deployed anew.
    """
    if desired.draft or desired.suspended:
        return None
    if computed.complete:
        return RolloutState.COMPLETE
    before = previous.rollout if previous and previous.desired_version == desired.version else None
    if before is RolloutState.COMPLETE:
        return before
    is_failed = computed.outcome.status == "False" and not desired.is_late
    is_failed = is_failed or before is RolloutState.FAILED
    return RolloutState.FAILED if is_failed else RolloutState.PROGRESSING


def _deploy_failure(computed: ComputedStatus, previous: EnvironmentStatus | None) -> str:
    """Why a deploy failed; while it is tried again, why it failed before."""
    if computed.outcome.status == "False" or previous is None:
        return computed.outcome.reason
    return previous.deploy_failure


def _serving_since(
    desired: DesiredEnvironment, actual: ActualEnvironment, computed: ComputedStatus, now: datetime
) -> datetime | None:
    """Since when all pods serve the desired version without a restart; None while they do not.

    A container that started later than that was restarted unseen, so its start counts.
    """
    if not computed.complete or not computed.serving:
        return None
    previous = actual.previous
    known = previous.serving_since if previous and previous.desired_version == desired.version else None
    since = known or now.replace(microsecond=0)
    return max(since, *(pod.started or since for pod in actual.pods if pod.ready))


def _until_healthy(desired: DesiredEnvironment, since: datetime, now: datetime) -> float:
    """Seconds until the version that serves is healthy; 0 once it is."""
    return max(desired.healthy_seconds - (now - since).total_seconds(), 0.0)


def _healthy_versions(
    desired: DesiredEnvironment, computed: ComputedStatus, previous: EnvironmentStatus | None, now: datetime
) -> list[HealthyVersion]:
    """The versions that were healthy here, the last one first; those that a rollback left are dropped."""
    before = list(previous.healthy_versions) if previous else []
    since = computed.serving_since
    if not desired.version or not desired.digest or since is None or _until_healthy(desired, since, now):
        return before
    version = HealthyVersion(name=desired.version, digest=desired.digest)
    if version in before:
        return before[before.index(version) :]
    return [version, *(one for one in before if one.name != version.name)][:MAX_HEALTHY_VERSIONS]


def _given(release: Release) -> dict[str, Any]:
    return {name: value for name, value in release.to_dict().items() if value not in ("", False)}


def _releases(
    desired: DesiredEnvironment,
    computed: ComputedStatus,
    rollout: RolloutState | None,
    previous: EnvironmentStatus | None,
    now: datetime,
) -> list[Release]:
    since = computed.serving_since
    outcome = release_history.Outcome(
        rollout=rollout,
        serving=computed.serving,
        is_suspended=computed.state in (EnvironmentState.SUSPENDED, EnvironmentState.DRAFT),
        is_healthy=since is not None and not _until_healthy(desired, since, now),
        failure=None if desired.is_late else computed.failure,
    )
    return release_history.next_releases(previous.releases if previous else (), desired.deploy, outcome, now)


def _state(
    desired: DesiredEnvironment, actual: ActualEnvironment, serving: Sequence[Pod], now: datetime
) -> ComputedStatus:
    if desired.draft:
        return ComputedStatus(
            state=EnvironmentState.DRAFT,
            outcome=ready("Draft", f"{desired.name} is a draft; deploy it to run it"),
        )
    if desired.sleeping:
        return ComputedStatus(
            state=EnvironmentState.RUNNING,
            sleeping=True,
            outcome=ready("Sleeping", f"{desired.name} sleeps: pods start when work comes"),
        )
    if desired.suspended or desired.replicas == 0 or _stays_stopped(desired, actual, serving):
        return _stopped(desired, actual)
    failure, recheck_after = _failure(desired, actual, now)
    if serving:
        outcome = _serving(desired, actual, serving, failure)
        notice, until = _notice(desired, serving, now)
        return ComputedStatus(
            state=EnvironmentState.RUNNING,
            outcome=outcome,
            complete=_is_complete(desired, actual, serving, failure),
            notice=notice,
            failure=desired.problem or failure,
            requeue_after=earliest(recheck_after, until),
        )
    if actual.previous and actual.previous.sleeping and not (failure or desired.problem):
        return replace(_waking(desired, actual.previous), requeue_after=recheck_after)
    return replace(_not_serving(desired, actual, failure, now), requeue_after=recheck_after)


def _waking(desired: DesiredEnvironment, previous: EnvironmentStatus) -> ComputedStatus:
    """That no pod serves yet is no error; a deploy to an environment that sleeps has to show itself first."""
    is_deployed = previous.desired_version == desired.version and previous.rollout is RolloutState.COMPLETE
    doing = desired.waiting or f"starting version {desired.version}"
    return ComputedStatus(
        state=EnvironmentState.RUNNING,
        sleeping=True,
        outcome=ready("Waking", f"{desired.name} wakes")
        if is_deployed
        else in_progress("RollingOut", f"{desired.name}: {doing}"),
    )


def _stays_stopped(desired: DesiredEnvironment, actual: ActualEnvironment, serving: Sequence[Pod]) -> bool:
    """Whether a deploy to a stopped environment has not come to pods: what it ran before is not started for it."""
    is_stopped = actual.deployment is not None and actual.deployment.get("spec", {}).get("replicas") == 0
    is_stopped = is_stopped and not (actual.previous is not None and actual.previous.sleeping)
    return is_stopped and not serving and bool(desired.problem or desired.waiting)


def _stopped(desired: DesiredEnvironment, actual: ActualEnvironment) -> ComputedStatus:
    remaining = [pod for pod in actual.pods if not pod.finished]
    if not remaining and (actual.deployment is None or desired.in_sync or desired.problem or desired.waiting):
        outcome = _stopped_outcome(desired)
        return ComputedStatus(
            state=EnvironmentState.SUSPENDED,
            outcome=outcome,
            complete=outcome.status == "True",
            failure=None if desired.suspended else desired.problem,
        )
    before = actual.previous.status if actual.previous else EnvironmentState.DRAFT
    state = before if before is EnvironmentState.ERROR else EnvironmentState.RUNNING
    message = (
        f"Stopping {desired.name}: {len(remaining)} of its pods are left"
        if remaining
        else f"Stopping {desired.name}"
    )
    return ComputedStatus(state=state, outcome=in_progress("Stopping", message))


def _stopped_outcome(desired: DesiredEnvironment) -> Outcome:
    """While it is suspended, it does not matter whether its version could run."""
    if not desired.suspended and desired.problem:
        return failed(desired.problem.reason, f"{desired.name}: {desired.problem.message}; nothing runs")
    if not desired.suspended and desired.waiting:
        return in_progress("Waiting", f"{desired.name}: {desired.waiting}; nothing runs")
    return ready("Suspended", f"{desired.name} is suspended")


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
        return failed(
            failure.reason, _with_detail(f"{desired.name}: {does}: {failure.message}{keeps}", failure)
        )
    if _is_complete(desired, actual, serving, failure):
        if desired.connection_problem:
            return failed(
                desired.connection_problem.reason, f"{desired.name}: {desired.connection_problem.message}"
            )
        return ready("Running", f"{desired.name} runs version {version}")
    return in_progress("RollingOut", f"{desired.name}: rolling out version {desired.version}{keeps}")


def _with_detail(sentence: str, failure: Failure) -> str:
    return f"{sentence}\n{failure.detail}" if failure.detail else sentence


def _is_complete(
    desired: DesiredEnvironment, actual: ActualEnvironment, serving: Sequence[Pod], failure: Failure | None
) -> bool:
    """Whether the Deployment's controller has seen the desired template, and all of its pods are of it and ready."""
    return (
        not (desired.problem or desired.waiting or failure)
        and desired.in_sync
        and _served_version(desired, serving) == desired.version
        and rollout_complete(actual.deployment, desired.replicas)
    )


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
            state=EnvironmentState.ERROR,
            outcome=failed(failure.reason, _with_detail(f"{desired.name}: {failure.message}", failure)),
            failure=failure,
        )
    before = actual.previous.status if actual.previous else EnvironmentState.DRAFT
    if before is EnvironmentState.RUNNING:
        message = f"{desired.name}: nothing serves, a pod of version {desired.version} is being started again"
        detail, _ = _last_kill(actual.pods, now)
        why = f"; one was ended {detail}" if detail else ""
        return ComputedStatus(
            state=EnvironmentState.ERROR, outcome=in_progress("NothingServes", message + why)
        )
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
