"""Project: the plan for its versions and each of its environments. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from tieline_core.resources.projects import LATEST, EnvironmentSpec, EnvironmentState
from tieline_operator.apply.applier import part_of
from tieline_operator.apply.conditions import READY
from tieline_operator.apply.ownership import NOT_OWNED
from tieline_operator.apply.plan import (
    Child,
    Creation,
    Deletion,
    Outcome,
    Plan,
    Refusal,
    earliest,
    failed,
    in_progress,
    ready,
)
from tieline_operator.reconcilers.project.address_conflicts import HOST_TAKEN, RECHECK_SECONDS
from tieline_operator.reconcilers.project.connector import connector_child
from tieline_operator.reconcilers.project.environment_plan import EnvironmentPlan, plan_environment
from tieline_operator.reconcilers.project.environment_status import (
    ComputedStatus,
    compute_status,
    queue_notice,
    status_of,
)
from tieline_operator.reconcilers.project.observed import ObservedProject
from tieline_operator.reconcilers.project.version_selection import current_version
from tieline_operator.reconcilers.project.versions import garbage, missing_packs, new_version
from tieline_operator.workload.pods import Failure, deployed_version

_MAX_SUMMARY = 256
_MAX_OUTCOME = 1024
_MAX_MESSAGE = 2 * _MAX_OUTCOME
_SCHEMA_INVALID, _SCHEMA_TOO_COSTLY = "SchemaInvalid", "SchemaTooCostly"


@dataclass(frozen=True)
class _Environment:
    planned: EnvironmentPlan
    computed: ComputedStatus

    @property
    def recheck_after(self) -> float | None:
        """Seconds after which to reconcile again: no event says that an address is free, or that credentials end."""
        problem = self.planned.desired.problem
        waits = RECHECK_SECONDS if problem and problem.reason == HOST_TAKEN else None
        return earliest(
            waits,
            self.computed.requeue_after,
            self.planned.renew_after,
            self.planned.packages_recheck,
            self.planned.late_after,
            self.planned.scaling_recheck,
            self.planned.quota_recheck,
        )


def plan(
    observed: ObservedProject, now: datetime, refusals: Mapping[str | None, Refusal] | None = None
) -> Plan:
    """The plan for an observed project.

    ``refusals`` say, by environment, why a part of the workload could not be written.
    """
    refused = observed.id_conflict or observed.not_an_organisation
    if refused:
        return Plan(outcome=refused, status=_previous_status(observed), requeue_after=observed.id_recheck)
    creations, current = _versions(observed)
    environments = [
        _environment(
            plan_environment(observed, spec, current=current, now=now), (refusals or {}).get(spec.name), now
        )
        for spec in observed.project.spec.effective_environments()
    ]
    deletions, recheck_after = garbage(observed, _in_use(environments, current), now)
    return Plan(
        outcome=_with_notices(_outcome(observed, environments), environments),
        status=_status(observed, environments, current, now),
        creations=creations,
        children=(*_children(environments), *connector_child(observed, _serving(environments))),
        on_refusal=lambda refusals: _refused(observed, now, refusals),
        deletions=(*_stray_deletions(observed, environments), *deletions),
        requeue_after=earliest(recheck_after, *(item.recheck_after for item in environments)),
    )


def _refused(observed: ObservedProject, now: datetime, refusals: Sequence[Refusal]) -> Plan:
    by_environment = {part_of(refusal.child): refusal for refusal in reversed(refusals)}
    again = plan(observed, now, by_environment)
    connector = by_environment.get(None)
    if connector is None or again.outcome.status == "False":
        return again
    # Only the connector: no environment is affected.
    reason = connector.reason if connector.reason == NOT_OWNED else "ConnectorRefused"
    outcome = (in_progress if connector.transient else failed)(reason, connector.message)
    return replace(again, outcome=outcome)


def _environment(planned: EnvironmentPlan, refusal: Refusal | None, now: datetime) -> _Environment:
    if refusal and refusal.transient:
        planned = replace(planned, desired=replace(planned.desired, waiting=refusal.message))
    elif refusal:
        desired = replace(planned.desired, problem=Failure(refusal.reason, refusal.message))
        planned = replace(planned, desired=desired)
    return _Environment(planned, compute_status(planned.desired, planned.actual, now))


def _versions(observed: ObservedProject) -> tuple[tuple[Creation, ...], str | None]:
    """What to create so that the current files have a version, and that version's name.

    Files that no environment follows get no version: they may be unfinished.
    """
    version = current_version(observed.versions, observed.source.digest)
    if version is not None:
        return missing_packs(observed, version), version.name
    if not any(item.choice.follows for item in observed.environments.values()):
        return (), None
    return new_version(observed)


def _children(environments: Sequence[_Environment]) -> tuple[Child, ...]:
    return tuple(child for item in environments for child in item.planned.children)


def _serving(environments: Sequence[_Environment]) -> frozenset[str | None]:
    return frozenset(item.computed.serving for item in environments)


def _stray_deletions(observed: ObservedProject, environments: Sequence[_Environment]) -> tuple[Deletion, ...]:
    orphaned_children = tuple(Deletion.of(resource, obj) for resource, obj in observed.orphaned_children)
    return (*orphaned_children, *(deletion for item in environments for deletion in item.planned.deletions))


def _in_use(environments: Sequence[_Environment], current: str | None) -> frozenset[str]:
    names = {current}
    for item in environments:
        desired = item.planned.desired
        names |= {desired.version, desired.pinned_version, item.computed.serving}
        if previous := item.planned.actual.previous:
            # The one that serves, and the one to roll back to.
            names |= {healthy.name for healthy in previous.healthy_versions[:2]}
        names |= {pod.version for pod in item.planned.actual.pods}
        names.add(deployed_version(item.planned.actual.deployment))
        names |= {
            child.desired["spec"]["template"]["metadata"]["annotations"]["tieline.dev/version"]
            for child in item.planned.children
            if child.resource.kind == "Deployment"
        }
    return frozenset(name for name in names if name)


def _status(
    observed: ObservedProject, environments: Sequence[_Environment], current: str | None, now: datetime
) -> dict[str, Any]:
    status: dict[str, Any] = {
        "environments": [
            status_of(item.planned.desired, item.computed, item.planned.actual.previous, now)
            for item in environments
        ],
        "summary": ", ".join(f"{item.planned.desired.name}: {item.computed.state}" for item in environments)[
            :_MAX_SUMMARY
        ],
    }
    if current:
        status["latestVersion"] = current
    source = observed.project.spec.source.source_ref and (
        observed.source.origin or observed.project.status.source
    )
    if source:
        status["source"] = source.to_dict()
    return status


def _previous_status(observed: ObservedProject) -> dict[str, Any]:
    """The status as it is, while no other can be computed."""
    previous = observed.project.status.to_dict()
    wanted = {item.name: item for item in observed.project.spec.effective_environments()}
    for item in previous.get("environments") or ():
        spec = wanted.get(item["name"])
        if spec is None or not _is_decided_anew(spec, item):
            continue
        # A deploy that nothing came of: its outcome is not that of the one before.
        item.pop("rollout", None)
        item.pop("deployFailure", None)
    return {key: value for key, value in previous.items() if key not in ("conditions", "observedGeneration")}


def _is_decided_anew(spec: EnvironmentSpec, previous: Mapping[str, Any]) -> bool:
    """Whether another version is deployed, or the environment resumed, since the status was computed."""
    is_other = spec.version not in (None, LATEST, previous.get("pinnedVersion"))
    return is_other or (spec.suspended != ("rollout" not in previous))


def _outcome(observed: ObservedProject, environments: Sequence[_Environment]) -> Outcome:
    outcomes = [item.computed.outcome for item in environments]
    for outcome in outcomes:
        if outcome.status == "False":
            return outcome
    if observed.duplicate:
        return observed.duplicate
    if observed.source.problem:
        return failed("FilesMissing", observed.source.problem)
    if observed.source.waiting:
        return in_progress("FetchingFiles", observed.source.waiting)
    schema = _schema_problem(observed)
    if schema is not None and schema.status == "False":
        return schema
    for outcome in outcomes:
        if outcome.status == "Unknown":
            return in_progress(outcome.reason, outcome.message)
    if schema is not None:
        return schema
    running = [item for item in environments if item.computed.state is EnvironmentState.RUNNING]
    if running:
        return ready(
            "Running", "; ".join(item.computed.outcome.message for item in environments)[:_MAX_OUTCOME]
        )
    return ready(outcomes[0].reason, "; ".join(outcome.message for outcome in outcomes)[:_MAX_OUTCOME])


def _with_notices(outcome: Outcome, environments: Sequence[_Environment]) -> Outcome:
    """A message of success says too where events wait or are dead; a message of a failure only why it failed."""
    notices = [notice for item in environments if (notice := queue_notice(item.planned.desired))]
    if outcome.status != "True" or not notices:
        return outcome
    return replace(outcome, message="; ".join([outcome.message, *notices])[:_MAX_MESSAGE])


def _schema_problem(observed: ObservedProject) -> Outcome | None:
    """Why the schema of variables cannot be used. Environments that serve keep the last valid variables."""
    if observed.schema is not None:
        if observed.schema.problem is None:
            return None
        return failed(
            _SCHEMA_TOO_COSTLY if observed.schema.costly else _SCHEMA_INVALID,
            f"The schema of variables cannot be used: {observed.schema.problem}; correct spec.dynamicVariablesSchema. "
            "Code runs with the last variables that were valid",
        )
    before = observed.project.condition(READY)
    if before is None or observed.project.status.observed_generation != observed.project.metadata.generation:
        return in_progress("SchemaUnchecked", "The schema of variables is being checked")
    # It was checked before a restart: that result stays until there is a new one.
    if before.reason in (_SCHEMA_INVALID, _SCHEMA_TOO_COSTLY):
        return failed(before.reason, before.message)
    return None
