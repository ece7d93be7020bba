"""What is remembered of an authorisation until the user comes back: Secrets of a type of their own.

The state in the URL is ``<organisation>.<256 random bits>``. A Secret is named after its hash, so who may list
Secrets still cannot make a state up. It sits in the organisation's namespace and belongs to the System (and goes
with it). Whoever exchanges the code binds the state to the credential first, by its ``resourceVersion``: that
makes it single-use, across processes, and lets the same credential's exchange be taken up again when the process
that began it has died.
"""

import base64
import hashlib
import json
import re
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from tieline_core.identity.ids import format_time, parse_id, parse_time
from tieline_core.identity.names import OAUTH_STATE_TYPE
from tieline_core.identity.owner_references import owner_reference
from tieline_core.kubernetes.client import Kube
from tieline_core.kubernetes.errors import Conflict, NotFound
from tieline_core.kubernetes.periodic_gc import run_periodically
from tieline_core.kubernetes.reading import find
from tieline_core.kubernetes.resources import SECRETS
from tieline_core.objects import ObjectView
from tieline_protocol.oauth.token_client import RefusedError

EXPIRES = "tieline.dev/expires-at"
BOUND_TO = "tieline.dev/bound-to"
BROWSER = "tieline.dev/browser"
SWEEP_SECONDS = 300.0
_RANDOM_BYTES = 32
_STATE = re.compile(r"(?P<organisation>[0-9A-Z]{26})\.[A-Za-z0-9_-]{43}")


class StateRefusedError(RefusedError):
    """A state that is not good (any more), or not for this credential."""


@dataclass(frozen=True, kw_only=True)
class PendingAuthorization:
    """An authorisation that a user was sent away for."""

    organisation_id: str
    system_id: str
    credential_id: str
    credential_organisation_id: str = ""
    """The organisation that owns the credential; the same one when empty."""
    client_id: str
    redirect_uri: str
    requested_by: str
    code_verifier: str = ""
    """The PKCE verifier, where there is one."""
    scopes: str = ""
    """What the user was asked for, separated by spaces."""
    connection: str = ""
    """The name of the Connection whose credential is finished without the application's help, where one is."""
    item_id: str = ""
    """That credential's id in the Connection."""
    oauth1_token: str = ""
    """The temporary credentials' token, of OAuth 1.0."""
    oauth1_secret: str = ""
    """The temporary credentials' secret."""
    oauth1_params: str = ""
    """The values that the user gave for the scheme's additional parameters, as JSON."""
    end_user: str = ""
    """The name of the EndUser who began it with a token of their own; only their connections may have what comes."""
    session: str = ""
    """The id of the connect session that it was begun with, where it was one."""
    authorize_url: str = ""
    """Where the end user is sent to authorise."""
    variables: str = ""
    """The values in the auth scheme's URLs, as JSON. The code is good with the same values only."""

    def values_begun_with(self) -> dict[str, str]:
        """The values in the auth scheme's URLs."""
        return dict(json.loads(self.variables or "{}"))


def new_state(organisation_id: str) -> str:
    """An unguessable state that tells in which organisation to look for it."""
    return f"{organisation_id}.{secrets.token_urlsafe(_RANDOM_BYTES)}"


def new_verifier() -> str:
    """A PKCE verifier (RFC 7636, section 4.1)."""
    return secrets.token_urlsafe(_RANDOM_BYTES)


def organisation_of(state: str) -> str | None:
    """The organisation that a state names, or None when it cannot be ours."""
    found = _STATE.fullmatch(state)
    return parse_id(found["organisation"]) if found else None


class OAuthStateStore:
    """Remembers authorisations for a while."""

    def __init__(
        self,
        kube: Kube,
        *,
        seconds: float,
        kept: Callable[[], Iterable[ObjectView]] = lambda: (),
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """``seconds`` are those for which a state is good. ``kept`` are the Secrets with states that a cache knows."""
        self._kube = kube
        self._seconds = seconds
        self._kept = kept
        self._now = now

    async def remember(self, state: str, pending: PendingAuthorization, *, system: ObjectView) -> None:
        """Keeps ``pending`` under ``state``; it goes when ``system`` goes."""
        expires = self._now() + timedelta(seconds=self._seconds)
        data = {name: value for name, value in vars(pending).items() if value}
        manifest = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": _name(state),
                "namespace": system["metadata"]["namespace"],
                "labels": {"app.kubernetes.io/managed-by": "tieline"},
                "annotations": {EXPIRES: format_time(expires)},
                "ownerReferences": [owner_reference(system)],
            },
            "type": OAUTH_STATE_TYPE,
            "immutable": True,
            "data": {name: base64.b64encode(value.encode()).decode() for name, value in data.items()},
        }
        await self._kube.create(SECRETS, manifest)

    async def peek(self, state: str, *, namespace: str, holder: str = "") -> PendingAuthorization:
        """What is kept under ``state`` in the namespace of its organisation. StateRefusedError where nothing is.

        Refused are states that are none, have expired, were used up, belong to another organisation, or are
        bound to another holder than this one.
        """
        return _pending(await self._found(state, namespace=namespace, holder=holder))

    async def tie(self, state: str, *, namespace: str, browser: str) -> PendingAuthorization:
        """Ties the state to a browser by the hash of its cookie, once. StateRefusedError."""
        while True:
            found = await self._found(state, namespace=namespace, holder="")
            if _note(found, BROWSER):
                raise StateRefusedError(
                    "This authorisation was taken up by a browser already; connect again", code="state_used"
                )
            try:
                await self._kube.replace(SECRETS, _noted(found, BROWSER, browser))
            except (Conflict, NotFound):
                continue
            return _pending(found)

    async def browser_of(self, state: str, *, namespace: str) -> str:
        """The hash of the cookie that the state is tied to; empty where it is tied to none. StateRefusedError."""
        return _note(await self._found(state, namespace=namespace, holder=""), BROWSER)

    async def bind(self, state: str, *, namespace: str, holder: str) -> PendingAuthorization:
        """Binds the state to ``holder``, for whom alone it is good from now on; raises StateRefusedError."""
        while True:
            found = await self._found(state, namespace=namespace, holder=holder)
            if _note(found, BOUND_TO) == holder:
                return _pending(found)
            try:
                await self._kube.replace(SECRETS, _noted(found, BOUND_TO, holder))
            except (Conflict, NotFound):
                continue
            return _pending(found)

    async def release(self, state: str, *, namespace: str, holder: str) -> None:
        """Makes a state that was bound to ``holder`` free again: nothing came of it."""
        try:
            found = await self._kube.get(SECRETS, _name(state), namespace)
            if _note(found, BOUND_TO) == holder and not self._expired(found):
                await self._kube.replace(SECRETS, _noted(found, BOUND_TO, ""))
        except (Conflict, NotFound):
            return

    async def drop(self, state: str, *, namespace: str) -> None:
        """Forgets a state that has served."""
        try:
            await self._kube.delete(SECRETS, _name(state), namespace)
        except NotFound:
            return

    async def sweep(self) -> int:
        """Deletes what has expired, in all organisations; returns how many."""
        expired = [secret for secret in self._kept() if self._expired(secret)]
        for secret in expired:
            metadata = secret["metadata"]
            try:
                await self._kube.delete(SECRETS, metadata["name"], metadata["namespace"], uid=metadata["uid"])
            except (NotFound, Conflict):
                continue
        return len(expired)

    async def run_periodically(self) -> None:
        """Deletes what has expired now and then, for ever."""
        await run_periodically(self.sweep, seconds=SWEEP_SECONDS, what="expired authorisations")

    async def _found(self, state: str, *, namespace: str, holder: str) -> dict[str, Any]:
        organisation = organisation_of(state)
        if organisation is None:
            raise unknown_state()
        found = await find(self._kube, SECRETS, _name(state), namespace)
        if (
            found is None
            or found.get("type") != OAUTH_STATE_TYPE
            or _pending(found).organisation_id != organisation
        ):
            raise unknown_state()
        bound = _note(found, BOUND_TO)
        if bound and bound != holder:
            raise StateRefusedError(
                "This authorisation was used already, and is good once only; connect again", code="state_used"
            )
        # Who has bound it in time goes on with it, after an outage of the provider too.
        if not bound and self._expired(found):
            raise StateRefusedError(
                "This authorisation has expired: it took too long; connect again", code="state_expired"
            )
        return found

    def _expired(self, secret: ObjectView) -> bool:
        text = (secret["metadata"].get("annotations") or {}).get(EXPIRES, "")
        try:
            return parse_time(text) <= self._now()
        except ValueError:
            return True


def unknown_state() -> StateRefusedError:
    """The refusal of a state under which nothing is kept."""
    return StateRefusedError(
        "This authorisation is not known here: it was already used, has expired, or was "
        "started by another application; connect again",
        code="state_unknown",
    )


def _name(state: str) -> str:
    return f"oauth-state-{hashlib.sha256(state.encode()).hexdigest()[:40]}"


def _note(secret: ObjectView, name: str) -> str:
    found: str = (secret["metadata"].get("annotations") or {}).get(name, "")
    return found


def _noted(secret: ObjectView, name: str, value: str) -> dict[str, Any]:
    metadata = secret["metadata"]
    notes = {**(metadata.get("annotations") or {}), name: value}
    return {**secret, "metadata": {**metadata, "annotations": notes}}


def _pending(secret: ObjectView) -> PendingAuthorization:
    data = secret.get("data") or {}
    names = PendingAuthorization.__dataclass_fields__
    values = {name: base64.b64decode(data[name]).decode() for name in names if name in data}
    return PendingAuthorization(**{**dict.fromkeys(names, ""), **values})
