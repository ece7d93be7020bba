"""Operations on the state of activations, under the paths of a key-value store named by the activation's id."""

from collections.abc import Mapping
from typing import Any

import orjson

from tieline_api import errors
from tieline_api.auth.permissions import permission
from tieline_api.body_limits import BodyKind
from tieline_api.http.operation import ORGANISATION, Call, Operation, Reply
from tieline_api.schemas import store as rest
from tieline_api.store.documents import Document, DocumentKey, DocumentScope, check_key
from tieline_api.store.etags import matches
from tieline_api.store.state_scopes import state_scope
from tieline_api.use_cases.store_keys import page_of, selected
from tieline_core.identity.ids import format_time
from tieline_core.identity.names import current_workload

_STORES = {
    "": "/api/v2/store/{activation_id}/kv",
    "InOrganisation": f"{ORGANISATION}/store/{{activation_id}}/kv",
}
_MILLISECONDS = 1000


async def get_value(call: Call[None, None]) -> Reply:
    """Reads a value that the activation's runs, or clients, have stored in its state."""
    ref = _document(call)
    found = await call.platform.documents.get(ref)
    if found is None:
        raise errors.not_found("value with this key", ref.key)
    return Reply(body=_value(found), etag=f'"{found.version}"')


async def put_value(call: Call[None, rest.StoreWrite]) -> Reply:
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


async def delete_value(call: Call[None, rest.StoreDelete]) -> Reply:
    """Deletes a value of the activation's state, and with ``cascade`` all whose keys begin with its key and a slash."""
    ref, documents = _document(call), call.platform.documents
    if call.body.options.cascade:
        for key in await documents.keys(ref):
            if key.startswith(f"{ref.key}/"):
                await documents.delete(ref.document(key), anyway=True, expected=None)
    await documents.delete(ref, anyway=True, expected=None)
    return Reply()


async def list_keys(call: Call[None, rest.StoreList]) -> Reply:
    """Lists keys of the activation's state, in the order of their parts."""
    keys = await call.platform.documents.keys(_scope(call))
    return Reply(body=page_of(keys, call.body))


async def count_keys(call: Call[None, rest.StoreCountRequest]) -> Reply:
    """Counts keys of the activation's state."""
    keys = await call.platform.documents.keys(_scope(call))
    return Reply(body=rest.StoreCount(count=len(selected(keys, call.body.selector))))


def _document(call: Call[Any, Any]) -> DocumentKey:
    return _scope(call).document(check_key(call.path["key"]))


def _scope(call: Call[Any, Any]) -> DocumentScope:
    """Where the state is. ApiError 404, and 503 without an event engine."""
    world, identifier = call.platform.world, call.path["activation_id"]
    found = world.activation_place(call.namespace, identifier)
    if found is None:
        raise errors.not_found("activation", identifier)
    call.platform.engine.need_configured()
    workload = current_workload(found.project, found.environment)
    # The owner is that of a ConfigMap, and with an event engine none is made.
    return state_scope(
        call.organisation.id,
        found.project,
        found.environment,
        workload,
        account={},
        activation=found.activation,
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


def _rows(suffix: str, store: str) -> tuple[Operation, ...]:
    key: Mapping[str, Any] = {"path": f"{store}/{{key}}", "tail": True}
    return (
        Operation(
            id=f"getStoreValue{suffix}",
            **key,
            summary="Get a value",
            handler=get_value,
            permissions=permission("get", "activations"),
            response=rest.StoreValue,
            conditional=True,
            errors=(422,),
        ),
        Operation(
            id=f"setStoreValue{suffix}",
            method="PUT",
            **key,
            summary="Set a value",
            handler=put_value,
            permissions=permission("patch", "activations"),
            size=BodyKind.EVENT,
            response=rest.StoreCommitted,
            conditional=True,
        ),
        Operation(
            id=f"deleteStoreValue{suffix}",
            method="DELETE",
            **key,
            summary="Delete a value",
            handler=delete_value,
            permissions=permission("patch", "activations"),
            body_optional=True,
            success=204,
        ),
        Operation(
            id=f"listStoreKeys{suffix}",
            method="POST",
            path=f"{store}/list",
            summary="List keys",
            handler=list_keys,
            permissions=permission("get", "activations"),
            body_optional=True,
            response=rest.StorePage,
        ),
        Operation(
            id=f"countStoreKeys{suffix}",
            method="POST",
            path=f"{store}/count",
            summary="Count keys",
            handler=count_keys,
            permissions=permission("get", "activations"),
            body_optional=True,
            response=rest.StoreCount,
        ),
    )


OPERATIONS = tuple(row for suffix, store in _STORES.items() for row in _rows(suffix, store))
