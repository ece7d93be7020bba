"""Whether an environment of a project sleeps, and whether the API answers for it meanwhile. Pure."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from tieline_core.identity.ids import parse_time
from tieline_core.identity.names import ACTIVE_ANNOTATION, REPORTED_ANNOTATION
from tieline_core.kubernetes import resources as r
from tieline_core.resources.projects import EnvironmentSpec
from tieline_core.resources.releases import RolloutState
from tieline_core.resources.scaling import Scaling
from tieline_operator.reconcilers.project.observed import ObservedEnvironment, ObservedProject
from tieline_operator.reconcilers.project.scaling import ObservedWork, Sleep, decide
from tieline_operator.workload.inputs import Workload
from tieline_operator.workload.pods import Pod, deployed_version
from tieline_operator.workload.public_urls import address


def plan_sleep(
    observed: ObservedProject,
    environment: ObservedEnvironment,
    spec: EnvironmentSpec,
    workload: Workload,
    version: str | None,
    now: datetime,
) -> Sleep:
    """``version`` should run; None where something keeps it from that."""
    sleep = decide(_observed_work(observed, environment, spec, workload, version, now), now)
    return sleep if workload.replicas > 0 else replace(sleep, asleep=False)


def is_activated(
    observed: ObservedProject, workload: Workload, pods: Iterable[Pod], *, sleeping: bool
) -> bool:
    """Whether the API answers for the environment: it sleeps, or wakes and no pod is ready yet."""
    if not observed.activators or not _scaling(workload).may_sleep:
        return False
    return sleeping or (workload.replicas > 0 and not any(pod.ready for pod in pods))


def _observed_work(
    observed: ObservedProject,
    environment: ObservedEnvironment,
    spec: EnvironmentSpec,
    workload: Workload,
    version: str | None,
    now: datetime,
) -> ObservedWork:
    previous = observed.previous(spec.name)
    deployment = environment.children.get(r.DEPLOYMENTS)
    annotations = (environment.environment or {}).get("metadata", {}).get("annotations") or {}
    is_healthy = (
        version is not None
        and previous is not None
        and previous.rollout is RolloutState.COMPLETE
        and previous.desired_version == deployed_version(deployment) == version
        and any(one.name == version for one in previous.healthy_versions)
    )
    return ObservedWork(
        scaling=_scaling(workload),
        version=version or "",
        is_healthy=is_healthy,
        asleep=previous is not None
        and previous.sleeping
        and deployment is not None
        and deployment["spec"].get("replicas") == 0,
        serving_since=previous.serving_since if previous else None,
        active_at=_moment(annotations.get(ACTIVE_ANNOTATION), now),
        reported_at=_moment(annotations.get(REPORTED_ANNOTATION), now),
        can_be_woken=bool(observed.activators and workload.public_url)
        and not address(workload.public_url).path,
        paused=spec.paused_schedules,
        work=environment.work,
    )


def _scaling(workload: Workload) -> Scaling:
    return workload.runtime.scaling or Scaling()


def _moment(text: str | None, now: datetime) -> datetime | None:
    """A time that the API has written, which is not after ``now``; None for what is none.

    Whoever may patch an Environment can write another one, and the other environments of the project go on.
    """
    try:
        return min(parse_time(text), now) if text else None
    except ValueError:
        return None
