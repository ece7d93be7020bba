"""A credential's tokens, kept: obtained where there are none, refreshed where they are due or were rejected.

``Keeper.fresh`` is all that operator and API call. However many call it, in however many processes, the provider
is asked once (``refreshing``), for a first token too: the Secret with the tokens is created with the claim in it,
so that nobody else exchanges the same code. Tokens are stored before anybody gets them, in a Secret of their own:
the one that a connection names belongs to whoever wrote it.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tieline_core.ids import credential_id, object_id
from tieline_core.kube.errors import NotFound
from tieline_core.kube.resources import SECRETS
from tieline_core.names import CREDENTIAL_TYPE, TOKENS_LABEL, tokens_name
from tieline_core.oauth import refreshing, stored
from tieline_core.oauth.linking import Linked, Object, Problem, canonical, client_of, scheme_of
from tieline_core.oauth.refreshing import Refresher, Wanted, not_renewable
from tieline_core.oauth.resolving import Grant, Lookups, Resolved, resolve
from tieline_core.oauth.states import OAuthStates, Pending, StateRefusedError
from tieline_core.oauth.tokens import Endpoint, RefusedError, TokenClient, TokenError, Tokens
from tieline_core.resources import Connection
from tieline_core.resources.auth_schemes import OAuth2Client

CREDENTIAL_ANNOTATION = "tieline.dev/credential"
CLIENT = "tieline.dev/client"
"""The client that an authorisation was begun with, where the scheme names another one or none."""

_RENEWING = (Grant.CLIENT_CREDENTIALS, Grant.PASSWORD)


class UnresolvedError(TokenError):
    """Something is missing or wrong before anybody could be asked; ``problems`` say what to do."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__(problems[0].message)
        self.problems = problems


@dataclass(frozen=True, kw_only=True)
class Kept:
    """Tokens that are good and stored."""

    tokens: Tokens
    due_at: datetime | None
    """When to come back: they are refreshed from then on. Where that cannot be done, when they end, if ever."""


class Keeper:
    """Keeps the tokens of credentials. Share one in a process."""

    def __init__(
        self,
        secrets: refreshing.Secrets,
        *,
        client: TokenClient,
        lookups: Lookups,
        states: OAuthStates,
        refresher: Refresher | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._secrets = secrets
        self._client = client
        self._lookups = lookups
        self._states = states
        self._refresher = refresher or Refresher(secrets, now=now)
        self._now = now

    async def fresh(
        self, connection: Object, item_id: str, *, rejected: str = "", retry: bool = False
    ) -> Kept | None:
        """Good tokens of a connection's credential (by its id in the connection).

        None for a credential that has no tokens. ``rejected`` is an access token that was answered with 401;
        ``retry`` asks once more although a refusal or a pause is recorded. Raises UnresolvedError where
        something has to be put right first; RefusedError where the provider says no, or has said it;
        UnreachableError and MisconfiguredError where it cannot be asked, which says nothing about the
        credential; KubeError.
        """
        resolved = await resolve(self._lookups, connection, item_id)
        name = tokens_name(connection["metadata"]["name"], item_id)
        seen = await self._read(connection, name) if resolved.grant else None
        if resolved.grant is Grant.AUTHORIZATION_CODE:
            chosen = await self._chosen(connection, item_id, resolved, name=name, seen=seen)
            if chosen is not None:
                resolved = await resolve(self._lookups, connection, item_id, client=chosen)
        else:
            chosen = None
        if resolved.problems:
            raise UnresolvedError(resolved.problems)
        if resolved.grant is None:
            return None
        if resolved.grant is Grant.TOKEN and seen is None and not resolved.inputs.get("refreshToken"):
            return self._as_given(resolved, rejected)
        wanted = Wanted(
            source=resolved.source,
            asked_as=resolved.asked_as,
            rejected=rejected,
            renews=resolved.grant in _RENEWING,
            retry=retry,
            blank=_blank(connection, item_id, name),
            notes=_note(resolved.source, chosen),
        )
        asking = _Asking(self._client, self._states, connection, item_id, resolved, wanted, self._now)
        namespace = connection["metadata"]["namespace"]
        tokens = await self._refresher.fresh(
            namespace, name, ask=asking, wanted=wanted, seen=seen or dict(wanted.blank or {})
        )
        if asking.exchanged:
            await self._states.drop(resolved.inputs["state"], namespace=namespace)
        due = stored.due_at(tokens) if wanted.renewable(tokens) else tokens.expires_at
        return Kept(tokens=tokens, due_at=due)

    async def give_up(self, connection: Object, item_id: str) -> None:
        """Frees the state of a code that nothing came of, so that it can be stored again elsewhere."""
        resolved = await resolve(self._lookups, connection, item_id)
        state = resolved.inputs.get("state")
        if state:
            metadata = connection["metadata"]
            holder = holder_of(tokens_name(metadata["name"], item_id), resolved.source)
            await self._states.release(state, namespace=metadata["namespace"], holder=holder)

    def _as_given(self, resolved: Resolved, rejected: str) -> Kept:
        tokens = stored.from_values(resolved.inputs, issued_at=self._now())
        if not stored.good(tokens, now=self._now(), rejected=rejected, renewable=False):
            raise not_renewable()
        return Kept(tokens=tokens, due_at=tokens.expires_at)

    async def _read(self, connection: Object, name: str) -> dict[str, Any] | None:
        try:
            return await self._secrets.get(SECRETS, name, connection["metadata"]["namespace"])
        except NotFound:
            return None

    async def _chosen(
        self, connection: Object, item_id: str, resolved: Resolved, *, name: str, seen: Object | None
    ) -> OAuth2Client | None:
        """The client that the authorisation was begun with, where that is not the scheme's."""
        noted = _noted(seen, resolved.source)
        if noted is not None or (seen is not None and stored.read(seen).source == resolved.source):
            return noted
        try:
            pending = await self._states.look(
                resolved.inputs.get("state", ""),
                namespace=connection["metadata"]["namespace"],
                holder=holder_of(name, resolved.source),
            )
            return client_begun_with(self._lookups, connection, item_id, pending)
        except StateRefusedError:
            return None  # told, and recorded, when the code is to be exchanged


class _Asking:
    """The token request of one credential, as the grant makes it."""

    def __init__(
        self,
        client: TokenClient,
        states: OAuthStates,
        connection: Object,
        item_id: str,
        resolved: Resolved,
        wanted: Wanted,
        now: Callable[[], datetime],
    ) -> None:
        self._client = client
        self._states = states
        self._connection = connection
        self._item_id = item_id
        self._resolved = resolved
        self._wanted = wanted
        self._now = now
        self.exchanged = False

    async def __call__(self, old: Tokens) -> Tokens:
        if old.refresh_token:
            try:
                return await self._refreshed(old)
            except RefusedError as error:
                # The refresh token has ended; the client or the user's password gets another one.
                if self._resolved.grant not in _RENEWING or error.code != "invalid_grant":
                    raise
        return await self._obtained()

    async def _obtained(self) -> Tokens:
        resolved, inputs = self._resolved, self._resolved.inputs
        match resolved.grant:
            case Grant.AUTHORIZATION_CODE:
                return await self._exchanged()
            case Grant.CLIENT_CREDENTIALS:
                return await self._client.client_credentials(self._endpoint(), scopes=resolved.scopes)
            case Grant.PASSWORD:
                return await self._client.password(
                    self._endpoint(),
                    username=inputs["username"],
                    password=inputs.get("password", ""),
                    scopes=resolved.scopes,
                )
        given = stored.from_values(inputs, issued_at=self._now())
        renewable = self._wanted.renewable(given)
        if stored.good(given, now=self._now(), rejected=self._wanted.rejected, renewable=renewable):
            return given
        if not renewable:
            raise not_renewable()
        return await self._refreshed(given)

    async def _refreshed(self, old: Tokens) -> Tokens:
        return await self._client.refresh(
            self._endpoint(), refresh_token=old.refresh_token, scopes=old.scopes
        )

    async def _exchanged(self) -> Tokens:
        metadata, inputs = self._connection["metadata"], self._resolved.inputs
        name = tokens_name(metadata["name"], self._item_id)
        pending = await self._states.bind(
            inputs.get("state", ""),
            namespace=metadata["namespace"],
            holder=holder_of(name, self._resolved.source),
        )
        endpoint = self._endpoint()
        if pending.client_id != endpoint.client_id:
            raise StateRefusedError(
                f'The authorisation was begun for the client "{pending.client_id}", and the auth scheme names '
                "another one; connect again with that one",
                code="client_mismatch",
            )
        tokens = await self._client.exchange(
            endpoint,
            code=inputs["code"],
            redirect_uri=pending.redirect_uri,
            verifier=pending.code_verifier,
            scopes=pending.scopes.split(),
        )
        self.exchanged = True
        return tokens

    def _endpoint(self) -> Endpoint:
        if self._resolved.endpoint is None:
            raise UnresolvedError(
                (Problem("UrlWrong", "The auth scheme names no usable token URL; correct it"),)
            )
        return self._resolved.endpoint


def holder_of(name: str, source: str) -> str:
    """Whom a state is bound to: the credential (by the Secret of its tokens) and the very code."""
    return f"{name}/{source}"


def client_begun_with(
    lookups: Lookups, connection: Object, item_id: str, pending: Pending
) -> OAuth2Client | None:
    """The client of an authorisation, where that is not the one of the credential's auth scheme.

    Raises StateRefusedError where the authorisation is not for this credential: it was begun for another
    organisation, system or credential.
    """
    read = Connection.read(connection)
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
    named = scheme.oauth2.grant.authorization_code if scheme and scheme.oauth2 else None
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
    if not isinstance(client_of(lookups, read.namespace, client), Linked):
        raise _foreign()
    return client


def _foreign() -> StateRefusedError:
    return StateRefusedError(
        "This authorisation was begun for another system or credential; connect again", code="state_foreign"
    )


def _blank(connection: Object, item_id: str, name: str) -> dict[str, Any]:
    """The Secret for the tokens before there are any; it goes with the connection."""
    metadata = connection["metadata"]
    owner = {
        "apiVersion": connection["apiVersion"],
        "kind": connection["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": metadata["namespace"],
            "labels": {"app.kubernetes.io/managed-by": "tieline", TOKENS_LABEL: "true"},
            "annotations": {CREDENTIAL_ANNOTATION: item_id},
            "ownerReferences": [owner],
        },
        "type": CREDENTIAL_TYPE,
    }


def _note(source: str, chosen: OAuth2Client | None) -> Mapping[str, str]:
    if chosen is None:
        return {}
    values = {
        "credentialId": chosen.credential_id,
        "organisationId": chosen.organisation_id,
        "clientId": chosen.client_id,
    }
    return {CLIENT: json.dumps({"source": source, **values})}


def _noted(secret: Object | None, source: str) -> OAuth2Client | None:
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
