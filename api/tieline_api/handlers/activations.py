"""Operations on activations: an environment for one user, and its variables."""

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from tieline_api import errors
from tieline_api.auth.permissions import Permission, permission
from tieline_api.body_limits import BodyKind
from tieline_api.cluster import sorted_lists
from tieline_api.cluster.etags import etag
from tieline_api.cluster.writer import Change, IdTakenError, set_or_drop
from tieline_api.conversion.lists import readable
from tieline_api.http.operation import ORGANISATION, AnyCall, Call, Operations, Reply
from tieline_api.schemas import users as rest
from tieline_api.schemas.base import Empty
from tieline_api.schemas.connections import Connection
from tieline_api.use_cases import end_user_checks
from tieline_api.use_cases.connection_create import (
    CreatedConnections,
    PlannedConnection,
    create_connections,
    delete_created,
    plan_connection,
)
from tieline_api.views.activation_lookup import (
    EnvironmentRef,
    activation_to_rest,
    activations_at,
    activations_of,
    check_variables,
    environment_in_path,
    find_activation,
    find_environment,
    unusable_warning,
    unusable_warnings,
    verdicts_about,
)
from tieline_api.views.connections import connection_reply
from tieline_api.views.end_users import sees_connection
from tieline_core.identity.ids import child_id, object_id, object_name
from tieline_core.kubernetes import KubeError, Unavailable
from tieline_core.objects import Object
from tieline_core.resources.objects import (
    ActivationObject,
    ConnectionObject,
    ConnectionTemplateObject,
    EndUserObject,
)

ACTIVATIONS = f"{ORGANISATION}/environments/{{environment_id}}/activations"
ACTIVATION = f"{ACTIVATIONS}/{{activation_id}}"

OPERATIONS = Operations("Activations")


@OPERATIONS.add(
    "POST",
    f"{ORGANISATION}/activations",
    id="activateUser",
    summary="Activate a user on an environment",
    permissions=(Permission("create", "activations"), Permission("create", "connections")),
    end_user=end_user_checks.activation,
    link_sources={"activation_id": "/id", "environment_id": "/environment/id", "user_id": "/user/id"},
    link_parameters={"userId": "user_id", "environmentId": "environment_id"},
    size=BodyKind.CREDENTIALS,
    errors=(409, 502),
)
async def activate(call: Call[None, rest.ActivationCreate]) -> Reply[rest.Activation]:
    """Activates a user on an environment. A user that is active there gets the new connections and variables."""
    platform, body = call.platform, call.body
    user = platform.cluster.user(call.namespace, body.user_id)
    if user is None:
        raise errors.invalid("userId", "is no user of this organisation: create the user first")
    environment = find_environment(call, body.environment_id)
    if environment is None:
        raise errors.invalid("environmentId", "is no environment of this organisation")
    if body.dynamic_variables is not None:
        await check_variables(call, environment.project, body.dynamic_variables, field="dynamicVariables")
    wanted = _wanted(call, environment, user)
    created = await create_connections(
        platform,
        [one.connection for one in wanted if isinstance(one.connection, PlannedConnection)],
        caller=call.caller,
    )
    connections = [
        {
            "connectionTemplate": one.template["metadata"]["name"],
            "connectionRef": {"name": found["metadata"]["name"]},
        }
        for one in wanted
        if (found := _found(one.connection, created))
    ]
    active = next(iter(activations_of(call, environment, user)), None)
    spec = {**environment_spec(environment), "endUserRef": {"name": user["metadata"]["name"]}}
    set_or_drop(spec, "connections", connections)
    set_or_drop(spec, "variables", body.dynamic_variables)

    def change(_live: ActivationObject, mine: Object) -> None:
        kept = {item["connectionTemplate"]: item for item in mine["spec"].get("connections") or ()}
        kept.update({item["connectionTemplate"]: item for item in connections})
        set_or_drop(mine["spec"], "connections", list(kept.values()))
        if body.dynamic_variables is not None:
            mine["spec"]["variables"] = body.dynamic_variables

    identifier = child_id(environment.id, f"user/{object_id(user)}")
    try:
        obj = await create_or_change(call, active, identifier, spec=spec, change=change)
    except (errors.ApiError, KubeError) as error:
        # What was connected stays, and so does what the activation may refer to after all.
        if not created.exchanged and not isinstance(error, Unavailable):
            await delete_created(platform, created.connections.values())
        raise
    if created.error:
        created.error.extra["activationId"] = object_id(obj)
        raise created.error
    shown = activation_to_rest(call, environment, obj, await verdicts_about(call, environment, [obj]))
    return Reply(body=shown, warnings=unusable_warning(call, environment, obj))


@OPERATIONS.add(
    "GET",
    ACTIVATIONS,
    id="listActivations",
    summary="List the activations of an environment",
    permissions=permission("list", "activations"),
)
async def list_activations(call: Call[rest.ActivationsQuery, None]) -> Reply[rest.ActivationList]:
    """Returns the activations of users on an environment, oldest first. The header Link leads to the next page."""
    environment, query = environment_in_path(call), call.query
    page = sorted_lists.page(
        activations_at(call, environment),
        kind=f"activations/{environment.id}",
        first=query.first,
        after=query.after,
    )
    headers = {}
    if page.next:
        path = f"/api/v2/o/{call.organisation.id}/environments/{environment.id}/activations"
        headers["Link"] = f'<{path}?first={query.first}&after={page.next}>; rel="next"'
    found = _with_users(call, page.items)
    return replace(await _listed(call, environment, found), headers=headers)


@OPERATIONS.add(
    "GET",
    f"{ORGANISATION}/environment/{{environment_id}}/users/{{external_user_id}}/activations",
    id="listUserActivations",
    summary="List a user's activations on an environment",
    permissions=permission("list", "activations"),
    end_user=end_user_checks.own_activations,
)
async def list_user_activations(call: Call[None, None]) -> Reply[rest.ActivationList]:
    """Returns a user's activations on an environment. The list is empty for a user that nobody has created yet."""
    environment = environment_in_path(call)
    user = call.platform.cluster.user(call.namespace, call.path["external_user_id"])
    found = activations_of(call, environment, user) if user else []
    return await _listed(call, environment, found)


async def _listed(
    call: AnyCall, environment: EnvironmentRef, found: list[ActivationObject]
) -> Reply[rest.ActivationList]:
    verdicts = await verdicts_about(call, environment, found)
    shown = readable(found, lambda obj: activation_to_rest(call, environment, obj, verdicts))
    return Reply(
        body=rest.ActivationList(shown.items),
        warnings=(*shown.warnings, *unusable_warnings(call, environment, found)),
    )


def _with_users(call: AnyCall, activations: Iterable[ActivationObject]) -> list[ActivationObject]:
    """Without those whose user does not exist (any more): every activation in a list has a user."""
    cluster = call.platform.cluster
    return [one for one in activations if cluster.referred(cluster.users, one, "endUserRef") is not None]


@OPERATIONS.add(
    "GET",
    ACTIVATION,
    id="getActivation",
    summary="Get an activation",
    permissions=permission("get", "activations"),
    end_user=end_user_checks.own_activation,
    conditional=True,
)
async def get_activation(call: Call[None, None]) -> Reply[rest.Activation]:
    """Returns an activation. The environment's static activation, which has no user, always exists."""
    environment = environment_in_path(call)
    obj = find_activation(call, environment, call.path["activation_id"])
    # What it shows of the environment, and of the variables that no longer fit, changes with the project.
    verdicts = await verdicts_about(call, environment, [obj] if obj else [])
    body = activation_to_rest(call, environment, obj, verdicts)
    return Reply(
        body=body,
        etag=etag(obj, environment.project) if obj else None,
        warnings=unusable_warning(call, environment, obj),
    )


@OPERATIONS.add(
    "DELETE",
    ACTIVATION,
    id="deleteActivation",
    summary="Delete activation",
    permissions=permission("delete", "activations"),
    end_user=end_user_checks.own_activation,
    empty=True,
)
async def delete_activation(call: Call[None, None]) -> Reply[Empty]:
    """Ends an activation. The static activation only loses its variables."""
    obj = find_activation(call, environment_in_path(call), call.path["activation_id"])
    if obj is not None:
        await call.platform.writer.delete(call.platform.cluster.activations, obj)
    return Reply()


@OPERATIONS.add(
    "GET",
    f"{ORGANISATION}/environment-systems/{{connection_template_id}}/activations/{{activation_id}}",
    id="getActivationConnection",
    summary="Get the connection that an activation uses for a template",
    permissions=(Permission("get", "activations"), Permission("get", "connections")),
    end_user=end_user_checks.connection_of_own_activation,
    conditional=True,
)
async def get_activation_connection(call: Call[None, None]) -> Reply[Connection]:
    """Returns the connection that an activation uses for a dynamic template."""
    cluster = call.platform.cluster
    template = cluster.require(cluster.templates, call.namespace, call.path["connection_template_id"])
    activation = cluster.require(cluster.activations, call.namespace, call.path["activation_id"])
    name = template["metadata"]["name"]
    for item in activation["spec"].get("connections") or ():
        if item["connectionTemplate"] == name:
            connection = cluster.connections.get(call.namespace, item["connectionRef"]["name"])
            if connection is not None and sees_connection(call, connection):
                body = connection_reply(call, connection, template=template)
                return Reply(body=body, etag=etag(connection))
    raise errors.ApiError(404, "not_found", "The activation has no connection for this template")


class _Wanted(NamedTuple):
    """A connection that an activation is to have for a template: one that is there, or a new one."""

    template: ConnectionTemplateObject
    connection: ConnectionObject | PlannedConnection


def _wanted(
    call: Call[object, rest.ActivationCreate], environment: EnvironmentRef, user: EndUserObject
) -> list[_Wanted]:
    """All that is asked for. ApiError where something of it cannot be; nothing has been written by then."""
    wanted: dict[str, _Wanted] = {}
    for index, given in enumerate(call.body.connections):
        path = f"connections[{index}]"
        template = _dynamic_template(call, environment, given, field=f"{path}.connectionTemplateId")
        name = template["metadata"]["name"]
        if name in wanted:
            raise errors.invalid(f"{path}.connectionTemplateId", "is given twice: one connection for each")
        if given.connection is not None:
            if given.connection.external_id not in (None, user["spec"]["externalId"]):
                raise errors.invalid(
                    f"{path}.connection.externalId",
                    "is another user than the one who is activated: leave it out",
                )
            connection: ConnectionObject | PlannedConnection = plan_connection(
                call.platform,
                given.connection,
                organisation=call.organisation,
                template=template,
                user=user,
                path=f"{path}.connection",
            )
        else:
            connection = _existing(call, given, template=template, user=user, path=path)
        wanted[name] = _Wanted(template, connection)
    return list(wanted.values())


def _found(
    connection: ConnectionObject | PlannedConnection, created: CreatedConnections
) -> ConnectionObject | None:
    return (
        created.connections.get(connection.path) if isinstance(connection, PlannedConnection) else connection
    )


def _dynamic_template(
    call: AnyCall, environment: EnvironmentRef, given: rest.GivenConnection, *, field: str
) -> ConnectionTemplateObject:
    cluster = call.platform.cluster
    template = cluster.find(cluster.templates, call.namespace, given.connection_template_id)
    if template is None or not environment.holds(template):
        raise errors.invalid(field, "is no connection template of the environment")
    if not template["spec"].get("dynamic"):
        raise errors.invalid(field, "is a static template: it has one connection for all, link that")
    return template


def _existing(
    call: AnyCall,
    given: rest.GivenConnection,
    *,
    template: ConnectionTemplateObject,
    user: EndUserObject,
    path: str,
) -> ConnectionObject:
    cluster = call.platform.cluster
    found = cluster.find(cluster.connections, call.namespace, given.existing_connection_id or "")
    field = f"{path}.existingConnectionId"
    if found is None:
        raise errors.invalid(field, "is no connection of this organisation")
    if found["spec"]["systemRef"] != template["spec"]["systemRef"]:
        raise errors.invalid(field, "is a connection of another system than the template's")
    owner = found["spec"].get("endUserRef")
    if owner and owner["name"] != user["metadata"]["name"]:
        raise errors.invalid(field, "belongs to another user")
    return found


async def create_or_change(
    call: AnyCall,
    obj: ActivationObject | None,
    identifier: str,
    *,
    spec: Object,
    change: Change[ActivationObject],
    if_match: str | None = None,
    prepare: Callable[[], Awaitable[None]] | None = None,
) -> ActivationObject:
    """Changes the activation, or creates it; where another replica has just done so, changes that one.

    ``prepare`` is called after each computation of the change, before it is applied.
    """
    writer, cache = call.platform.writer, call.platform.cluster.activations
    name = obj["metadata"]["name"] if obj else object_name(identifier)
    if obj is None:
        if if_match is not None:
            raise errors.precondition_failed()
        with suppress(IdTakenError):
            return await writer.create(cache, call.namespace, identifier, spec, chosen_by_client=True)
    return await writer.change(cache, call.namespace, name, change, if_match=if_match, prepare=prepare)


def environment_spec(environment: EnvironmentRef) -> Object:
    """The part of an activation's spec that says where it is."""
    return {"projectRef": {"name": environment.project["metadata"]["name"]}, "environment": environment.name}
