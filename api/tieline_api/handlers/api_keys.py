"""Operations on API keys."""

from datetime import UTC, datetime

from tieline_api import cursors, errors
from tieline_api.auth.api_keys import KeySecret, manifest, new_key, read_secret
from tieline_api.auth.permissions import permission
from tieline_api.cluster.field_managers import MANAGER
from tieline_api.cluster.sorted_lists import position
from tieline_api.http.operation import ORGANISATION, Call, Operations, Reply
from tieline_api.schemas import access as rest
from tieline_api.schemas.base import PageQuery
from tieline_api.use_cases.api_key_rights import check_rights
from tieline_api.views import access as convert
from tieline_core.identity.ids import object_id, parse_id

API_KEYS = f"{ORGANISATION}/api-keys"

OPERATIONS = Operations("Access and changes")


@OPERATIONS.add(
    "POST",
    API_KEYS,
    id="createApiKey",
    summary="Create an API key",
    permissions=permission("create", "apikeys"),
    link_sources={"key_id": "/id"},
    success=201,
)
async def create_api_key(call: Call[None, rest.ApiKeyCreate]) -> Reply[rest.NewApiKey]:
    """Creates an API key and returns it once: only its hash is stored. What its user may do is up to role bindings.
    The answer is 403 if that is more than you may do."""
    platform, body = call.platform, call.body
    if body.expires_at is not None and body.expires_at <= datetime.now(UTC):
        raise errors.invalid("expiresAt", "must be in the future")
    key = new_key(call.organisation.id)
    secret = manifest(
        key, namespace=call.namespace, user=body.user, groups=body.groups, expires=body.expires_at
    )
    made = read_secret(secret, call.organisation.id)
    if made is None:
        raise errors.invalid("user", "cannot be the user of an API key")
    await check_rights(platform.access, call.caller, made.caller, call.namespace)
    stored = await platform.kube.create(platform.cluster.api_keys.resource, secret, field_manager=MANAGER)
    platform.cluster.api_keys.observe(stored)
    shown = await _shown(call, [KeySecret(**{**vars(made), "obj": stored})])
    return Reply(body=rest.NewApiKey(**shown[0].model_dump(), key=key), headers={"Cache-Control": "no-store"})


@OPERATIONS.add(
    "GET", API_KEYS, id="listApiKeys", summary="List API keys", permissions=permission("list", "apikeys")
)
async def list_api_keys(call: Call[PageQuery, None]) -> Reply[rest.ApiKeyPage]:
    """Returns a page of the organisation's API keys, oldest first, without the keys themselves."""
    found = call.platform.cluster.api_keys.list(call.namespace)
    keys = [read for one in found if (read := read_secret(one, call.organisation.id)) is not None]
    page = cursors.cut(keys, kind="api-keys", position=lambda one: position(one.obj), **call.query.window)
    shown = await _shown(call, page.items)
    return Reply(body=rest.ApiKeyPage(total_count=page.total, items=shown, next=page.next, prev=page.prev))


@OPERATIONS.add(
    "DELETE",
    f"{API_KEYS}/{{key_id}}",
    id="deleteApiKey",
    summary="Revoke an API key",
    permissions=permission("delete", "apikeys"),
    success=204,
)
async def delete_api_key(call: Call[None, None]) -> Reply[None]:
    """Revokes an API key: requests with it are refused from then on."""
    cluster, identifier = call.platform.cluster, parse_id(call.path["key_id"])
    found = [
        one
        for one in cluster.api_keys.list(call.namespace)
        if object_id(one) == identifier and read_secret(one, call.organisation.id) is not None
    ]
    if not found:
        raise errors.not_found("API key", call.path["key_id"])
    metadata = found[0]["metadata"]
    await call.platform.kube.delete(
        cluster.api_keys.resource, metadata["name"], call.namespace, uid=metadata["uid"]
    )
    cluster.api_keys.forget(found[0])
    return Reply()


async def _shown(
    call: Call[PageQuery, None] | Call[None, rest.ApiKeyCreate], keys: list[KeySecret]
) -> list[rest.ApiKey]:
    shown = []
    for key in keys:
        roles = await call.platform.memberships.of(key.caller, [call.organisation])
        shown.append(convert.api_key(key, roles.get(call.namespace), call.platform.key_uses.last(key.obj)))
    return shown
