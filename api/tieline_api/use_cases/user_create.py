"""Users of a request that are known, or that their first connection creates."""

from contextlib import suppress
from dataclasses import dataclass
from typing import cast

from tieline_api import errors
from tieline_api.auth.permissions import Permission
from tieline_api.cluster.writer import IdTakenError
from tieline_api.http.operation import AnyCall
from tieline_api.schemas.names import check_new_external_id
from tieline_core.identity.ids import ID_LABEL, child_id, object_name, parse_id
from tieline_core.objects import ObjectView
from tieline_core.resources.objects import EndUserObject

_CREATE = Permission("create", "endusers")


@dataclass(frozen=True, kw_only=True)
class ResolvedUser:
    """A user that a request is about."""

    obj: EndUserObject
    """The EndUser; as it will be, where it is new."""
    is_new: bool

    async def create(self, call: AnyCall) -> None:
        """Creates the user if it is new. Of several first connections at once, one creates it."""
        if self.is_new:
            with suppress(IdTakenError):
                await create_user(call, self.obj["spec"])


async def resolve_user(call: AnyCall, identifier: str, *, field: str) -> ResolvedUser:
    """The user with this id or external id; a new one for an external id that nobody has.

    ApiError 422 at ``field`` for an id that nobody has, and where the caller may not create users.
    """
    found = call.platform.cluster.user(call.namespace, identifier)
    if found is not None:
        return ResolvedUser(obj=found, is_new=False)
    if parse_id(identifier) is not None:
        raise errors.invalid(field, "is no user of this organisation: create the user first")
    # An end user who came so far may be created: it is the one that calls.
    if call.reach is None and not await call.platform.access.allowed(call.caller, call.namespace, _CREATE):
        raise errors.invalid(
            field,
            f"is no user of this organisation, and you may not create one: it needs the permission {_CREATE}",
        )
    try:
        check_new_external_id(identifier)
    except ValueError as problem:
        raise errors.invalid(field, str(problem)) from None
    new_id = user_id(call, identifier)
    metadata = {"name": object_name(new_id), "namespace": call.namespace, "labels": {ID_LABEL: new_id}}
    planned = {"metadata": metadata, "spec": {"externalId": identifier}}
    return ResolvedUser(obj=cast("EndUserObject", planned), is_new=True)


async def create_user(call: AnyCall, spec: ObjectView) -> EndUserObject:
    """Writes a new user; IdTakenError where the external id is taken."""
    return await call.platform.writer.create(
        call.platform.cluster.users,
        call.namespace,
        user_id(call, spec["externalId"]),
        spec,
        chosen_by_client=True,
    )


def user_id(call: AnyCall, external_id: str) -> str:
    """The id of a new user: one external id makes one id, so two calls at once cannot make two users."""
    return child_id(call.organisation.id, f"user/{external_id}")
