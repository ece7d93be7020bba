"""Writing activations that others may be creating at the same moment."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from tieline_api import errors
from tieline_api.handlers.activation_lookup import EnvironmentRef
from tieline_api.http.operation import Call
from tieline_api.store.writer import Change, IdTakenError
from tieline_core.identity.ids import object_name

Obj = dict[str, Any]


async def create_or_change(
    call: Call[Any, Any],
    obj: Obj | None,
    identifier: str,
    *,
    spec: Obj,
    change: Change,
    if_match: str | None = None,
    prepare: Callable[[], Awaitable[None]] | None = None,
) -> Obj:
    """Changes the activation, or creates it; where another replica has just done so, changes that one.

    ``prepare`` is called after each computation of the change, before it is applied.
    """
    writer, cache = call.platform.writer, call.platform.world.activations
    name = obj["metadata"]["name"] if obj else object_name(identifier)
    if obj is None:
        if if_match is not None:
            raise errors.precondition_failed()
        with suppress(IdTakenError):
            return await writer.create(cache, call.namespace, identifier, spec, chosen_by_client=True)
    return await writer.change(cache, call.namespace, name, change, if_match=if_match, prepare=prepare)


def environment_spec(environment: EnvironmentRef) -> Obj:
    """The part of an activation's spec that says where it is."""
    return {"projectRef": {"name": environment.project["metadata"]["name"]}, "environment": environment.name}
