"""Environment: what its Project's status says of it, with what scaling needs."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tieline_core.identity.names import environment_object_name, workload_name
from tieline_core.kubernetes.resources import DEPLOYMENTS, ENVIRONMENTS, PROJECTS
from tieline_core.resources import Environment, Project
from tieline_core.resources.parsed_cache import PROJECT
from tieline_core.resources.projects import EnvironmentState, EnvironmentStatus
from tieline_core.resources.releases import RolloutState
from tieline_operator.apply.conditions import is_terminating
from tieline_operator.apply.plan import Object, Outcome, Plan, failed, in_progress, ready
from tieline_operator.cache.cluster_cache import ClusterCache
from tieline_operator.reconcilers.uniqueness import id_conflict
from tieline_operator.workload.inputs import selector

_MAX_MESSAGE = 1024


@dataclass(frozen=True, kw_only=True)
class ObservedEnvironmentObject:
    """An Environment, and what there is of it."""

    environment: Environment
    id_conflict: Outcome | None = None
    project: Project | None = None
    deployment: Object | None = None

    @property
    def shown(self) -> EnvironmentStatus | None:
        """What the Project's status says of it."""
        items = self.project.status.environments if self.project else ()
        return next((item for item in items if item.name == self.environment.spec.environment), None)


async def reconcile(cache: ClusterCache, obj: Object, now: datetime) -> Plan:
    """Observes the Environment and plans."""
    environment = Environment.read(obj)
    found = cache[PROJECTS].get(environment.namespace, environment.spec.project_ref.name)
    return plan(
        ObservedEnvironmentObject(
            environment=environment,
            id_conflict=id_conflict(obj, cache[ENVIRONMENTS]),
            project=PROJECT.of(found) if found and not is_terminating(found) else None,
            deployment=cache[DEPLOYMENTS].get(
                environment.namespace,
                workload_name(environment.spec.project_ref.name, environment.spec.environment),
            ),
        )
    )


def plan(observed: ObservedEnvironmentObject) -> Plan:
    """The status; nothing is made of an Environment, since its Project makes all of it."""
    if observed.id_conflict:
        return Plan(outcome=observed.id_conflict)
    spec, project = observed.environment.spec, observed.project
    if project is None:
        message = f'There is no Project "{spec.project_ref.name}" in this namespace; delete this object'
        return Plan(outcome=failed("ProjectNotFound", message))
    names = {item.name for item in project.spec.effective_environments()}
    shown = observed.shown
    expected = environment_object_name(project.name, spec.environment)
    if spec.environment not in names or observed.environment.name != expected:
        message = (
            f'The Project "{project.name}" has no environment "{spec.environment}" with this object; delete this '
            "object, and add environments to the Project"
        )
        return Plan(outcome=failed("NotInProject", message))
    if shown is None:
        message = "The Project does not show this environment yet; its conditions say why"
        return Plan(outcome=in_progress("Waiting", message), status={"selector": _selector(observed)})
    return Plan(outcome=_outcome(shown), status=_status(observed, shown))


def _status(observed: ObservedEnvironmentObject, shown: EnvironmentStatus) -> dict[str, Any]:
    deployment = observed.deployment or {}
    status: dict[str, Any] = {
        "state": shown.status.value,
        "replicas": (deployment.get("status") or {}).get("replicas", 0),
        "readyReplicas": shown.ready_replicas,
        "selector": _selector(observed),
        "publicUrl": shown.public_url,
        "queued": shown.queued,
        "deadLetters": shown.dead_letters,
    }
    status |= {
        name: value
        for name, value in (("version", shown.version), ("desiredVersion", shown.desired_version))
        if value
    }
    if shown.rollout:
        status["rollout"] = shown.rollout.value
    return status


def _selector(observed: ObservedEnvironmentObject) -> str:
    spec = observed.environment.spec
    labels = selector(workload_name(spec.project_ref.name, spec.environment))
    return ",".join(f"{name}={value}" for name, value in labels.items())


def _outcome(shown: EnvironmentStatus) -> Outcome:
    message = shown.message[:_MAX_MESSAGE]
    if shown.status is EnvironmentState.ERROR or shown.rollout is RolloutState.FAILED:
        return failed(shown.deploy_failure or "Failed", message or "The last deploy failed")
    if shown.status is EnvironmentState.SUSPENDED:
        return ready("Suspended", message or "The environment is suspended")
    if shown.rollout is RolloutState.PROGRESSING:
        return in_progress("RollingOut", message or f"Version {shown.desired_version} is being rolled out")
    if shown.status is EnvironmentState.DRAFT:
        return ready("Draft", message or "Nothing is deployed")
    if shown.sleeping:
        return ready("Sleeping", message or f"Version {shown.version} sleeps: pods start when work comes")
    return ready("Running", message or f"Version {shown.version} runs")
