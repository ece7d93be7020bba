"""Operations on the state of activations, under the paths of a key-value store named by the activation's id."""

import orjson

from tieline_api import errors
from tieline_api.auth.permissions import permission
from tieline_api.body_limits import BodyKind
from tieline_api.cluster.etags import matches
from tieline_api.http.operation import ORGANISATION, AnyCall, Call, Operations, Reply
from tieline_api.schemas import store as rest
from tieline_api.state.documents import Document, DocumentKey, DocumentScope, check_key
from tieline_api.state.state_scopes import state_scope
from tieline_api.state.store_keys import page_of, selected
from tieline_core.identity.ids import environment_id, format_time, object_id

_STORES = {
    "": "/api/v2/store/{activation_id}/kv",
    "InOrganisation": f"{ORGANISATION}/store/{{activation_id}}/kv",
}
_MILLISECONDS = 1000

OPERATIONS = Operations("State of activations")


async def get_value(call: Call[None, None]) -> Reply[rest.StoreValue]:
    """Reads a value that the activation's runs, or clients, have stored in its state."""
    ref = _document(call)
    found = await call.platform.documents.get(ref)
    if found is None:
        raise errors.not_found("value with this key", ref.key)
    return Reply(body=_value(found), etag=f'"{found.version}"')


async def put_value(call: Call[None, rest.StoreWrite]) -> Reply[rest.StoreCommitted]:
    """Sets a value of the activation's state. With ``ifNotExists`` a value that is there stays as it is, and
    ``committed`` is false."""
    ref, options, documents = _document(call), call.body.options, call.platform.documents
    expires = -(-options.expire_in // _MILLISECONDS) if options.expire_in is not None else None
    value, expected = _fragment(call.body.value), None
    if call.if_match is not None:
        found = await documents.get(ref)
        if found is None or not matches(call.if_match, found.version):
            raise errors.precondition_failed()
        if options.if_not_exists:
            return Reply(body=rest.StoreCommitted(committed=False))
        expected = found.version
    anyway = expected is None and not options.if_not_exists
    try:
        version = await documents.put(ref, value, anyway=anyway, expected=expected, expires=expires)
    except errors.ApiError as error:
        if error.code != "conflict" or anyway:
            raise
        if not options.if_not_exists:
            raise errors.precondition_failed() from None
        return Reply(body=rest.StoreCommitted(committed=False))
    return Reply(body=rest.StoreCommitted(committed=True, versionstamp=version), etag=f'"{version}"')


async def delete_value(call: Call[None, rest.StoreDelete]) -> Reply[None]:
    """Deletes a value of the activation's state, and with ``cascade`` all whose keys begin with its key and a slash."""
    ref, documents = _document(call), call.platform.documents
    if call.body.options.cascade:
        for key in await documents.keys(ref):
            if key.startswith(f"{ref.key}/"):
                await documents.delete(ref.document(key), anyway=True, expected=None)
    await documents.delete(ref, anyway=True, expected=None)
    return Reply()


async def list_keys(call: Call[None, rest.StoreList]) -> Reply[rest.StorePage]:
    """Lists keys of the activation's state, in the order of their parts."""
    keys = await call.platform.documents.keys(_scope(call))
    return Reply(body=page_of(keys, call.body))


async def count_keys(call: Call[None, rest.StoreCountRequest]) -> Reply[rest.StoreCount]:
    """Counts keys of the activation's state."""
    keys = await call.platform.documents.keys(_scope(call))
    return Reply(body=rest.StoreCount(count=len(selected(keys, call.body.selector))))


def _document(call: AnyCall) -> DocumentKey:
    return _scope(call).document(check_key(call.path["key"]))


def _scope(call: AnyCall) -> DocumentScope:
    """Where the state is. ApiError 404."""
    cluster, identifier = call.platform.cluster, call.path["activation_id"]
    found = cluster.activation_place(call.namespace, identifier)
    if found is None:
        raise errors.not_found("activation", identifier)
    return state_scope(
        call.organisation.id,
        environment_id(object_id(found.project), found.environment),
        object_id(found.activation) if found.activation is not None else None,
    )


def _fragment(text: str) -> orjson.Fragment:
    """The JSON text as it was sent. ApiError 422."""
    try:
        content = text.encode("utf-8")
        orjson.loads(content)
    except (UnicodeEncodeError, orjson.JSONDecodeError):
        raise errors.invalid(
            "value", 'must be JSON text, such as "{\\"page\\": 2}" or "\\"text\\""'
        ) from None
    return orjson.Fragment(content)


def _value(found: Document) -> rest.StoreValue:
    return rest.StoreValue(
        value=found.text.decode(),
        versionstamp=found.version,
        created_at=format_time(found.written_at) if found.written_at else None,
        expires_at=format_time(found.expires_at) if found.expires_at else None,
    )


for _suffix, _store in _STORES.items():
    OPERATIONS.add(
        "GET",
        f"{_store}/{{key}}",
        id=f"getStoreValue{_suffix}",
        summary="Get a value",
        permissions=permission("get", "activations"),
        tail=True,
        conditional=True,
        errors=(422,),
    )(get_value)
    OPERATIONS.add(
        "PUT",
        f"{_store}/{{key}}",
        id=f"setStoreValue{_suffix}",
        summary="Set a value",
        permissions=permission("patch", "activations"),
        size=BodyKind.EVENT,
        tail=True,
        conditional=True,
    )(put_value)
    OPERATIONS.add(
        "DELETE",
        f"{_store}/{{key}}",
        id=f"deleteStoreValue{_suffix}",
        summary="Delete a value",
        permissions=permission("patch", "activations"),
        tail=True,
        body_optional=True,
        success=204,
    )(delete_value)
    OPERATIONS.add(
        "POST",
        f"{_store}/list",
        id=f"listStoreKeys{_suffix}",
        summary="List keys",
        permissions=permission("get", "activations"),
        body_optional=True,
    )(list_keys)
    OPERATIONS.add(
        "POST",
        f"{_store}/count",
        id=f"countStoreKeys{_suffix}",
        summary="Count keys",
        permissions=permission("get", "activations"),
        body_optional=True,
    )(count_keys)
