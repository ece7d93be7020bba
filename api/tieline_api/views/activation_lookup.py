"""How environments and activations are found and shown."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tieline_api import errors
from tieline_api.cluster import indexes, sorted_lists
from tieline_api.conversion.projects import environments_to_rest
from tieline_api.conversion.users import user_to_rest
from tieline_api.errors import FieldError
from tieline_api.http.operation import AnyCall
from tieline_api.schemas import users as rest
from tieline_api.schemas.projects import Environment
from tieline_api.views.connections import connection_reply
from tieline_api.views.end_users import seen_environment, sees_connection
from tieline_api.views.project_lookup import versions_of
from tieline_core.evaluation.pool import EvaluationBusy
from tieline_core.evaluation.variables_checker import check_all
from tieline_core.evaluation.verdicts import Verdict
from tieline_core.identity.ids import environment_id, object_id, parse_id, static_activation_id
from tieline_core.identity.names import environment_object_name
from tieline_core.objects import Json
from tieline_core.resources.activations import in_effect
from tieline_core.resources.objects import (
    ActivationObject,
    ConnectionTemplateObject,
    EndUserObject,
    ProjectObject,
)

# How long a write waits for its verdict, and how long a read does, which else shows what the operator has found.
_WRITE_SECONDS = 10.0
_READ_SECONDS = 2.0
_RETRY_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class EnvironmentRef:
    """An environment of a project."""

    project: ProjectObject
    name: str
    id: str

    def holds(self, obj: ActivationObject | ConnectionTemplateObject) -> bool:
        """Whether an activation or a template belongs to it."""
        spec = obj["spec"]
        project = self.project["metadata"]["name"]
        return bool(spec["projectRef"]["name"] == project and spec["environment"] == self.name)


def environment_to_rest(call: AnyCall, environment: EnvironmentRef) -> Environment:
    """The environment as REST tells it, without files."""
    cluster, project = call.platform.cluster, environment.project
    scale = partial(cluster.scale, project)
    found = environments_to_rest(project, versions_of(cluster, project), scale, {})
    return seen_environment(call, next(one for one in found if one.name == environment.name))


def find_environment(call: AnyCall, identifier: str) -> EnvironmentRef | None:
    """The environment with this id."""
    cluster = call.platform.cluster
    canonical = parse_id(identifier)
    if canonical is None:
        return None
    for project in cluster.referring(cluster.projects, "environment", call.namespace, canonical):
        for name in indexes.environment_names(project):
            if environment_id(object_id(project), name) == canonical:
                return EnvironmentRef(project=project, name=name, id=canonical)
    return None


async def environment_object_in_path(call: AnyCall) -> tuple[str, ...]:
    """The name of the Environment of the environment in the path."""
    environment = environment_in_path(call)
    return (environment_object_name(environment.project["metadata"]["name"], environment.name),)


def environment_in_path(call: AnyCall) -> EnvironmentRef:
    """The environment in the path."""
    identifier = call.path["environment_id"]
    environment = find_environment(call, identifier)
    if environment is None:
        raise errors.not_found("environment", identifier)
    return environment


def activations_at(call: AnyCall, environment: EnvironmentRef) -> sorted_lists.Rows[ActivationObject]:
    """The activations of users on an environment, oldest first."""
    group = indexes.key(call.namespace, environment.project["metadata"]["name"], environment.name)
    return call.platform.cluster.ordered.activations.rows(group)


def activations_of(call: AnyCall, environment: EnvironmentRef, user: EndUserObject) -> list[ActivationObject]:
    """The activations of one user on an environment, oldest first."""
    cluster = call.platform.cluster
    found = cluster.referring(cluster.activations, "user", call.namespace, user["metadata"]["name"])
    return [one for one in found if environment.holds(one)]


def find_activation(call: AnyCall, environment: EnvironmentRef, identifier: str) -> ActivationObject | None:
    """The activation with this id; None for the static one while there is no object for it. 404 otherwise.

    The static one is also called ``static``.
    """
    cluster = call.platform.cluster
    static = static_activation_id(environment.id)
    if identifier.lower() == "static" or parse_id(identifier) == static:
        return cluster.static_activation(
            call.namespace, environment.project["metadata"]["name"], environment.name
        )
    found = cluster.require(cluster.activations, call.namespace, identifier)
    if not environment.holds(found):
        raise errors.not_found("activation", identifier)
    return found


Verdicts = Mapping[str, Verdict | None]
"""What came out of checking activations' variables, by uid; None where that is not known yet."""


async def verdicts_about(
    call: AnyCall, environment: EnvironmentRef, activations: Sequence[ActivationObject]
) -> Verdicts:
    """The verdicts that can be had soon."""
    values = [obj["spec"].get("variables") or {} for obj in activations]
    found = await check_all(
        call.platform.checker, call.namespace, schema_of(environment.project), values, seconds=_READ_SECONDS
    )
    return {obj["metadata"]["uid"]: verdict for obj, verdict in zip(activations, found, strict=True)}


def activation_to_rest(
    call: AnyCall, environment: EnvironmentRef, obj: ActivationObject | None, verdicts: Verdicts
) -> rest.Activation:
    """The REST form of an activation; without an object that of a static one where nothing is set."""
    cluster = call.platform.cluster
    if obj is None:
        identifier = static_activation_id(environment.id)
        shown = environment_to_rest(call, environment)
        return rest.Activation(id=identifier, environment=shown, connections=[], dynamic_variables={})
    user = cluster.referred(cluster.users, obj, "endUserRef")
    connections = []
    for item in obj["spec"].get("connections") or ():
        template = cluster.templates.get(call.namespace, item["connectionTemplate"])
        connection = cluster.connections.get(call.namespace, item["connectionRef"]["name"])
        if connection is not None and sees_connection(call, connection):
            connections.append(connection_reply(call, connection, template=template))
    verdict = verdicts.get(obj["metadata"]["uid"])
    broken = _variable_errors(verdict, obj)
    return rest.Activation(
        id=object_id(obj),
        user=user_to_rest(user, organisation=call.organisation.id) if user else None,
        environment=environment_to_rest(call, environment),
        connections=connections,
        dynamic_variables=obj["spec"].get("variables") or {},
        variable_errors=broken or None,
        last_valid_variables=in_effect(obj, fit=False) if broken else None,
    )


def dynamic_templates(call: AnyCall, environment: EnvironmentRef) -> list[ConnectionTemplateObject]:
    """The templates of an environment that need a connection of each user."""
    cluster, project = call.platform.cluster, environment.project["metadata"]["name"]
    found = cluster.referring(cluster.templates, "environment", call.namespace, project, environment.name)
    return [template for template in found if template["spec"].get("dynamic")]


def unusable(templates: Sequence[ConnectionTemplateObject], obj: ActivationObject) -> str | None:
    """Why an activation cannot be used, for the header ``Warning``; None while nothing is known against it.

    ``templates`` are those that need a connection of each user. Missing connections are found with them, so that the
    response to a write names them. Everything else is the operator's Ready condition, if it is about the current spec.
    """
    if obj["spec"].get("endUserRef"):
        given = {item["connectionTemplate"] for item in obj["spec"].get("connections") or ()}
        missing = [f'"{one["spec"]["name"]}"' for one in templates if one["metadata"]["name"] not in given]
        if missing:
            return (
                f"The activation cannot be used: no connection for {', '.join(missing)}; "
                "activate the user again with one for each"
            )
    for condition in (obj.get("status") or {}).get("conditions") or ():
        current = condition.get("observedGeneration") == obj["metadata"].get("generation")
        if condition["type"] == "Ready" and condition["status"] == "False" and current:
            return f"The activation cannot be used: {condition['message']}"
    return None


def unusable_warning(
    call: AnyCall, environment: EnvironmentRef, obj: ActivationObject | None
) -> tuple[str, ...]:
    """A warning about one activation, if it cannot be used."""
    problem = unusable(dynamic_templates(call, environment), obj) if obj else None
    return (problem,) if problem else ()


def unusable_warnings(
    call: AnyCall, environment: EnvironmentRef, activations: Sequence[ActivationObject]
) -> tuple[str, ...]:
    """A warning with the id for each activation of a list that cannot be used."""
    templates = dynamic_templates(call, environment)
    found = ((object_id(obj), unusable(templates, obj)) for obj in activations)
    return tuple(f"{identifier}: {problem}" for identifier, problem in found if problem)


async def check_variables(
    call: AnyCall, project: ProjectObject, variables: Mapping[str, Any], *, field: str = ""
) -> None:
    """ApiError 422 naming the variables that break the project's schema; 429 when the check cannot run now."""
    verdict = await verdict_or_429(call, schema_of(project), variables)
    if verdict.problem is not None:
        raise errors.conflict(f"The project's variables schema cannot be used: {verdict.problem}")
    if verdict.errors:
        prefix = f"{field}." if field else ""
        raise errors.invalid_fields(
            FieldError(f"{prefix}{one.path}" if one.path else field, one.message) for one in verdict.errors
        )


async def verdict_or_429(
    call: AnyCall, schema: Mapping[str, Any] | None, variables: Mapping[str, Any]
) -> Verdict:
    """What comes out of checking; ApiError 429 where the organisation has too much waiting to be checked."""
    try:
        async with asyncio.timeout(_WRITE_SECONDS):
            return await call.platform.checker.check(call.namespace, schema, variables)
    except (EvaluationBusy, TimeoutError):
        raise errors.too_many_requests(
            "Too many variables of this organisation wait to be checked: try again in a moment",
            retry_after=_RETRY_SECONDS,
        ) from None


def schema_of(project: ProjectObject) -> Json | None:
    """The schema of a project's variables, if it has one."""
    return project["spec"].get("dynamicVariablesSchema")


def _variable_errors(verdict: Verdict | None, obj: ActivationObject) -> list[rest.VariableError]:
    """Where an activation's variables break the schema: as it is now, or else as the operator has found."""
    if verdict is None:
        messages = (obj.get("status") or {}).get("variableErrors") or ()
        return [rest.VariableError(field="", message=message) for message in messages]
    if verdict.problem is not None:
        return [
            rest.VariableError(field="", message=f"The project's schema cannot be used: {verdict.problem}")
        ]
    return [rest.VariableError(field=one.path, message=one.message) for one in verdict.errors]
