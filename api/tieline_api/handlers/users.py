"""Operations on end users."""

from typing import Any

from tieline_api import errors
from tieline_api.auth.permissions import permission
from tieline_api.cache import indexes, sorted_lists
from tieline_api.conversion.lists import readable
from tieline_api.conversion.users import user_to_rest
from tieline_api.handlers.activation_lookup import activations_at, find_environment
from tieline_api.http.operation import ORGANISATION, Call, Operation, Reply
from tieline_api.schemas import users as rest
from tieline_api.store.etags import etag
from tieline_api.store.writer import set_or_drop
from tieline_api.use_cases import end_user_checks
from tieline_api.use_cases.user_create import create_user as store_user
from tieline_core.objects import Object

USERS = f"{ORGANISATION}/users"


async def create_user(call: Call[None, rest.UserCreate]) -> Reply:
    """Creates a user. The answer is 409 when the external id is taken."""
    world, external = call.platform.world, call.body.external_id
    if world.users.by_index("external", indexes.key(call.namespace, external)):
        raise errors.conflict(f'There is a user with the external id "{external[:100]}" already')
    spec = {"externalId": external}
    set_or_drop(spec, "displayName", call.body.display_name)
    obj = await store_user(call, spec)
    return _user(call, obj)


async def list_users(call: Call[rest.UsersQuery, None]) -> Reply:
    """Returns a page of users, oldest first."""
    world, query = call.platform.world, call.query
    rows = world.ordered.users.rows(call.namespace, search=query.search)
    if query.activated is not None:
        active = _activated(call, query.environment_id)
        rows = [row for row in rows if (row.name in active) is query.activated]
    page = sorted_lists.page(rows, kind="users", **query.window)
    shown = readable(page.items, lambda obj: user_to_rest(obj, organisation=call.organisation.id))
    body = rest.UserPage(total_count=page.total, users=shown.items, next=page.next, prev=page.prev)
    return Reply(body=body, warnings=shown.warnings)


async def get_user(call: Call[None, None]) -> Reply:
    """Returns a user by id or external id."""
    return _user(call, need_user(call, call.path["user_id"]))


async def delete_user(call: Call[None, None]) -> Reply:
    """Deletes a user with the activations and connections that this API made for the user."""
    platform, world = call.platform, call.platform.world
    obj = need_user(call, call.path["user_id"])
    name = obj["metadata"]["name"]
    for cache in (world.activations, world.connections):
        for one in await world.referring_now(cache, "endUserRef", call.namespace, name):
            await platform.writer.delete_if_ours(cache, one)
    await platform.writer.delete(world.users, obj)
    return Reply()


def need_user(call: Call[Any, Any], identifier: str) -> Object:
    """The user with this id or external id."""
    found = call.platform.world.user(call.namespace, identifier)
    if found is None:
        raise errors.not_found("user", identifier)
    return found


def _activated(call: Call[Any, Any], environment: str | None) -> set[str]:
    """The names of the users who are activated, on one environment where that is given."""
    world = call.platform.world
    if environment is None:
        found = world.activations.list(call.namespace)
        return {one["spec"]["endUserRef"]["name"] for one in found if one["spec"].get("endUserRef")}
    ref = find_environment(call, environment)
    if ref is None:
        return set()
    return {row.obj["spec"]["endUserRef"]["name"] for row in activations_at(call, ref)}


def _user(call: Call[Any, Any], obj: Object) -> Reply:
    return Reply(body=user_to_rest(obj, organisation=call.organisation.id), etag=etag(obj))


OPERATIONS = (
    Operation(
        id="createUser",
        method="POST",
        path=USERS,
        summary="Create a user",
        handler=create_user,
        permissions=permission("create", "endusers"),
        end_user=end_user_checks.own_user_created,
        link_sources={"user_id": "/id"},
        success=201,
        response=rest.EndUser,
    ),
    Operation(
        id="listUsers",
        path=USERS,
        summary="List users",
        handler=list_users,
        permissions=permission("list", "endusers"),
        response=rest.UserPage,
    ),
    Operation(
        id="getUser",
        path=f"{USERS}/{{user_id}}",
        summary="Get a user by id or external id",
        handler=get_user,
        permissions=permission("get", "endusers"),
        end_user=end_user_checks.own_user,
        response=rest.EndUser,
        conditional=True,
    ),
    Operation(
        id="deleteUser",
        method="DELETE",
        path=f"{USERS}/{{user_id}}",
        summary="Delete a user",
        handler=delete_user,
        permissions=permission("delete", "endusers"),
        success=204,
    ),
)
