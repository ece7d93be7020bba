"""Operations on connections."""

from typing import Any

from tieline_api import errors
from tieline_api.auth.permissions import Permission, permission
from tieline_api.body_limits import BodyKind
from tieline_api.cache import indexes, sorted_lists
from tieline_api.cache.cluster_cache import ClusterCache
from tieline_api.conversion import connections as convert
from tieline_api.conversion.lists import readable
from tieline_api.cursors import Slice
from tieline_api.http.operation import ORGANISATION, Call, Operation, Reply
from tieline_api.internal.pod_credentials import token_secret_of
from tieline_api.schemas import connections as rest
from tieline_api.schemas.base import Empty
from tieline_api.store.etags import etag
from tieline_api.store.writer import refuse_removal
from tieline_api.use_cases import end_user_checks
from tieline_api.use_cases.connection_create import create_connections, plan_connection
from tieline_api.use_cases.connection_update import (
    link_if_free,
    refuse_taken_name,
    update_connection_object,
)
from tieline_api.use_cases.connection_uses import is_used
from tieline_api.use_cases.status_overlay import connection_with_findings, system_with_findings
from tieline_api.use_cases.user_create import resolve_user
from tieline_core.objects import Object

CONNECTION = f"{ORGANISATION}/connections/{{connection_id}}"


def connection_reply(
    world: ClusterCache, obj: Object, *, organisation: str, template: Object | None = None
) -> rest.Connection:
    """The REST form of a connection, with what it refers to looked up.

    ``template`` is the one that it is used for, where that is not the one that it was created against.
    """
    system = world.referred(world.systems, obj, "systemRef")
    return convert.connection_to_rest(
        connection_with_findings(world, obj, system),
        organisation=organisation,
        system=system_with_findings(world, system) if system else None,
        template=template or world.referred(world.templates, obj, "connectionTemplateRef"),
        tokens=lambda credential: token_secret_of(world, obj, {"id": credential}),
    )


def page_of_connections(world: ClusterCache, page: Slice[Object], *, organisation: str) -> Reply:
    """A page of connections, oldest first."""
    shown = readable(page.items, lambda obj: connection_reply(world, obj, organisation=organisation))
    body = rest.ConnectionPage(total_count=page.total, items=shown.items, next=page.next, prev=page.prev)
    return Reply(body=body, warnings=shown.warnings)


async def list_connections(call: Call[rest.ConnectionsQuery, None]) -> Reply:
    """Returns a page of connections, oldest first; of one system or one user if you filter."""
    rows = _chosen(call)
    if call.reach is not None:
        rows = [row for row in rows if call.reach.has_connection(row.obj)]
    page = sorted_lists.page(rows, kind="connections", **call.query.window)
    return page_of_connections(call.platform.world, page, organisation=call.organisation.id)


async def get_connection(call: Call[None, None]) -> Reply:
    """Returns a connection. Values of credentials are never returned."""
    world = call.platform.world
    return _reply(call, world.need(world.connections, call.namespace, call.path["connection_id"]))


async def create_connection(call: Call[None, rest.ConnectionCreate]) -> Reply:
    """Creates a connection to the system of a connection template.

    A static template that has no connection yet is linked to the new one. A connection with externalId belongs to that
    user, who is created if the external id is new, and is linked to no static template.
    """
    world = call.platform.world
    template = world.need(world.templates, call.namespace, call.body.connection_template_id)
    external = call.body.connection.external_id
    user = await resolve_user(call, external, field="connection.externalId") if external else None
    planned = plan_connection(
        call.platform,
        call.body.connection,
        organisation=call.organisation,
        template=template,
        user=user.obj if user else None,
    )
    if user:
        await user.create(call)
    created = await create_connections(call.platform, [planned], caller=call.caller)
    (obj,) = created.connections.values()
    if user is None:  # a static template has one connection for everybody: never that of one user
        await link_if_free(call.platform, template, obj)
    if created.error:
        raise created.error
    return _reply(call, obj)


async def update_connection(call: Call[None, rest.ConnectionUpdate]) -> Reply:
    """Updates name, credentials and base URL. Fields and values that you leave out stay; credentials that you do not
    list are removed."""
    platform, body = call.platform, call.body
    world = platform.world
    obj = world.need(world.connections, call.namespace, call.path["connection_id"])
    system = world.referred(world.systems, obj, "systemRef")
    if body.name is not None and body.name != obj["spec"]["name"]:
        refuse_taken_name(
            world,
            obj["spec"]["systemRef"]["name"],
            body.name,
            namespace=call.namespace,
            user=obj["spec"].get("endUserRef"),
        )
    if body.credentials is not None and system is None:
        raise errors.conflict(
            "The connection's system does not exist: credentials cannot be checked against it"
        )
    changed = await update_connection_object(
        platform,
        body,
        obj=obj,
        system=system,
        organisation=call.organisation.id,
        caller=call.caller,
        if_match=call.if_match,
    )
    return _reply(call, changed)


async def delete_connection(call: Call[None, None]) -> Reply:
    """Deletes a connection and unlinks it from its templates."""
    world = call.platform.world
    obj = world.need(world.connections, call.namespace, call.path["connection_id"])
    name = obj["metadata"]["name"]
    for template in await world.referring_now(world.templates, "connectionRef", call.namespace, name):
        await _unlink(call, template, obj)
    await call.platform.writer.delete(world.connections, obj)
    return Reply()


async def link_connection(call: Call[None, rest.LinkBody]) -> Reply:
    """Links a static template to this connection; it replaces the one that the template had."""
    world = call.platform.world
    obj = world.need(world.connections, call.namespace, call.path["connection_id"])
    template = world.need(world.templates, call.namespace, call.body.connection_template_id)
    if template["spec"]["systemRef"] != obj["spec"]["systemRef"]:
        raise errors.invalid("connectionTemplateId", "is a template of another system than the connection's")

    def change(live: Object, mine: Object) -> None:
        if live["spec"].get("dynamic"):
            raise errors.invalid(
                "connectionTemplateId",
                "is a dynamic template: its connections come with activations, link a static one",
            )
        mine["spec"]["connectionRef"] = {"name": obj["metadata"]["name"]}

    await call.platform.writer.change(world.templates, call.namespace, template["metadata"]["name"], change)
    return Reply()


async def unlink_connection(call: Call[None, rest.LinkBody]) -> Reply:
    """Unlinks the connection from a template. The answer is 404 when they are not linked."""
    world = call.platform.world
    obj = world.need(world.connections, call.namespace, call.path["connection_id"])
    template = world.need(world.templates, call.namespace, call.body.connection_template_id)
    if not _refers(template, "connectionRef", obj):
        raise errors.ApiError(404, "not_found", "The connection is not linked with this template")
    await _unlink(call, template, obj)
    return Reply()


async def _unlink(call: Call[Any, Any], template: Object, connection: Object) -> None:
    def change(live: Object, mine: Object) -> None:
        if not _refers(live, "connectionRef", connection):
            return
        refuse_removal(live, ("connectionRef",), what=f'The link of the template "{live["spec"]["name"]}"')
        mine["spec"].pop("connectionRef", None)

    templates = call.platform.world.templates
    await call.platform.writer.change(templates, call.namespace, template["metadata"]["name"], change)


def _chosen(call: Call[rest.ConnectionsQuery, None]) -> sorted_lists.Rows:
    """The connections that the query asks for, in order."""
    rows = _of_system_and_user(call)
    unused = call.query.unused
    if unused is None:
        return rows
    return [row for row in rows if is_used(call.platform.world, row.obj) is not unused]


def _of_system_and_user(call: Call[rest.ConnectionsQuery, None]) -> sorted_lists.Rows:
    """The connections of the query's system and user, in order; none of those that are not there."""
    world, query, namespace = call.platform.world, call.query, call.namespace
    system = world.find(world.systems, namespace, query.system_id) if query.system_id is not None else None
    user = world.user(namespace, query.end_user_id) if query.end_user_id is not None else None
    if (query.system_id is not None and system is None) or (query.end_user_id is not None and user is None):
        return []
    if user is not None:
        rows = world.ordered.connections_of_user.rows(indexes.key(namespace, user["metadata"]["name"]))
        return [row for row in rows if system is None or _refers(row.obj, "systemRef", system)]
    if system is not None:
        return world.ordered.connections_of_system.rows(indexes.key(namespace, system["metadata"]["name"]))
    return world.ordered.connections.rows(namespace)


def _refers(obj: Object, field: str, target: Object) -> bool:
    return bool((obj["spec"].get(field) or {}).get("name") == target["metadata"]["name"])


def _reply(call: Call[Any, Any], obj: Object) -> Reply:
    world = call.platform.world
    body = connection_reply(world, obj, organisation=call.organisation.id)
    held = [token_secret_of(world, obj, item) for item in obj["spec"].get("credentials") or ()]
    return Reply(body=body, etag=etag(obj, world.referred(world.systems, obj, "systemRef"), *held))


OPERATIONS = (
    Operation(
        id="listConnections",
        path=f"{ORGANISATION}/connections",
        summary="List connections",
        handler=list_connections,
        permissions=permission("list", "connections"),
        end_user=end_user_checks.own_connections,
        response=rest.ConnectionPage,
    ),
    Operation(
        id="createConnection",
        method="POST",
        path=f"{ORGANISATION}/connections",
        summary="Create a connection",
        handler=create_connection,
        permissions=permission("create", "connections"),
        end_user=end_user_checks.created_connection,
        link_sources={"connection_id": "/id", "template_id": "/connectionTemplateId"},
        link_parameters={"connectionTemplateId": "template_id"},
        size=BodyKind.CREDENTIALS,
        success=201,
        response=rest.Connection,
        errors=(409, 502),
    ),
    Operation(
        id="getConnection",
        path=CONNECTION,
        summary="Get a connection",
        handler=get_connection,
        permissions=permission("get", "connections"),
        end_user=end_user_checks.own_connection,
        response=rest.Connection,
        conditional=True,
    ),
    Operation(
        id="updateConnection",
        method="PUT",
        path=CONNECTION,
        summary="Update connection",
        handler=update_connection,
        permissions=permission("patch", "connections"),
        end_user=end_user_checks.updated_connection,
        size=BodyKind.CREDENTIALS,
        response=rest.Connection,
        errors=(409, 502),
        conditional=True,
    ),
    Operation(
        id="deleteConnection",
        method="DELETE",
        path=CONNECTION,
        summary="Delete a connection",
        handler=delete_connection,
        permissions=permission("delete", "connections"),
        end_user=end_user_checks.deleted_connection,
        success=204,
    ),
    Operation(
        id="linkConnection",
        method="POST",
        path=f"{CONNECTION}/link",
        summary="Link connection to environment",
        handler=link_connection,
        permissions=(Permission("get", "connections"), Permission("patch", "connectiontemplates")),
        link_parameters={"connectionTemplateId": "template_id"},
        success=201,
        response=Empty,
        empty=True,
    ),
    Operation(
        id="unlinkConnection",
        method="DELETE",
        path=f"{CONNECTION}/link",
        summary="Unlink connection from environment",
        handler=unlink_connection,
        permissions=(Permission("get", "connections"), Permission("patch", "connectiontemplates")),
        link_parameters={"connectionTemplateId": "template_id"},
        success=204,
    ),
)
