"""How environments and activations are found and shown."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tieline_api import errors
from tieline_api.conversion.projects import environments_to_rest
from tieline_api.conversion.users import user_to_rest
from tieline_api.engine.operation import Call
from tieline_api.errors import FieldError
from tieline_api.models import users as rest
from tieline_api.models.projects import Environment
from tieline_api.operations.connections import connection_reply
from tieline_api.operations.project_views import versions_of
from tieline_api.store import indexes, orders
from tieline_core.ids import environment_id, object_id, parse_id, static_activation_id
from tieline_core.variables import InvalidSchema, in_effect, variable_errors

Obj = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Place:
    """An environment of a project."""

    project: Obj
    name: str
    id: str


def environment_to_rest(call: Call[Any, Any], place: Place) -> Environment:
    """The environment as REST tells it, without files."""
    versions = versions_of(call.platform.world, place.project)
    found = environments_to_rest(place.project, versions, {})
    return next(one for one in found if one.name == place.name)


def find_place(call: Call[Any, Any], identifier: str) -> Place | None:
    """The environment with this id."""
    world = call.platform.world
    canonical = parse_id(identifier)
    if canonical is None:
        return None
    for project in world.referring(world.projects, "environment", call.namespace, canonical):
        for name in indexes.environment_names(project):
            if environment_id(object_id(project), name) == canonical:
                return Place(project=project, name=name, id=canonical)
    return None


def need_place(call: Call[Any, Any]) -> Place:
    """The environment in the path."""
    identifier = call.path["environment_id"]
    place = find_place(call, identifier)
    if place is None:
        raise errors.not_found("environment", identifier)
    return place


def activations_at(call: Call[Any, Any], place: Place) -> orders.Rows:
    """The activations of users on an environment, oldest first."""
    group = indexes.key(call.namespace, place.project["metadata"]["name"], place.name)
    return call.platform.world.ordered.activations.rows(group)


def activations_of(call: Call[Any, Any], place: Place, user: Obj) -> list[Obj]:
    """The activations of one user on an environment, oldest first."""
    world, project = call.platform.world, place.project["metadata"]["name"]
    found = world.referring(world.activations, "user", call.namespace, user["metadata"]["name"])
    return [
        one
        for one in found
        if one["spec"]["projectRef"]["name"] == project and one["spec"]["environment"] == place.name
    ]


def find_activation(call: Call[Any, Any], place: Place, identifier: str) -> Obj | None:
    """The activation with this id; None for the static one while there is no object for it. 404 otherwise."""
    world = call.platform.world
    canonical = parse_id(identifier)
    if canonical == static_activation_id(place.id):
        return world.static_activation(call.namespace, place.project["metadata"]["name"], place.name)
    found = world.need(world.activations, call.namespace, identifier)
    spec = found["spec"]
    if spec["projectRef"]["name"] != place.project["metadata"]["name"] or spec["environment"] != place.name:
        raise errors.not_found("activation", identifier)
    return found


def activation_to_rest(call: Call[Any, Any], place: Place, obj: Mapping[str, Any] | None) -> rest.Activation:
    """The REST form of an activation; without an object that of a static one where nothing is set."""
    world = call.platform.world
    if obj is None:
        identifier = static_activation_id(place.id)
        shown = environment_to_rest(call, place)
        return rest.Activation(id=identifier, environment=shown, connections=[], dynamic_variables={})
    user = world.referred(world.users, obj, "endUserRef")
    connections = []
    for item in obj["spec"].get("connections") or ():
        template = world.templates.get(call.namespace, item["connectionTemplate"])
        connection = world.connections.get(call.namespace, item["connectionRef"]["name"])
        if connection is not None:
            connections.append(
                connection_reply(world, connection, organisation=call.organisation.id, template=template)
            )
    broken = _variable_errors(place.project, obj)
    return rest.Activation(
        id=object_id(obj),
        user=user_to_rest(user, organisation=call.organisation.id) if user else None,
        environment=environment_to_rest(call, place),
        connections=connections,
        dynamic_variables=obj["spec"].get("variables") or {},
        variable_errors=broken or None,
        last_valid_variables=in_effect(_schema(place.project), obj) if broken else None,
    )


def check_variables(project: Mapping[str, Any], variables: Mapping[str, Any], *, field: str = "") -> None:
    """ApiError 422 naming the variables that break the project's schema."""
    try:
        found = variable_errors(_schema(project), variables)
    except InvalidSchema as error:
        raise errors.conflict(f"The project's variables schema cannot be used: {error}") from error
    if found:
        prefix = f"{field}." if field else ""
        raise errors.invalid_fields(
            FieldError(f"{prefix}{one.path}" if one.path else field, one.message) for one in found
        )


def _variable_errors(project: Obj, activation: Mapping[str, Any]) -> list[rest.VariableError]:
    """Where an activation's variables break the schema as it is now."""
    variables = activation["spec"].get("variables") or {}
    try:
        found = variable_errors(_schema(project), variables)
    except InvalidSchema as error:
        return [rest.VariableError(field="", message=f"The project's schema cannot be used: {error}")]
    return [rest.VariableError(field=one.path, message=one.message) for one in found]


def _schema(project: Mapping[str, Any]) -> Any:
    return project["spec"].get("dynamicVariablesSchema")
