"""Activation: do project, environment, user and connections exist, and do the variables fit the schema?"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tieline_core.evaluation.variables_checker import VariablesChecker
from tieline_core.evaluation.verdicts import FIT, Verdict
from tieline_core.kubernetes.resources import (
    ACTIVATIONS,
    CONNECTION_TEMPLATES,
    CONNECTIONS,
    END_USERS,
    PROJECTS,
)
from tieline_core.resources import Activation, ConnectionTemplate, Project
from tieline_core.resources.activations import ActivationConnection
from tieline_core.resources.parsed_cache import PROJECT, TEMPLATE
from tieline_operator.apply.plan import Deferred, Key, Object, Outcome, Plan, failed, ready
from tieline_operator.cache.cluster_cache import ClusterCache
from tieline_operator.cache.indexers import joined, ref
from tieline_operator.reconcilers.references import environment_status, not_found, not_ready
from tieline_operator.reconcilers.uniqueness import earlier_claimant, id_conflict


@dataclass(frozen=True, kw_only=True)
class ObservedActivation:
    """An Activation with what it refers to."""

    activation: Activation
    id_conflict: Outcome | None = None
    older_holder: str | None = None
    """The older activation of the same environment for the same user."""
    project: Project | None = None
    user_found: bool = True
    templates: Mapping[str, ConnectionTemplate]
    """The environment's templates, and those that the activation names, by object name."""
    connections: Mapping[str, Object]
    """The connections that the activation names, by object name."""
    verdict: Verdict = FIT
    """The result of checking the variables against the project's schema."""


class ActivationReconciler:
    """Reconciles activations."""

    def __init__(self, checker: VariablesChecker, enqueue: Callable[[Key], None]) -> None:
        self._checker = checker
        self._enqueue = enqueue

    async def reconcile(self, cache: ClusterCache, obj: Object, _now: datetime) -> Plan | Deferred:
        """Observes the Activation and plans, once it is known whether its variables follow the schema."""
        activation = Activation.read(obj)
        project = cache[PROJECTS].get(activation.namespace, activation.spec.project_ref.name)
        verdict: Verdict | None = FIT
        if project is not None:
            key = Key(ACTIVATIONS.kind, activation.namespace, activation.name)
            verdict = self._checker.request(
                activation.namespace,
                project["spec"].get("dynamicVariablesSchema"),
                activation.spec.variables,
                lambda: self._enqueue(key),
            )
        return Deferred() if verdict is None else plan(observe(cache, obj, activation, project, verdict))


def observe(
    cache: ClusterCache, obj: Object, activation: Activation, project: Object | None, verdict: Verdict
) -> ObservedActivation:
    """Collects what the plan needs."""
    spec, namespace = activation.spec, activation.namespace
    user = spec.end_user_ref.name if spec.end_user_ref else None
    index_key = joined(namespace, spec.project_ref.name, spec.environment)
    named = (
        cache[CONNECTION_TEMPLATES].get(namespace, item.connection_template) for item in spec.connections
    )
    templates = [*cache[CONNECTION_TEMPLATES].by_index("environment", index_key), *filter(None, named)]
    connections = (cache[CONNECTIONS].get(namespace, item.connection_ref.name) for item in spec.connections)
    return ObservedActivation(
        activation=activation,
        id_conflict=id_conflict(obj, cache[ACTIVATIONS]),
        older_holder=earlier_claimant(obj, cache[ACTIVATIONS].by_index("target", joined(index_key, user))),
        project=PROJECT.of(project) if project else None,
        user_found=user is None or cache[END_USERS].get(namespace, user) is not None,
        templates={item["metadata"]["name"]: TEMPLATE.of(item) for item in templates},
        connections={item["metadata"]["name"]: item for item in filter(None, connections)},
        verdict=verdict,
    )


def plan(observed: ObservedActivation) -> Plan:
    """Ready when the environment can run for the user with these variables and connections."""
    activation, project = observed.activation, observed.project
    status = environment_status(project, activation.spec.environment)
    variables, variable_problem = _variables(activation, project, observed.verdict)
    problem = observed.id_conflict or next(_problems(observed, found=bool(status)), None) or variable_problem
    return Plan(
        outcome=problem or ready("Active", f'The environment "{activation.spec.environment}" runs for it'),
        status={**status, **variables},
    )


def _variables(
    activation: Activation, project: Project | None, verdict: Verdict
) -> tuple[dict[str, Any], Outcome | None]:
    """The part of the status about variables. The last valid ones stay while the new ones are invalid."""
    last = activation.status.last_valid_variables
    kept = {"lastValidVariables": last} if last else {}
    if project is None:
        return kept, None
    if verdict.problem is not None:
        message = (
            f'The schema of project "{project.name}" cannot be used: {verdict.problem}; '
            "correct the project's spec.dynamicVariablesSchema"
        )
        return kept, failed("SchemaTooCostly" if verdict.costly else "SchemaInvalid", message)
    if not verdict.errors:
        valid = activation.spec.variables
        return ({"lastValidVariables": valid} if valid else {}), None
    errors = [str(error) for error in verdict.errors]
    if verdict.costly:
        message = f"The variables cannot be used: {errors[0]}"
        return {**kept, "variableErrors": errors}, failed("VariablesTooCostly", message)
    message = f"The variables break the project's schema: {'; '.join(errors[:5])}; correct spec.variables"
    return {**kept, "variableErrors": errors}, failed("VariablesInvalid", message)


def _problems(observed: ObservedActivation, *, found: bool) -> Iterator[Outcome]:
    spec, namespace = observed.activation.spec, observed.activation.namespace
    if observed.project is None:
        name = spec.project_ref.name
        yield not_found("ProjectNotFound", name, namespace, "activation", "with another projectRef")
    elif not found:
        yield failed(
            "EnvironmentNotFound",
            f'Project "{spec.project_ref.name}" has no environment "{spec.environment}"; '
            "add it to the project's spec.environments, or delete this activation",
        )
    if not observed.user_found and spec.end_user_ref:
        name = spec.end_user_ref.name
        yield not_found("EndUserNotFound", name, namespace, "activation", "with another endUserRef")
    if observed.older_holder:
        yield failed(
            "ActivationTaken",
            f'The older activation "{observed.older_holder}" is for the same environment and user; delete one of them',
        )
    for item in spec.connections:
        yield from _connection_problems(item, observed)
    if spec.end_user_ref:
        yield from _missing_connections(observed)


def _connection_problems(item: ActivationConnection, observed: ObservedActivation) -> Iterator[Outcome]:
    spec, namespace = observed.activation.spec, observed.activation.namespace
    template = observed.templates.get(item.connection_template)
    connection = observed.connections.get(item.connection_ref.name)
    if template is None:
        yield failed(
            "TemplateNotFound",
            f'ConnectionTemplate "{item.connection_template}" does not exist in namespace {namespace}; '
            "create it, or remove it from spec.connections",
        )
        return
    environment = (template.spec.project_ref.name, template.spec.environment)
    if environment != (spec.project_ref.name, spec.environment) or not template.spec.dynamic:
        yield failed(
            "TemplateNotUsable",
            f'ConnectionTemplate "{template.name}" is not a dynamic template of this environment; '
            "remove it from spec.connections",
        )
    if connection is None:
        yield failed(
            "ConnectionNotFound",
            f'Connection "{item.connection_ref.name}" does not exist in namespace {namespace}; '
            f'create it, or correct connectionRef of "{item.connection_template}" in spec.connections',
        )
        return
    if ref(connection, "systemRef") != template.spec.system_ref.name:
        yield failed(
            "SystemDiffers",
            f'Connection "{item.connection_ref.name}" is not for the system "{template.spec.system_ref.name}" '
            f'of template "{template.name}"; use one that is',
        )
    owner, user = ref(connection, "endUserRef"), spec.end_user_ref.name if spec.end_user_ref else None
    if owner and owner != user:
        yield failed(
            "ConnectionOfAnotherUser",
            f'Connection "{item.connection_ref.name}" belongs to the EndUser "{owner}"; use one of this user\'s',
        )
    yield from not_ready(connection)


def _missing_connections(observed: ObservedActivation) -> Iterator[Outcome]:
    """A user's activation must bring a connection for each dynamic template of the environment."""
    spec = observed.activation.spec
    given = {item.connection_template for item in spec.connections}
    missing = sorted(
        template.spec.name
        for template in observed.templates.values()
        if template.spec.dynamic
        and template.name not in given
        and (template.spec.project_ref.name, template.spec.environment)
        == (spec.project_ref.name, spec.environment)
    )
    if missing:
        yield failed(
            "ConnectionMissing",
            f"There is no connection for {', '.join(missing)}; add one to spec.connections for each",
        )
