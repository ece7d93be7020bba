"""The token request that a credential's grant stands for, and what an authorisation must fit."""

import hmac
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from tieline_core.credentials.linker import (
    LinkedCredential,
    Lookups,
    Problem,
    canonical,
    client_of,
    scheme_of,
)
from tieline_core.credentials.resolver import CALLBACK, Grant, Resolved
from tieline_core.identity.ids import client_credential_id, credential_id, object_id
from tieline_core.oauth import token_secret_codec
from tieline_core.oauth.oauth1_tokens import Issued, token_credentials
from tieline_core.oauth.refresh_coordinator import TokenRequirement, not_renewable
from tieline_core.oauth.state_store import OAuthStateStore, PendingAuthorization, StateRefusedError
from tieline_core.oauth.token_secrets import secret_key_of
from tieline_core.objects import ObjectView
from tieline_core.resources.auth_schemes import AuthSchemeConfig, OAuth2Client
from tieline_core.resources.parsed_cache import CONNECTION
from tieline_protocol.oauth.callback_signature import CallbackRefusedError
from tieline_protocol.oauth.token_client import (
    Endpoint,
    RefusedError,
    TokenClient,
    TokenError,
    Tokens,
    UnreachableError,
)

SECRET_TAKEN = "SecretNameTaken"  # noqa: S105  (a reason)
CALLBACK_REFUSED = "callback_refused"
RENEWING = (Grant.CLIENT_CREDENTIALS, Grant.PASSWORD)
"""Grants that bring new tokens without a refresh token."""


class UnresolvedError(TokenError):
    """Something is missing or wrong before anybody could be asked; ``problems`` say what to do."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__(problems[0].message)
        self.problems = problems


class SecretTakenError(UnresolvedError):
    """Somebody else's Secret has the name that the tokens of a credential are to be kept under."""

    def __init__(self, name: str) -> None:
        message = (
            f'The Secret "{name}" has the name that the tokens of this credential are kept under, and the platform '
            "has not made it; delete it after you have saved what you need of it, or give the credential another id"
        )
        super().__init__((Problem(SECRET_TAKEN, message),))


@dataclass(kw_only=True)
class GrantRequest:
    """The token request of one credential, as the grant makes it."""

    client: TokenClient
    lookups: Lookups
    states: OAuthStateStore
    connection: ObjectView
    item_id: str
    resolved: Resolved
    wanted: TokenRequirement
    now: Callable[[], datetime]
    exchanged: bool = False
    """Whether a code, or a verifier, has become tokens."""

    async def __call__(self, old: Tokens) -> Tokens:
        if old.refresh_token:
            try:
                return await self._refreshed(old)
            except RefusedError as error:
                # The refresh token has ended; the client or the user's password gets another one.
                if self.resolved.grant not in RENEWING or error.code != "invalid_grant":
                    raise
        return await self._obtained()

    async def _obtained(self) -> Tokens:
        resolved, inputs = self.resolved, self.resolved.inputs
        match resolved.grant:
            case Grant.AUTHORIZATION_CODE:
                return await self._exchanged()
            case Grant.OAUTH1:
                return await self._verified()
            case Grant.CLIENT_CREDENTIALS:
                return await self.client.client_credentials(self._endpoint(), scopes=resolved.scopes)
            case Grant.PASSWORD:
                return await self.client.password(
                    self._endpoint(),
                    username=inputs["username"],
                    password=inputs.get("password", ""),
                    scopes=resolved.scopes,
                )
        given = token_secret_codec.from_values(inputs, issued_at=self.now())
        renewable = self.wanted.renewable(given)
        if token_secret_codec.good(given, now=self.now(), rejected=self.wanted.rejected, renewable=renewable):
            return given
        if not renewable:
            raise not_renewable()
        return await self._refreshed(given)

    async def _refreshed(self, old: Tokens) -> Tokens:
        if old.renewable_from is not None and (early := old.renewable_from - self.now()) > timedelta():
            raise UnreachableError(
                "The provider does not refresh the token yet; it is refreshed as soon as the provider allows",
                retry_after=early.total_seconds(),
            )
        return await self.client.refresh(
            self._endpoint(), refresh_token=old.refresh_token, scopes=old.scopes, kept=old.kept
        )

    async def _exchanged(self) -> Tokens:
        inputs = self.resolved.inputs
        check_callback(self.resolved, now=self.now())
        namespace, name = secret_key_of(self.connection, self.item_id)
        pending = await self.states.bind(
            inputs.get("state", ""), namespace=namespace, holder=holder_of(name, self.resolved.source)
        )
        client_begun_with(self.lookups, self.connection, self.item_id, pending)
        endpoint = self._endpoint()
        check_begun_with(pending, self.resolved)
        tokens = await self.client.exchange(
            endpoint,
            code=inputs["code"],
            redirect_uri=pending.redirect_uri,
            verifier=pending.code_verifier,
            scopes=pending.scopes.split(),
            kept=self.resolved.kept,
        )
        self.exchanged = True
        return tokens

    async def _verified(self) -> Tokens:
        """The token credentials of OAuth 1.0 for what the user has come back with."""
        inputs, target = self.resolved.inputs, self.resolved.oauth1
        if target is None:
            raise UnresolvedError(
                (Problem("AuthSchemeIncomplete", "The auth scheme has no tokenEndpoint; add it"),)
            )
        namespace, name = secret_key_of(self.connection, self.item_id)
        holder = holder_of(name, self.resolved.source)
        # Looked at before it is bound: another authorisation's token must not use this one up.
        pending = await self.states.peek(inputs["state"], namespace=namespace, holder=holder)
        oauth1_begun_for(self.lookups, self.connection, self.item_id, pending, token=inputs["oauthToken"])
        check_begun_with(pending, self.resolved)
        pending = await self.states.bind(inputs["state"], namespace=namespace, holder=holder)
        issued = await token_credentials(
            self.client,
            target.endpoint,
            target.consumer,
            temporary=Issued(token=pending.oauth1_token, secret=pending.oauth1_secret),
            verifier=inputs["oauthVerifier"],
            params=json.loads(pending.oauth1_params or "{}"),
        )
        self.exchanged = True
        return Tokens(
            access_token=issued.token,
            token_secret=issued.secret,
            token_type="OAuth",  # noqa: S106  (the name of the scheme)
            issued_at=self.now(),
        )

    def _endpoint(self) -> Endpoint:
        if self.resolved.endpoint is None:
            raise UnresolvedError(
                (Problem("UrlWrong", "The auth scheme names no usable token URL; correct it"),)
            )
        return self.resolved.endpoint


def holder_of(name: str, source: str) -> str:
    """Whom a state is bound to: the credential (by the Secret of its tokens) and the very code."""
    return f"{name}/{source}"


def client_begun_with(
    lookups: Lookups, connection: ObjectView, item_id: str, pending: PendingAuthorization
) -> OAuth2Client | None:
    """The client of an authorisation, where that is not the one of the credential's auth scheme.

    Raises StateRefusedError where the authorisation is not for this credential: it was begun for another
    organisation, system or credential, or by OAuth 1.0.
    """
    if pending.oauth1_token:
        raise _foreign()
    return _begun_with(lookups, connection, item_id, pending)


def _begun_with(
    lookups: Lookups, connection: ObjectView, item_id: str, pending: PendingAuthorization
) -> OAuth2Client | None:
    read = CONNECTION.of(connection)
    system = lookups.system(read.namespace, read.spec.system_ref.name)
    item = next((one for one in read.spec.credentials if one.id == item_id), None)
    organisation = lookups.organisation_of(read.namespace)
    if item is None or system is None or pending.organisation_id != organisation:
        raise _foreign()
    if pending.system_id != object_id(system):
        raise _foreign()
    wanted = canonical(pending.credential_id)
    if wanted in (canonical(item.id), canonical(credential_id(read.id, item.to_dict()))):
        return None
    scheme = scheme_of(lookups, read, item)
    named = _client_named(scheme)
    scheme_owner = read.id if item.auth_scheme_config else object_id(system)
    if (
        scheme
        and named
        and not named.credential_id
        and wanted == client_credential_id(scheme_owner, scheme.id)
    ):
        return None
    owner = pending.credential_organisation_id or organisation
    if (
        named
        and canonical(named.credential_id) == wanted
        and (named.organisation_id or organisation) == owner
    ):
        return None
    client = OAuth2Client(
        credential_id=pending.credential_id, organisation_id=owner, client_id=pending.client_id
    )
    if not isinstance(client_of(lookups, read.namespace, client), LinkedCredential):
        raise _foreign()
    return client


def _client_named(scheme: AuthSchemeConfig | None) -> OAuth2Client | None:
    """The client's, or consumer's, credential that a scheme names, if any."""
    if scheme and scheme.oauth1:
        return OAuth2Client(credential_id=scheme.oauth1.credential_id)
    return scheme.oauth2.grant.authorization_code if scheme and scheme.oauth2 else None


def oauth1_begun_for(
    lookups: Lookups, connection: ObjectView, item_id: str, pending: PendingAuthorization, *, token: str
) -> None:
    """StateRefusedError where an authorisation by OAuth 1.0 is not for this credential, or not with this token."""
    ours = pending.oauth1_token and hmac.compare_digest(pending.oauth1_token.encode(), token.encode())
    if not ours or _begun_with(lookups, connection, item_id, pending) is not None:
        raise _foreign()


def check_begun_with(pending: PendingAuthorization, resolved: Resolved) -> None:
    """StateRefusedError where an authorisation was not begun as the auth scheme demands.

    It was begun for another client, or consumer, than asks for its tokens; without PKCE, where the scheme has it; or
    with other values in the URLs, so that its code is of another tenant.
    """
    signing, endpoint = resolved.oauth1, resolved.endpoint
    named = signing.consumer.key if signing else endpoint.client_id if endpoint else pending.client_id
    if pending.client_id != named:
        what = "consumer" if signing else "client"
        raise StateRefusedError(
            f'The authorisation was begun for the {what} "{pending.client_id}", and the auth scheme names '
            "another one; connect again with that one",
            code="client_mismatch",
        )
    if resolved.pkce and not pending.code_verifier:
        raise StateRefusedError(
            "The auth scheme demands PKCE, and the authorisation was begun without it; connect again, and name the "
            "scheme in authSchemeConfig or authSchemeConfigId where the connection has one of its own",
            code="pkce_missing",
        )
    if any(resolved.tenant.get(name, value) != value for name, value in pending.values_begun_with().items()):
        raise StateRefusedError(
            "The values in the system's URLs are others than the authorisation was begun with; connect again, or "
            "store the same variables with the code",
            code="variables_changed",
        )


def check_callback(resolved: Resolved, *, now: datetime) -> None:
    """RefusedError where the auth scheme demands a signature of the callback, and that is none of the provider's."""
    endpoint, inputs = resolved.endpoint, resolved.inputs
    signature = endpoint.dialect.callback_signature if endpoint else None
    if resolved.grant is not Grant.AUTHORIZATION_CODE or endpoint is None or signature is None:
        return
    if not inputs.get(CALLBACK):
        raise RefusedError(
            "The auth scheme checks the signature of the provider's callback, and that is not known; store the whole "
            "query of the callback with the code (oauth2Code.callback, or callback in the Secret)",
            code=CALLBACK_REFUSED,
        )
    try:
        signature.check(
            inputs[CALLBACK],
            secret=endpoint.client_secret,
            code=inputs.get("code", ""),
            state=inputs.get("state", ""),
            variables=resolved.tenant,
            now=now,
        )
    except CallbackRefusedError as error:
        raise RefusedError(
            f"The provider's callback {error}, and connect again", code=CALLBACK_REFUSED
        ) from None


def _foreign() -> StateRefusedError:
    return StateRefusedError(
        "This authorisation was begun for another system or credential; connect again", code="state_foreign"
    )
