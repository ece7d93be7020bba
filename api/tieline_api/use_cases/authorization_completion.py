"""Finishing an authorisation without the application that began it: from the callback page alone."""

import hashlib
import hmac
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


def browser_digest(cookie: str) -> str:
    """What is kept of the cookie that ties an authorisation to a browser."""
    return hashlib.sha256(cookie.encode()).hexdigest()


async def complete(
    platform: Dependencies, *, state: str, credential_data: CredentialData, cookie: str = ""
) -> CompletedAuthorization:
    """Stores the code (or the verifier of OAuth 1.0) in the credential that the state is bound to, and exchanges it.

    ApiError 422 for a state that is not good, or a code that the provider refuses; 409 where the state is bound
    to no credential that this may write; 502 where the provider cannot be asked. An authorisation of an end user also
    needs the ``cookie`` of the browser that took it up.
    """
    world = platform.world
    world.need_sync()
    try:
        organisation, pending = await _look(platform, state)
        await _check_browser(platform, organisation, pending, state=state, cookie=cookie)
    except StateRefusedError as error:
        raise errors.invalid("state", str(error)) from None
    namespace = organisation.namespace
    if bool(pending.oauth1_token) != bool(credential_data.oauth1):
        raise errors.invalid("state", "This authorisation was begun in another way; connect again")
    connection = world.connections.get(namespace, pending.connection) if pending.connection else None
    system = world.referred(world.systems, connection, "systemRef") if connection else None
    if connection is not None and pending.end_user not in ("", _owner(connection)):
        connection = None
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


async def opener_origins(platform: Dependencies, state: str) -> frozenset[str]:
    """The origins whose pages may learn what came of an authorisation that they began."""
    settings = platform.settings
    try:
        organisation, pending = await _look(platform, state)
    except StateRefusedError:
        return settings.cors_origins
    if not pending.session:
        return settings.cors_origins
    session = platform.connect_sessions.find(organisation.namespace, pending.session)
    return settings.own_origins | frozenset(session.origins) if session else frozenset()


async def abandon(platform: Dependencies, state: str) -> None:
    """Forgets a state with which the user has come back with an error."""
    try:
        organisation, _ = await _look(platform, state)
        await platform.oauth_states.drop(state, namespace=organisation.namespace)
    except (StateRefusedError, KubeError):
        return


async def _check_browser(
    platform: Dependencies,
    organisation: Organisation,
    pending: PendingAuthorization,
    *,
    state: str,
    cookie: str,
) -> None:
    """StateRefusedError for an authorisation of an end user that another browser took up, or none."""
    if not pending.end_user:
        return
    namespace = organisation.namespace
    tied_to = await platform.oauth_states.browser_of(state, namespace=namespace)
    if not tied_to or not hmac.compare_digest(tied_to, browser_digest(cookie)):
        raise StateRefusedError(
            "This authorisation was begun in another browser, or by a page that has to finish it; go back there and "
            "connect again",
            code="other_browser",
        )
    if pending.session and platform.connect_sessions.find(namespace, pending.session) is None:
        raise StateRefusedError(
            "The session that this was begun with has ended; connect again", code="session_ended"
        )


def _owner(connection: ObjectView) -> str:
    return str((connection["spec"].get("endUserRef") or {}).get("name", ""))


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
