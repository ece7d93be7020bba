"""Project: one look at everything, then a plan for its versions and each of its environments."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from tieline_core.resources.projects import EnvironmentState
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
from tieline_operator.cache.organisations import ORGANISATION_TAKEN
from tieline_operator.reconcilers.project.address_conflicts import HOST_TAKEN, RECHECK_SECONDS
from tieline_operator.reconcilers.project.connector import connector_child
from tieline_operator.reconcilers.project.environment_plan import EnvironmentPlan, plan_environment
from tieline_operator.reconcilers.project.environment_status import ComputedStatus, compute_status, status_of
from tieline_operator.reconcilers.project.observed import ObservedProject
from tieline_operator.reconcilers.project.version_selection import current_version
from tieline_operator.reconcilers.project.versions import garbage, missing_packs, new_version
from tieline_operator.workload.pods import Failure

_MAX_SUMMARY = 256
_SCHEMA_INVALID, _SCHEMA_TOO_COSTLY = "SchemaInvalid", "SchemaTooCostly"


@dataclass(frozen=True)
class _Environment:
    planned: EnvironmentPlan
    computed: ComputedStatus

    @property
    def recheck_after(self) -> float | None:
        """Seconds after which to look again: who gives up an address tells nobody who waits for it."""
        problem = self.planned.wanted.problem
        waits = RECHECK_SECONDS if problem and problem.reason == HOST_TAKEN else None
        return earliest(waits, self.computed.requeue_after)


def plan(view: ObservedProject, now: datetime, refusals: Mapping[str | None, Refusal] | None = None) -> Plan:
    """Everything that follows from a view of a project. No I/O.

    ``refusals`` say, by environment, why a part of the workload could not be written.
    """
    refused = view.taken or _not_an_organisation(view)
    if refused:
        return Plan(outcome=refused, status=_previous_status(view))
    creations, current = _versions(view)
    environments = [
        _environment(plan_environment(view, spec, current=current), (refusals or {}).get(spec.name), now)
        for spec in view.project.spec.effective_environments()
    ]
    deletions, recheck_after = garbage(view, _in_use(environments, current), now)
    return Plan(
        outcome=_outcome(view, environments),
        status=_status(view, environments, current, now),
        creations=creations,
        children=(*_children(environments), *connector_child(view, _serving(environments))),
        on_refusal=lambda refusals: _refused(view, now, refusals),
        deletions=(*_stray_deletions(view, environments), *deletions),
        requeue_after=earliest(recheck_after, *(item.recheck_after for item in environments)),
    )


def _refused(view: ObservedProject, now: datetime, refusals: Sequence[Refusal]) -> Plan:
    by_environment = {part_of(refusal.child): refusal for refusal in reversed(refusals)}
    again = plan(view, now, by_environment)
    connector = by_environment.get(None)
    if connector is None or again.outcome.status == "False":
        return again
    # The connector alone: no environment is the worse for it.
    reason = connector.reason if connector.reason == NOT_OWNED else "ConnectorRefused"
    outcome = (in_progress if connector.transient else failed)(reason, connector.message)
    return replace(again, outcome=outcome)


def _environment(planned: EnvironmentPlan, refusal: Refusal | None, now: datetime) -> _Environment:
    if refusal and refusal.transient:
        planned = replace(planned, wanted=replace(planned.wanted, waiting=refusal.message))
    elif refusal:
        wanted = replace(planned.wanted, problem=Failure(refusal.reason, refusal.message))
        planned = replace(planned, wanted=wanted)
    return _Environment(planned, compute_status(planned.wanted, planned.seen, now))


def _versions(view: ObservedProject) -> tuple[tuple[Creation, ...], str | None]:
    """What must be made so that the current files have a version, and that version's name.

    Files that no environment follows get no version: they may still be in work.
    """
    version = current_version(view.versions, view.source.digest)
    if version is not None:
        return missing_packs(view, version), version.name
    if not any(item.choice.follows for item in view.environments.values()):
        return (), None
    return new_version(view)


def _not_an_organisation(view: ObservedProject) -> Outcome | None:
    if view.organisation_id:
        return None
    namespace = view.project.namespace
    if view.older_namespace:
        return failed(
            ORGANISATION_TAKEN,
            f"Namespace {namespace} carries the id of the organisation that the older namespace "
            f"{view.older_namespace} is, so it is none; give it an id of its own with "
            f"`kubectl label --overwrite namespace {namespace} tieline.dev/organisation={view.suggested_id}`",
        )
    return failed(
        "OrganisationMissing",
        f"Namespace {namespace} is no organisation: give it an id with "
        f"`kubectl label --overwrite namespace {namespace} tieline.dev/organisation={view.suggested_id}`",
    )


def _children(environments: Sequence[_Environment]) -> tuple[Child, ...]:
    return tuple(child for item in environments for child in item.planned.children)


def _serving(environments: Sequence[_Environment]) -> frozenset[str | None]:
    return frozenset(item.computed.serving for item in environments)


def _stray_deletions(view: ObservedProject, environments: Sequence[_Environment]) -> tuple[Deletion, ...]:
    strays = tuple(Deletion.of(resource, obj) for resource, obj in view.strays)
    return (*strays, *(deletion for item in environments for deletion in item.planned.deletions))


def _in_use(environments: Sequence[_Environment], current: str | None) -> frozenset[str]:
    names = {current}
    for item in environments:
        wanted = item.planned.wanted
        names |= {wanted.version, wanted.pinned_version, item.computed.serving}
        names |= {pod.version for pod in item.planned.seen.pods}
        names |= {
            child.desired["spec"]["template"]["metadata"]["annotations"]["tieline.dev/version"]
            for child in item.planned.children
            if child.resource.kind == "Deployment"
        }
    return frozenset(name for name in names if name)


def _status(
    view: ObservedProject, environments: Sequence[_Environment], current: str | None, now: datetime
) -> dict[str, Any]:
    status: dict[str, Any] = {
        "environments": [
            status_of(item.planned.wanted, item.computed, item.planned.seen.previous, now)
            for item in environments
        ],
        "summary": ", ".join(f"{item.planned.wanted.name}: {item.computed.state}" for item in environments)[
            :_MAX_SUMMARY
        ],
    }
    if current:
        status["latestVersion"] = current
    return status


def _previous_status(view: ObservedProject) -> dict[str, Any]:
    """What was said before, while nothing new can be said."""
    previous = view.project.status.to_dict()
    return {key: value for key, value in previous.items() if key not in ("conditions", "observedGeneration")}


def _outcome(view: ObservedProject, environments: Sequence[_Environment]) -> Outcome:
    outcomes = [item.computed.outcome for item in environments]
    for outcome in outcomes:
        if outcome.status == "False":
            return outcome
    if view.duplicate:
        return view.duplicate
    if view.source.problem:
        return failed("FilesMissing", view.source.problem)
    schema = _schema_problem(view)
    if schema is not None and schema.status == "False":
        return schema
    for outcome in outcomes:
        if outcome.status == "Unknown":
            return in_progress(outcome.reason, outcome.message)
    if schema is not None:
        return schema
    running = [item for item in environments if item.computed.state is EnvironmentState.RUNNING]
    if running:
        return ready("Running", "; ".join(item.computed.outcome.message for item in environments)[:1024])
    return ready(outcomes[0].reason, "; ".join(outcome.message for outcome in outcomes)[:1024])


def _schema_problem(view: ObservedProject) -> Outcome | None:
    """What keeps the schema of variables from being used. Environments that serve keep the last valid variables."""
    if view.schema is not None:
        if view.schema.problem is None:
            return None
        return failed(
            _SCHEMA_TOO_COSTLY if view.schema.costly else _SCHEMA_INVALID,
            f"The schema of variables cannot be used: {view.schema.problem}; correct spec.dynamicVariablesSchema. "
            "Code runs with the last variables that were valid",
        )
    before = view.project.condition(READY)
    if before is None or view.project.status.observed_generation != view.project.metadata.generation:
        return in_progress("SchemaUnchecked", "The schema of variables is being checked")
    # It was checked before a restart: what was said stays until there is something new to say.
    if before.reason in (_SCHEMA_INVALID, _SCHEMA_TOO_COSTLY):
        return failed(before.reason, before.message)
    return None
