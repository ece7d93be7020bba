"""Connect sessions: Secrets of type ``tieline.dev/connect-session``, with the hash of a token and what it reaches.

A token is opaque, as API keys are (``opaque_tokens``). The Secret belongs to the EndUser and goes with it. Deleting it
revokes the session.
"""

import base64
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import orjson

from tieline_api.auth import opaque_tokens
from tieline_api.auth.authentication import SESSION, SESSION_PREFIX, Caller
from tieline_api.auth.end_users import EndUserScope, user_name
from tieline_api.auth.opaque_tokens import digest
from tieline_core.identity.ids import ID_LABEL, format_time, object_id, parse_id, parse_time
from tieline_core.identity.names import CONNECT_SESSION_TYPE
from tieline_core.identity.owner_references import owner_reference
from tieline_core.kubernetes import Conflict, Kube, NotFound, SecretCache
from tieline_core.kubernetes.periodic_gc import run_periodically
from tieline_core.kubernetes.reading import find
from tieline_core.kubernetes.resources import SECRETS
from tieline_core.objects import Object, ObjectView
from tieline_core.resources.objects import EndUserObject

SWEEP_SECONDS = 300.0
KEPT_AFTER_END = timedelta(hours=1)
"""How long a page whose session has ended may still get that answer: until then its origin is known (CORS)."""


class FixedVariable(NamedTuple):
    """A value of an input that the application has fixed."""

    name: str
    value: str
    hidden: bool
    """Whether the page does not show it."""


@dataclass(frozen=True, kw_only=True)
class ConnectSession:
    """What is kept of a session, without its token."""

    id: str
    """The session's id."""
    external_id: str
    """The user, by the id in the customer's application."""
    environment: str
    """The id of the environment."""
    templates: tuple[str, ...] = ()
    """Ids of connection templates; all dynamic ones of the environment when empty."""
    connection: str = ""
    """The id of the connection that is to be connected again; empty for new ones."""
    origins: tuple[str, ...] = ()
    """The origins that browsers may send the token from."""
    return_url: str = ""
    """Where the user goes after the hosted page."""
    variables: tuple[FixedVariable, ...] = ()
    """Values of inputs that the application has fixed."""
    inputs: tuple[str, ...] | None = None
    """Names of the inputs that the user may set; None for all that are not fixed."""
    created_by: str
    """Who made it: a name in RBAC."""
    created_at: datetime
    expires_at: datetime


def new_token(organisation_id: str) -> str:
    """A new token for a session of an organisation."""
    return opaque_tokens.new_token(SESSION_PREFIX, organisation_id)


def page_key(token: str) -> str:
    """What names the session in the path of its page."""
    return opaque_tokens.short_digest(token)


def secret_name(token: str) -> str:
    """The name of the Secret that makes ``token`` good."""
    return _name_of(page_key(token))


def _name_of(key: str) -> str:
    return f"connect-session-{key}"


def manifest(token: str, session: ConnectSession, *, user: EndUserObject) -> Object:
    """The Secret of a new session of ``user``, its EndUser."""
    content = {
        "externalId": session.external_id,
        "environment": session.environment,
        "templates": session.templates,
        "connection": session.connection,
        "origins": session.origins,
        "returnUrl": session.return_url,
        "variables": [list(one) for one in session.variables],
        "inputs": session.inputs,
        "createdBy": session.created_by,
        "createdAt": format_time(session.created_at),
        "expiresAt": format_time(session.expires_at),
    }
    data = {"hash": digest(token).encode(), "session": orjson.dumps(content)}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": secret_name(token),
            "namespace": user["metadata"]["namespace"],
            "labels": {"app.kubernetes.io/managed-by": "tieline", ID_LABEL: session.id},
            "ownerReferences": [owner_reference(user)],
        },
        "type": CONNECT_SESSION_TYPE,
        "immutable": True,
        "data": {name: base64.b64encode(value).decode() for name, value in data.items()},
    }


def read(secret: ObjectView) -> ConnectSession | None:
    """The session that a Secret holds; None for one that is not ours."""
    if secret.get("type") != CONNECT_SESSION_TYPE:
        return None
    try:
        content: Mapping[str, Any] = orjson.loads(_value(secret, "session"))
        return ConnectSession(
            id=object_id(secret),
            external_id=_text(content["externalId"]),
            environment=_text(content["environment"]),
            templates=tuple(map(_text, content.get("templates") or ())),
            connection=str(content.get("connection") or ""),
            origins=tuple(map(_text, content.get("origins") or ())),
            return_url=str(content.get("returnUrl") or ""),
            variables=tuple(map(_fixed, content.get("variables") or ())),
            inputs=_names(content.get("inputs")),
            created_by=str(content.get("createdBy") or ""),
            created_at=parse_time(content["createdAt"]),
            expires_at=parse_time(content["expiresAt"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


class ConnectSessions:
    """Finds out whose a session's token is.

    From a cache of the Secrets; of a session that another replica has just made, from Kubernetes.
    """

    def __init__(
        self,
        kube: Kube,
        cache: SecretCache,
        namespace_of: Callable[[str], str | None],
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """``namespace_of`` an organisation's id, None for one that is not there."""
        self._kube = kube
        self._cache = cache
        self._namespace_of = namespace_of
        self._now = now

    async def authenticate(self, token: str) -> Caller | None:
        """The token's caller, or None for a token that is not good (any more)."""
        found = SESSION.fullmatch(token)
        organisation = parse_id(found["organisation"]) if found else None
        namespace = self._namespace_of(organisation) if organisation else None
        if organisation is None or namespace is None:
            return None
        secret = await self._secret(namespace, secret_name(token))
        session = read(secret) if secret else None
        if secret is None or session is None or not self.is_live(session):
            return None
        if not hmac.compare_digest(_value(secret, "hash"), digest(token).encode()):
            return None
        return Caller(
            username=user_name(organisation, session.external_id),
            organisations=frozenset({organisation}),
            kind="endUser",
            end_user=EndUserScope(
                external_id=session.external_id,
                environments=frozenset({session.environment}),
                templates=frozenset(session.templates) or None,
                connection=session.connection,
                session=session.id,
                origins=frozenset(session.origins),
                variables=tuple((one.name, one.value) for one in session.variables),
                inputs=None if session.inputs is None else frozenset(session.inputs),
            ),
        )

    async def frames(self, organisation: str, key: str) -> tuple[str, ...]:
        """The origins whose pages may show the page of a session (``page_key``) in a frame.

        Those of a session that has ended lately, too, so that its page can say so. None for one that is not there.
        """
        namespace = self._namespace_of(organisation)
        secret = await self._secret(namespace, _name_of(key)) if namespace else None
        session = read(secret) if secret else None
        return session.origins if session is not None else ()

    def is_live(self, session: ConnectSession) -> bool:
        """Whether the session has not ended yet."""
        return self._now() < session.expires_at

    def find(self, namespace: str, identifier: str) -> ConnectSession | None:
        """The session with this id, while it is live."""
        secret = self.secret(namespace, identifier)
        session = read(secret) if secret else None
        return session if session is not None and self.is_live(session) else None

    def secret(self, namespace: str, identifier: str) -> Object | None:
        """The Secret of the session with this id."""
        wanted = parse_id(identifier)
        found = self._cache.by_index("id", f"{namespace}/{wanted}") if wanted else ()
        return next((one for one in found if read(one) is not None), None)

    def of_user(self, namespace: str, external_id: str) -> list[ConnectSession]:
        """The sessions of a user that have not ended."""
        found = map(read, self._cache.by_index("user", f"{namespace}/{external_id}"))
        return [session for session in found if session is not None and self.is_live(session)]

    def stored(self, namespace: str) -> int:
        """How many sessions of an organisation there are, those that ended lately included."""
        return len(self._cache.list(namespace))

    def live(self, namespace: str) -> list[ConnectSession]:
        """The sessions of an organisation that have not ended, newest first."""
        found = (read(secret) for secret in self._cache.list(namespace))
        live = [session for session in found if session is not None and self.is_live(session)]
        return sorted(live, key=lambda one: one.id, reverse=True)

    def allows(self, origin: str) -> bool:
        """Whether browsers may send some session's token from this origin."""
        return bool(self._cache.by_index("origin", origin))

    async def sweep(self) -> int:
        """Deletes sessions that ended a while ago, in all organisations; returns how many."""
        before = self._now() - KEPT_AFTER_END
        ended = [
            secret
            for secret in self._cache.list()
            if (session := read(secret)) is not None and session.expires_at < before
        ]
        count = 0
        for secret in ended:
            metadata = secret["metadata"]
            try:
                await self._kube.delete(SECRETS, metadata["name"], metadata["namespace"], uid=metadata["uid"])
            except (NotFound, Conflict):
                continue
            self._cache.forget(secret)
            count += 1
        return count

    async def run_periodically(self) -> None:
        """Deletes what has ended now and then, for ever."""
        await run_periodically(self.sweep, seconds=SWEEP_SECONDS, what="connect sessions that have ended")

    async def _secret(self, namespace: str, name: str) -> Object | None:
        return self._cache.get(namespace, name) or await find(self._kube, SECRETS, name, namespace)


def _value(secret: ObjectView, name: str) -> bytes:
    return base64.b64decode((secret.get("data") or {}).get(name, ""), validate=True)


def _fixed(value: object) -> FixedVariable:
    if not isinstance(value, list):
        raise TypeError("must be a list")
    name, text, hidden = value
    return FixedVariable(_text(name), _text(text), bool(hidden))


def _names(value: object) -> tuple[str, ...] | None:
    return None if value is None else tuple(map(_text, value if isinstance(value, list) else ()))


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("must be a text")
    return value
