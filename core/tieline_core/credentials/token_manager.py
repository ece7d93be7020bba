"""A credential's tokens, kept: obtained where there are none, refreshed where they are due or were rejected.

``TokenManager.fresh`` is all that operator and API call. However many call it, in however many processes, the provider
is asked once (``refreshing``), for a first token too: the Secret with the tokens is created with the claim in it,
so that nobody else exchanges the same code. Tokens are stored before anybody gets them, in a Secret of their own:
the one that a connection names belongs to whoever wrote it.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from tieline_common.single_flight import SingleFlight
from tieline_core.credentials.grant_request import (
    RENEWING,
    GrantRequest,
    SecretTakenError,
    UnresolvedError,
    client_begun_with,
    holder_of,
)
from tieline_core.credentials.linker import Lookups, Problem
from tieline_core.credentials.live_lookups import LiveCredentialLookups
from tieline_core.credentials.resolver import Grant, Resolved, resolve
from tieline_core.credentials.tenants import CHANGED, CHANGED_MESSAGE, is_of_other_tenant
from tieline_core.kubernetes.errors import KubeError
from tieline_core.kubernetes.reading import find
from tieline_core.kubernetes.resources import CONNECTIONS, SECRETS
from tieline_core.oauth import refresh_coordinator, token_secret_codec
from tieline_core.oauth.refresh_coordinator import RefreshCoordinator, TokenRequirement, not_renewable
from tieline_core.oauth.state_store import OAuthStateStore, StateRefusedError
from tieline_core.oauth.token_secrets import blank_secret, holds_tokens_of, of_a_predecessor, secret_key_of
from tieline_core.objects import ObjectView
from tieline_core.resources.auth_schemes import OAuth2Client
from tieline_protocol.oauth.token_client import TokenClient, Tokens, UnreachableError

__all__ = ["FreshTokens", "SecretTakenError", "TokenManager", "UnresolvedError"]

CLIENT = "tieline.dev/client"
"""The client that an authorisation was begun with, where the scheme names another one or none."""


@dataclass(frozen=True, kw_only=True)
class FreshTokens:
    """Tokens that are good and stored."""

    tokens: Tokens
    due_at: datetime | None
    """When to come back: they are refreshed from then on. Where that cannot be done, when they end, if ever."""


class TokenManager:
    """Keeps the tokens of credentials. Share one in a process."""

    def __init__(
        self,
        secrets: refresh_coordinator.SecretClient,
        *,
        client: TokenClient,
        lookups: Lookups,
        states: OAuthStateStore,
        refresher: RefreshCoordinator | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._secrets = secrets
        self._client = client
        self._lookups = lookups
        self._states = states
        self._refresher = refresher or RefreshCoordinator(secrets, now=now)
        self._now = now
        self._flights: SingleFlight[tuple[str, ...], FreshTokens | None] = SingleFlight()

    async def fresh(
        self, connection: ObjectView, item_id: str, *, rejected: str = "", retry: bool = False
    ) -> FreshTokens | None:
        """Good tokens of a connection's credential (by its id in the connection).

        None for a credential that has no tokens. ``rejected`` is an access token that was answered with 401;
        ``retry`` asks once more although a refusal or a pause is recorded. Raises UnresolvedError where
        something has to be put right first (SecretTakenError: that somebody else's Secret is where the tokens
        would be kept); RefusedError where the provider says no, or has said it;
        UnreachableError and MisconfiguredError where it cannot be asked, which says nothing about the
        credential; KubeError.
        """
        if retry:
            return await self._fresh(connection, item_id, rejected=rejected, retry=True)
        # A storm of calls for one credential is one look at the cluster.
        key = (
            *secret_key_of(connection, item_id),
            connection["metadata"].get("resourceVersion", ""),
            rejected,
        )
        return await self._flights.run(
            key, lambda: self._fresh(connection, item_id, rejected=rejected, retry=False)
        )

    async def _fresh(
        self, connection: ObjectView, item_id: str, *, rejected: str, retry: bool
    ) -> FreshTokens | None:
        lookups = self._lookups
        namespace, name = secret_key_of(connection, item_id)
        seen = await find(self._secrets, SECRETS, name, namespace)
        stored = token_secret_codec.read(seen) if seen is not None else None
        resolved = await resolve(lookups, connection, item_id, stored=stored)
        if resolved.grant is None:
            seen = stored = None
        if seen is not None:
            _check_owner(seen, connection)
        if stored is not None and stored.source not in ("", resolved.source):
            # Either the inputs are new, or what the caches hold is old: only the cluster itself can tell.
            lookups = LiveCredentialLookups(self._lookups, self._secrets)
            connection = await self._secrets.get(CONNECTIONS, connection["metadata"]["name"], namespace)
            resolved = await resolve(lookups, connection, item_id, stored=stored)
        chosen = None
        if resolved.grant is Grant.AUTHORIZATION_CODE:
            chosen = await self._chosen(connection, item_id, resolved, name=name, seen=seen)
            if chosen is not None:
                resolved = await resolve(lookups, connection, item_id, client=chosen, stored=stored)
        if resolved.problems:
            raise UnresolvedError(resolved.problems)
        if resolved.grant is None:
            return None
        _check_tenant(seen, resolved)
        if resolved.grant is Grant.TOKEN and seen is None and not resolved.inputs.get("refreshToken"):
            return self._as_given(resolved, rejected)
        wanted = TokenRequirement(
            source=resolved.source,
            asked_as=resolved.asked_as,
            rejected=rejected,
            renews=resolved.grant in RENEWING,
            retry=retry,
            blank=blank_secret(connection, item_id),
            check=lambda found: _check_owner(found, connection),
            notes=_note(resolved.source, chosen),
            keeps_refresh_token=resolved.grant is Grant.AUTHORIZATION_CODE,
            grace=resolved.endpoint.dialect.refresh.grace if resolved.endpoint else None,
        )
        asking = GrantRequest(
            client=self._client,
            states=self._states,
            lookups=lookups,
            connection=connection,
            item_id=item_id,
            resolved=resolved,
            wanted=wanted,
            now=self._now,
        )
        tokens = await self._refresher.fresh(
            namespace, name, ask=asking, wanted=wanted, seen=seen or dict(wanted.blank or {})
        )
        if asking.exchanged:
            with suppress(KubeError):  # bound as it is, it serves nobody else, and is swept
                await self._states.drop(resolved.inputs["state"], namespace=namespace)
        due = token_secret_codec.due_at(tokens) if wanted.renewable(tokens) else tokens.expires_at
        return FreshTokens(tokens=tokens, due_at=due)

    async def abandon(self, connection: ObjectView, item_id: str) -> None:
        """Frees the state of a code that nothing came of, so that it can be stored again elsewhere."""
        resolved = await resolve(self._lookups, connection, item_id)
        state = resolved.inputs.get("state")
        if state:
            namespace, name = secret_key_of(connection, item_id)
            holder = holder_of(name, resolved.source)
            await self._states.release(state, namespace=namespace, holder=holder)

    def _as_given(self, resolved: Resolved, rejected: str) -> FreshTokens:
        tokens = token_secret_codec.from_values(resolved.inputs, issued_at=self._now())
        if not token_secret_codec.good(tokens, now=self._now(), rejected=rejected, renewable=False):
            raise not_renewable()
        return FreshTokens(tokens=tokens, due_at=tokens.expires_at)

    async def _chosen(
        self, connection: ObjectView, item_id: str, resolved: Resolved, *, name: str, seen: ObjectView | None
    ) -> OAuth2Client | None:
        """The client that the authorisation was begun with, where that is not the scheme's."""
        noted = _noted(seen, resolved.source)
        if noted is not None or (
            seen is not None and token_secret_codec.read(seen).source == resolved.source
        ):
            return noted
        try:
            pending = await self._states.peek(
                resolved.inputs.get("state", ""),
                namespace=connection["metadata"]["namespace"],
                holder=holder_of(name, resolved.source),
            )
            return client_begun_with(self._lookups, connection, item_id, pending)
        except StateRefusedError:
            return None  # reported, and recorded, when the code is to be exchanged


def _check_tenant(seen: ObjectView | None, resolved: Resolved) -> None:
    """Raises where the tokens are of other values than the connection has now. Nothing is asked for in their place."""
    if seen is None or resolved.grant in RENEWING:
        return
    if is_of_other_tenant(token_secret_codec.read(seen).source, resolved.source):
        raise UnresolvedError((Problem(CHANGED, CHANGED_MESSAGE),))


def _check_owner(secret: ObjectView, connection: ObjectView) -> None:
    """Raises where a Secret of the name is not the one for the connection's tokens: nothing may touch it then."""
    if holds_tokens_of(secret, connection):
        return
    name = secret["metadata"]["name"]
    if of_a_predecessor(secret, connection):
        raise UnreachableError(
            f'The Secret "{name}" is of a connection that was deleted; it is tried again when that is gone'
        )
    raise SecretTakenError(name)


def _note(source: str, chosen: OAuth2Client | None) -> Mapping[str, str]:
    if chosen is None:
        return {}
    values = {
        "credentialId": chosen.credential_id,
        "organisationId": chosen.organisation_id,
        "clientId": chosen.client_id,
    }
    return {CLIENT: json.dumps({"source": source, **values})}


def _noted(secret: ObjectView | None, source: str) -> OAuth2Client | None:
    text = ((secret or {}).get("metadata", {}).get("annotations") or {}).get(CLIENT, "")
    try:
        found = json.loads(text or "null")
    except ValueError:
        return None
    if not isinstance(found, dict) or found.pop("source", None) != source:
        return None
    return OAuth2Client(
        credential_id=str(found.get("credentialId", "")),
        organisation_id=str(found.get("organisationId", "")),
        client_id=str(found.get("clientId", "")),
    )
