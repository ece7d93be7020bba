"""Operations on end users."""

from typing import Any

from tieline_api import errors
from tieline_api.auth.permissions import permission
from tieline_api.cluster import indexes, sorted_lists
from tieline_api.cluster.etags import etag
from tieline_api.cluster.writer import set_or_drop
from tieline_api.conversion.lists import readable
from tieline_api.conversion.users import user_to_rest
from tieline_api.http.operation import ORGANISATION, AnyCall, Call, Operations, Reply
from tieline_api.schemas import users as rest
from tieline_api.use_cases import end_user_checks
from tieline_api.use_cases.user_create import create_user as store_user
from tieline_api.views.activation_lookup import activations_at, find_environment
from tieline_core.kubernetes import Informer
from tieline_core.resources.objects import EndUserObject

USERS = f"{ORGANISATION}/users"

OPERATIONS = Operations("Users")


@OPERATIONS.add(
    "POST",
    USERS,
    id="createUser",
    summary="Create a user",
    permissions=permission("create", "endusers"),
    end_user=end_user_checks.own_user_created,
    link_sources={"user_id": "/id"},
    success=201,
)
async def create_user(call: Call[None, rest.UserCreate]) -> Reply[rest.EndUser]:
    """Creates a user. The answer is 409 when the external id is taken."""
    cluster, external = call.platform.cluster, call.body.external_id
    if cluster.users.by_index("external", indexes.key(call.namespace, external)):
        raise errors.conflict(f'There is a user with the external id "{external[:100]}" already')
    spec = {"externalId": external}
    set_or_drop(spec, "displayName", call.body.display_name)
    obj = await store_user(call, spec)
    return _user(call, obj)


@OPERATIONS.add(
    "GET", USERS, id="listUsers", summary="List users", permissions=permission("list", "endusers")
)
async def list_users(call: Call[rest.UsersQuery, None]) -> Reply[rest.UserPage]:
    """Returns a page of users, oldest first."""
    cluster, query = call.platform.cluster, call.query
    rows = cluster.ordered.users.rows(call.namespace, search=query.search)
    if query.activated is not None:
        active = _activated(call, query.environment_id)
        rows = [row for row in rows if (row.name in active) is query.activated]
    page = sorted_lists.page(rows, kind="users", **query.window)
    shown = readable(page.items, lambda obj: user_to_rest(obj, organisation=call.organisation.id))
    body = rest.UserPage(total_count=page.total, users=shown.items, next=page.next, prev=page.prev)
    return Reply(body=body, warnings=shown.warnings)


@OPERATIONS.add(
    "GET",
    f"{USERS}/{{user_id}}",
    id="getUser",
    summary="Get a user by id or external id",
    permissions=permission("get", "endusers"),
    end_user=end_user_checks.own_user,
    conditional=True,
)
async def get_user(call: Call[None, None]) -> Reply[rest.EndUser]:
    """Returns a user by id or external id."""
    return _user(call, require_user(call, call.path["user_id"]))


@OPERATIONS.add(
    "DELETE",
    f"{USERS}/{{user_id}}",
    id="deleteUser",
    summary="Delete a user",
    permissions=permission("delete", "endusers"),
    success=204,
)
async def delete_user(call: Call[None, None]) -> Reply[None]:
    """Deletes a user with the activations and connections that this API made for the user."""
    platform, cluster = call.platform, call.platform.cluster
    obj = require_user(call, call.path["user_id"])
    name = obj["metadata"]["name"]
    caches: tuple[Informer[Any], ...] = (cluster.activations, cluster.connections)
    for cache in caches:
        for one in await cluster.referring_now(cache, "endUserRef", call.namespace, name):
            await platform.writer.delete_if_ours(cache, one)
    await platform.writer.delete(cluster.users, obj)
    return Reply()


def require_user(call: AnyCall, identifier: str) -> EndUserObject:
    """The user with this id or external id."""
    found = call.platform.cluster.user(call.namespace, identifier)
    if found is None:
        raise errors.not_found("user", identifier)
    return found


def _activated(call: AnyCall, environment: str | None) -> set[str]:
    """The names of the users who are activated, on one environment where that is given."""
    cluster = call.platform.cluster
    if environment is None:
        found = cluster.activations.list(call.namespace)
        return {one["spec"]["endUserRef"]["name"] for one in found if one["spec"].get("endUserRef")}
    ref = find_environment(call, environment)
    if ref is None:
        return set()
    return {row.obj["spec"]["endUserRef"]["name"] for row in activations_at(call, ref)}


def _user(call: AnyCall, obj: EndUserObject) -> Reply[rest.EndUser]:
    return Reply(body=user_to_rest(obj, organisation=call.organisation.id), etag=etag(obj))
