"""Finishing an authorisation without the application that began it: from the callback page alone."""

import hashlib
import hmac
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tieline_api import errors
from tieline_api.cluster.organisations import Organisation, nowhere
from tieline_api.conversion.connections import scheme_item
from tieline_api.conversion.systems import auth_scheme_items
from tieline_api.dependencies import Dependencies
from tieline_api.schemas import connections as rest
from tieline_api.schemas.credential_data import CredentialData, OAuth2CodeData
from tieline_api.schemas.url_variables import UrlVariable
from tieline_api.use_cases.connection_update import update_connection_object
from tieline_api.use_cases.url_values import as_variables
from tieline_core.credentials.resolver import CallbackError, callback_parameters
from tieline_core.kubernetes import Forbidden, KubeError
from tieline_core.oauth.state_store import (
    PendingAuthorization,
    StateRefusedError,
    organisation_of,
    unknown_state,
)
from tieline_core.objects import ObjectView
from tieline_core.resources.connections import CredentialType
from tieline_core.resources.objects import (
    AuthSchemeConfigDict,
    ConnectionCredentialDict,
    ConnectionObject,
    SystemObject,
)
from tieline_core.systems import variables_in_effect


class Began(Protocol):
    """Hears which authorisation it is, as soon as that is known."""

    def __call__(self, organisation: Organisation, pending: PendingAuthorization) -> None:
        """Hears of one."""


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
    platform: Dependencies,
    *,
    state: str,
    credential_data: CredentialData | None,
    query: str = "",
    cookie: str = "",
    began: Began | None = None,
) -> CompletedAuthorization | None:
    """Stores the code (or the verifier of OAuth 1.0) in the credential that the state is bound to, and exchanges it.

    ``query`` is the callback's, which the auth scheme may read further. None where the user was denied access.

    ApiError 422 for a state that is not good, or a code that the provider refuses; 409 where the state is bound
    to no credential that this may write; 502 where the provider cannot be asked. An authorisation of an end user also
    needs the ``cookie`` of the browser that took it up.
    """
    cluster = platform.cluster
    cluster.require_sync()
    try:
        organisation, pending = await _look(platform, state)
        if began is not None:
            began(organisation, pending)
        await _check_browser(platform, organisation, pending, state=state, cookie=cookie)
    except StateRefusedError as error:
        raise errors.invalid("state", str(error)) from None
    namespace = organisation.namespace
    if credential_data is None and pending.oauth1_token:
        return None  # OAuth 1.0 without a verifier: some providers deny so
    if credential_data and bool(pending.oauth1_token) != bool(credential_data.oauth1):
        raise errors.invalid("state", "This authorisation was begun in another way; connect again")
    connection = cluster.connections.get(namespace, pending.connection) if pending.connection else None
    system = cluster.referred(cluster.systems, connection, "systemRef") if connection else None
    if connection is not None and pending.end_user not in ("", _owner(connection)):
        connection = None
    parameters = _parameters(query)
    if connection is None or system is None:
        if _is_denial(_dialects(platform, namespace, pending), credential_data, parameters):
            return None
        raise errors.conflict(
            "You have allowed access, but it was begun by an application that has to finish it: "
            "go back there, with this window opened by it, and connect again"
        )
    item = _item_of(connection, pending)
    dialect = _dialect_of(scheme_item(item, system) if item else None)
    brought = brought_back(dialect, credential_data, parameters, query=query, state=state)
    if brought is None:
        return None
    body = rest.ConnectionUpdate(
        credentials=[
            _with(item, brought)
            if item["id"] == pending.item_id
            else rest.ConnectionCredential(id=item["id"])
            for item in connection["spec"].get("credentials") or ()
        ],
        variables=changed_variables(pending, connection, system),
    )
    await update_connection_object(
        platform, body, obj=connection, system=system, organisation=organisation.id
    )
    return CompletedAuthorization(
        organisation_id=organisation.id, connection=connection["spec"]["name"], system=system["spec"]["name"]
    )


def _item_of(connection: ConnectionObject, pending: PendingAuthorization) -> ConnectionCredentialDict | None:
    """The credential that the authorisation is for; None where the connection does not have it any more."""
    items = connection["spec"].get("credentials") or ()
    return next((one for one in items if one["id"] == pending.item_id), None)


def _dialect_of(scheme: AuthSchemeConfigDict | None) -> ObjectView:
    """How an auth scheme reads the callback."""
    oauth2 = scheme.get("oauth2") if scheme else None
    return (oauth2.get("authorization") if oauth2 else None) or {}


def _dialects(platform: Dependencies, namespace: str, pending: PendingAuthorization) -> Sequence[ObjectView]:
    """How the auth schemes of the authorisation's System read the callback, where none is known to be meant."""
    cluster = platform.cluster
    system = cluster.find(cluster.systems, namespace, pending.system_id)
    return [{}, *(_dialect_of(scheme) for scheme in (auth_scheme_items(system) if system else ()))]


def _is_denial(
    dialects: Iterable[ObjectView], given: CredentialData | None, parameters: Mapping[str, str]
) -> bool:
    """Whether the user has come back with nothing, however the callback is read."""
    return all(brought_back(one, given, parameters, query="", state="") is None for one in dialects)


def brought_back(
    dialect: Mapping[str, Any],
    given: CredentialData | None,
    parameters: Mapping[str, str],
    *,
    query: str,
    state: str,
) -> CredentialData | None:
    """What the user has come back with, as the auth scheme reads the callback; None where that is a denial."""
    if given is not None and given.oauth1:
        return given
    if any(parameters.get(name) for name in ("error", *(dialect.get("errorParameters") or ()))):
        return None
    code = parameters.get(dialect.get("codeParameter") or "code") or (
        given.oauth2_code.code if given and given.oauth2_code else None
    )
    if not code:
        return None
    callback = query if dialect.get("keep") or dialect.get("callbackSignature") else None
    return CredentialData(oauth2_code=OAuth2CodeData(code=code, state=state, callback=callback))


def _parameters(query: str) -> dict[str, str]:
    try:
        return callback_parameters(query)
    except CallbackError as error:
        raise errors.invalid("query", str(error)) from None


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


def changed_variables(
    pending: PendingAuthorization, connection: ConnectionObject, system: SystemObject
) -> list[UrlVariable] | None:
    """The connection's variables, with those that the authorisation was begun with where they are others than now.

    None where nothing changes. A default of the System does not become a value of the connection.
    """
    in_effect = variables_in_effect(connection["spec"], system["spec"])
    changed = {
        name: value for name, value in pending.values_begun_with().items() if in_effect.get(name) != value
    }
    if not changed:
        return None
    return as_variables({**(connection["spec"].get("variables") or {}), **changed})


def _owner(connection: ConnectionObject) -> str:
    owner = connection["spec"].get("endUserRef")
    return owner["name"] if owner else ""


async def _look(platform: Dependencies, state: str) -> tuple[Organisation, PendingAuthorization]:
    """What is kept under a state, and in which organisation. StateRefusedError where nothing is.

    Nobody has signed in here: whether there is an organisation shows neither in the answer nor in its time.
    """
    platform.cluster.require_sync()
    identifier = organisation_of(state)
    if identifier is None:
        raise unknown_state()
    found = platform.cluster.organisation(identifier)
    organisation = found or nowhere(identifier)
    try:
        return organisation, await platform.oauth_states.peek(state, namespace=organisation.namespace)
    except Forbidden:
        if found:
            raise
        raise unknown_state() from None


def _with(item: ConnectionCredentialDict, credential_data: CredentialData) -> rest.ConnectionCredential:
    kind = CredentialType.OAUTH1 if credential_data.oauth1 else CredentialType.OAUTH2_CODE
    return rest.ConnectionCredential(
        id=item["id"], credential=rest.Credential(type=kind, data=credential_data)
    )
