"""Operations on connections."""

from tieline_api import errors
from tieline_api.auth.permissions import Permission, permission
from tieline_api.body_limits import BodyKind
from tieline_api.cluster import indexes, sorted_lists
from tieline_api.cluster.etags import etag
from tieline_api.cluster.writer import refuse_removal
from tieline_api.credentials.credential_secrets import secret_references
from tieline_api.credentials.tokens_in_use import token_secret_of
from tieline_api.http.operation import ORGANISATION, AnyCall, Call, Operations, Reply
from tieline_api.schemas import connections as rest
from tieline_api.schemas.base import Empty
from tieline_api.use_cases import end_user_checks
from tieline_api.use_cases.connection_create import create_connections, plan_connection
from tieline_api.use_cases.connection_update import (
    link_if_free,
    refuse_taken_name,
    update_connection_object,
)
from tieline_api.use_cases.user_create import resolve_user
from tieline_api.views.connection_uses import is_used
from tieline_api.views.connections import connection_reply, page_of_connections
from tieline_api.views.credential_secrets import ends_before
from tieline_core.objects import Object, ObjectView
from tieline_core.resources.objects import ConnectionObject, ConnectionTemplateObject

CONNECTION = f"{ORGANISATION}/connections/{{connection_id}}"

OPERATIONS = Operations("Connections")


@OPERATIONS.add(
    "GET",
    f"{ORGANISATION}/connections",
    id="listConnections",
    summary="List connections",
    permissions=permission("list", "connections"),
    end_user=end_user_checks.own_connections,
)
async def list_connections(call: Call[rest.ConnectionsQuery, None]) -> Reply[rest.ConnectionPage]:
    """Returns a page of connections, oldest first. You can search their names, and filter by system, user, use and
    expiry."""
    rows = _chosen(call)
    if call.reach is not None:
        rows = [row for row in rows if call.reach.has_connection(row.obj)]
    page = sorted_lists.page(rows, kind="connections", **call.query.window)
    return page_of_connections(call, page)


@OPERATIONS.add(
    "GET",
    CONNECTION,
    id="getConnection",
    summary="Get a connection",
    permissions=permission("get", "connections"),
    end_user=end_user_checks.own_connection,
    conditional=True,
)
async def get_connection(call: Call[None, None]) -> Reply[rest.Connection]:
    """Returns a connection. Values of credentials are never returned."""
    cluster = call.platform.cluster
    return _reply(call, cluster.require(cluster.connections, call.namespace, call.path["connection_id"]))


@OPERATIONS.add(
    "POST",
    f"{ORGANISATION}/connections",
    id="createConnection",
    summary="Create a connection",
    permissions=permission("create", "connections"),
    end_user=end_user_checks.created_connection,
    link_sources={"connection_id": "/id", "template_id": "/connectionTemplateId"},
    link_parameters={"connectionTemplateId": "template_id"},
    size=BodyKind.CREDENTIALS,
    success=201,
    errors=(409, 502),
)
async def create_connection(call: Call[None, rest.ConnectionCreate]) -> Reply[rest.Connection]:
    """Creates a connection to the system of a connection template.

    A static template that has no connection yet is linked to the new one. A connection with externalId belongs to that
    user, who is created if the external id is new, and is linked to no static template.
    """
    cluster = call.platform.cluster
    template = cluster.require(cluster.templates, call.namespace, call.body.connection_template_id)
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


@OPERATIONS.add(
    "PUT",
    CONNECTION,
    id="updateConnection",
    summary="Update connection",
    permissions=permission("patch", "connections"),
    end_user=end_user_checks.updated_connection,
    size=BodyKind.CREDENTIALS,
    errors=(409, 502),
    conditional=True,
)
async def update_connection(call: Call[None, rest.ConnectionUpdate]) -> Reply[rest.Connection]:
    """Updates name, credentials and base URL. Fields and values that you leave out stay; credentials that you do not
    list are removed."""
    platform, body = call.platform, call.body
    cluster = platform.cluster
    obj = cluster.require(cluster.connections, call.namespace, call.path["connection_id"])
    system = cluster.referred(cluster.systems, obj, "systemRef")
    if body.name is not None and body.name != obj["spec"]["name"]:
        refuse_taken_name(
            cluster,
            obj["spec"]["systemRef"]["name"],
            body.name,
            namespace=call.namespace,
            user=obj["spec"].get("endUserRef"),
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


@OPERATIONS.add(
    "DELETE",
    CONNECTION,
    id="deleteConnection",
    summary="Delete a connection",
    permissions=permission("delete", "connections"),
    end_user=end_user_checks.deleted_connection,
    success=204,
)
async def delete_connection(call: Call[None, None]) -> Reply[None]:
    """Deletes a connection and unlinks it from its templates."""
    cluster = call.platform.cluster
    obj = cluster.require(cluster.connections, call.namespace, call.path["connection_id"])
    name = obj["metadata"]["name"]
    for template in await cluster.referring_now(cluster.templates, "connectionRef", call.namespace, name):
        await _unlink(call, template, obj)
    await call.platform.writer.delete(cluster.connections, obj)
    return Reply()


@OPERATIONS.add(
    "POST",
    f"{CONNECTION}/link",
    id="linkConnection",
    summary="Link connection to environment",
    permissions=(Permission("get", "connections"), Permission("patch", "connectiontemplates")),
    link_parameters={"connectionTemplateId": "template_id"},
    success=201,
    empty=True,
)
async def link_connection(call: Call[None, rest.LinkBody]) -> Reply[Empty]:
    """Links a static template to this connection; it replaces the one that the template had."""
    cluster = call.platform.cluster
    obj = cluster.require(cluster.connections, call.namespace, call.path["connection_id"])
    template = cluster.require(cluster.templates, call.namespace, call.body.connection_template_id)
    if template["spec"]["systemRef"] != obj["spec"]["systemRef"]:
        raise errors.invalid("connectionTemplateId", "is a template of another system than the connection's")

    def change(live: ConnectionTemplateObject, mine: Object) -> None:
        if live["spec"].get("dynamic"):
            raise errors.invalid(
                "connectionTemplateId",
                "is a dynamic template: its connections come with activations, link a static one",
            )
        mine["spec"]["connectionRef"] = {"name": obj["metadata"]["name"]}

    await call.platform.writer.change(cluster.templates, call.namespace, template["metadata"]["name"], change)
    return Reply()


@OPERATIONS.add(
    "DELETE",
    f"{CONNECTION}/link",
    id="unlinkConnection",
    summary="Unlink connection from environment",
    permissions=(Permission("get", "connections"), Permission("patch", "connectiontemplates")),
    link_parameters={"connectionTemplateId": "template_id"},
    success=204,
)
async def unlink_connection(call: Call[None, rest.LinkBody]) -> Reply[None]:
    """Unlinks the connection from a template. The answer is 404 when they are not linked."""
    cluster = call.platform.cluster
    obj = cluster.require(cluster.connections, call.namespace, call.path["connection_id"])
    template = cluster.require(cluster.templates, call.namespace, call.body.connection_template_id)
    if not _refers(template, "connectionRef", obj):
        raise errors.ApiError(404, "not_found", "The connection is not linked with this template")
    await _unlink(call, template, obj)
    return Reply()


async def _unlink(call: AnyCall, template: ConnectionTemplateObject, connection: ConnectionObject) -> None:
    def change(live: ConnectionTemplateObject, mine: Object) -> None:
        if not _refers(live, "connectionRef", connection):
            return
        refuse_removal(live, ("connectionRef",), what=f'The link of the template "{live["spec"]["name"]}"')
        mine["spec"].pop("connectionRef", None)

    templates = call.platform.cluster.templates
    await call.platform.writer.change(templates, call.namespace, template["metadata"]["name"], change)


def _chosen(call: Call[rest.ConnectionsQuery, None]) -> sorted_lists.Rows[ConnectionObject]:
    """The connections that the query asks for, in order."""
    rows = _of_system_and_user(call)
    cluster, unused, moment = call.platform.cluster, call.query.unused, call.query.expires_before
    if unused is not None:
        rows = [row for row in rows if is_used(cluster, row.obj) is not unused]
    if moment is not None:
        rows = [row for row in rows if ends_before(cluster, row.obj, moment)]
    return rows


def _of_system_and_user(call: Call[rest.ConnectionsQuery, None]) -> sorted_lists.Rows[ConnectionObject]:
    """The connections of the query's system and user, in order; none of those that are not there."""
    cluster, query, namespace = call.platform.cluster, call.query, call.namespace
    system = (
        cluster.find(cluster.systems, namespace, query.system_id) if query.system_id is not None else None
    )
    user = cluster.user(namespace, query.end_user_id) if query.end_user_id is not None else None
    if (query.system_id is not None and system is None) or (query.end_user_id is not None and user is None):
        return []
    if user is not None:
        of_user = indexes.key(namespace, user["metadata"]["name"])
        rows = cluster.ordered.connections_of_user.rows(of_user, search=query.search)
        return [row for row in rows if system is None or _refers(row.obj, "systemRef", system)]
    if system is not None:
        of_system = indexes.key(namespace, system["metadata"]["name"])
        return cluster.ordered.connections_of_system.rows(of_system, search=query.search)
    return cluster.ordered.connections.rows(namespace, search=query.search)


def _refers(obj: ObjectView, field: str, target: ObjectView) -> bool:
    return bool((obj["spec"].get(field) or {}).get("name") == target["metadata"]["name"])


def _reply(call: AnyCall, obj: ConnectionObject) -> Reply[rest.Connection]:
    cluster = call.platform.cluster
    body = connection_reply(call, obj)
    held = [token_secret_of(cluster, obj, item["id"]) for item in obj["spec"].get("credentials") or ()]
    values = [cluster.secrets.get(call.namespace, name) for name in sorted(secret_references(obj))]
    return Reply(
        body=body, etag=etag(obj, cluster.referred(cluster.systems, obj, "systemRef"), *held, *values)
    )
