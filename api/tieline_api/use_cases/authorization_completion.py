"""Finishing an authorisation without the application that began it: from the callback page alone."""

from dataclasses import dataclass

from tieline_api import errors
from tieline_api.cache.organisations import Organisation, nowhere
from tieline_api.dependencies import Dependencies
from tieline_api.schemas import connections as rest
from tieline_api.schemas.credential_data import CredentialData
from tieline_api.use_cases.connection_update import update_connection_object
from tieline_core.kubernetes import Forbidden, KubeError
from tieline_core.oauth.state_store import (
    PendingAuthorization,
    StateRefusedError,
    organisation_of,
    unknown_state,
)
from tieline_core.objects import ObjectView
from tieline_core.resources.connections import CredentialType


@dataclass(frozen=True, kw_only=True)
class CompletedAuthorization:
    """What was connected, in the names that people gave."""

    organisation_id: str
    connection: str
    system: str


async def complete(
    platform: Dependencies, *, state: str, credential_data: CredentialData
) -> CompletedAuthorization:
    """Stores the code (or the verifier of OAuth 1.0) in the credential that the state is bound to, and exchanges it.

    ApiError 422 for a state that is not good, or a code that the provider refuses; 409 where the state is bound
    to no credential that this may write; 502 where the provider cannot be asked.
    """
    world = platform.world
    world.need_sync()
    try:
        organisation, pending = await _look(platform, state)
    except StateRefusedError as error:
        raise errors.invalid("state", str(error)) from None
    namespace = organisation.namespace
    if bool(pending.oauth1_token) != bool(credential_data.oauth1):
        raise errors.invalid("state", "This authorisation was begun in another way; connect again")
    connection = world.connections.get(namespace, pending.connection) if pending.connection else None
    system = world.referred(world.systems, connection, "systemRef") if connection else None
    if connection is None or system is None:
        raise errors.conflict(
            "You have allowed access, but it was begun by an application that has to finish it: "
            "go back there, with this window opened by it, and connect again"
        )
    body = rest.ConnectionUpdate(
        credentials=[
            _with(item, credential_data)
            if item["id"] == pending.item_id
            else rest.ConnectionCredential(id=item["id"])
            for item in connection["spec"].get("credentials") or ()
        ]
    )
    await update_connection_object(
        platform, body, obj=connection, system=system, organisation=organisation.id
    )
    return CompletedAuthorization(
        organisation_id=organisation.id, connection=connection["spec"]["name"], system=system["spec"]["name"]
    )


async def abandon(platform: Dependencies, state: str) -> None:
    """Forgets a state with which the user has come back with an error."""
    try:
        organisation, _ = await _look(platform, state)
        await platform.oauth_states.drop(state, namespace=organisation.namespace)
    except (StateRefusedError, KubeError):
        return


async def _look(platform: Dependencies, state: str) -> tuple[Organisation, PendingAuthorization]:
    """What is kept under a state, and in which organisation. StateRefusedError where nothing is.

    Nobody has signed in here: whether there is an organisation shows neither in the answer nor in its time.
    """
    platform.world.need_sync()
    identifier = organisation_of(state)
    if identifier is None:
        raise unknown_state()
    found = platform.world.organisation(identifier)
    organisation = found or nowhere(identifier)
    try:
        return organisation, await platform.oauth_states.peek(state, namespace=organisation.namespace)
    except Forbidden:
        if found:
            raise
        raise unknown_state() from None


def _with(item: ObjectView, credential_data: CredentialData) -> rest.ConnectionCredential:
    kind = CredentialType.OAUTH1 if credential_data.oauth1 else CredentialType.OAUTH2_CODE
    return rest.ConnectionCredential(
        id=item["id"], credential=rest.Credential(type=kind, data=credential_data)
    )
