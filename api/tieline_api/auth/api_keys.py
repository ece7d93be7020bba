"""API keys: Secrets of type ``tieline.dev/api-key`` in the organisation's namespace, which hold a hash only.

A key is an opaque token (``opaque_tokens``). A Secret in another namespace than the key says opens nothing.
Deleting the Secret revokes the key.
"""

import base64
import hmac
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tieline_api.auth import opaque_tokens
from tieline_api.auth.authentication import KEY, KEY_PREFIX, Caller
from tieline_api.auth.opaque_tokens import digest
from tieline_core.identity.ids import format_time, parse_id, parse_time
from tieline_core.identity.names import API_KEY_TYPE
from tieline_core.kubernetes import SecretCache
from tieline_core.objects import ObjectView

USER_PREFIX = "tieline:api-key:"
"""What stands before the users and groups of API keys in RBAC."""
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._@-]{0,126}[A-Za-z0-9])?")


def new_key(organisation_id: str) -> str:
    """A new key of an organisation."""
    return opaque_tokens.new_token(KEY_PREFIX, organisation_id)


def secret_name(key: str) -> str:
    """The name of the Secret that makes ``key`` good."""
    return opaque_tokens.secret_name("api-key", key)


def manifest(
    key: str, *, namespace: str, user: str, groups: Iterable[str] = (), expires: datetime | None = None
) -> dict[str, Any]:
    """The Secret of a new key. Raises ValueError for names that cannot be."""
    groups = tuple(groups)
    for name in (user, *groups):
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"{name!r} cannot be a user or a group: use letters, digits and . _ @ -, at most 128"
            )
    data = {"hash": digest(key), "user": user, "groups": "\n".join(groups)}
    if expires is not None:
        data["expiresAt"] = format_time(expires)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": secret_name(key),
            "namespace": namespace,
            "labels": {"app.kubernetes.io/managed-by": "tieline"},
            "annotations": {"tieline.dev/user": user},
        },
        "type": API_KEY_TYPE,
        "data": {name: base64.b64encode(value.encode()).decode() for name, value in data.items() if value},
    }


@dataclass(frozen=True)
class KeySecret:
    """What the Secret of a key says."""

    obj: ObjectView
    organisation: str
    hash: str
    user: str
    groups: tuple[str, ...]
    expires_at: str | None
    """When the key ends (RFC 3339); None: when it is deleted."""

    @property
    def subject(self) -> str:
        """The user's name in RBAC."""
        return f"{self._prefix}{self.user}"

    @property
    def caller(self) -> Caller:
        """Who calls with the key."""
        # The organisation is part of the names: whoever may write Secrets in one namespace must not become
        # a user of another.
        return Caller(
            username=self.subject,
            groups=(*(f"{self._prefix}{name}" for name in self.groups), "system:authenticated"),
            organisations=frozenset({self.organisation}),
            kind="apiKey",
            display_name=self.user,
        )

    @property
    def _prefix(self) -> str:
        return f"{USER_PREFIX}{self.organisation.lower()}:"

    def is_over(self, now: datetime) -> bool:
        """Whether the key's end has come. One that cannot be read has."""
        if not self.expires_at:
            return False
        try:
            return parse_time(self.expires_at) <= now
        except ValueError:
            return True


def read_secret(secret: ObjectView, organisation: str) -> KeySecret | None:
    """The key of an organisation that a Secret makes good; None where it makes none good."""
    data = _data(secret)
    if secret.get("type") != API_KEY_TYPE or not _NAME.fullmatch(data.get("user", "")):
        return None
    return KeySecret(
        obj=secret,
        organisation=organisation,
        hash=data.get("hash", ""),
        user=data["user"],
        groups=tuple(name for name in data.get("groups", "").split("\n") if _NAME.fullmatch(name)),
        expires_at=data.get("expiresAt") or None,
    )


class ApiKeys:
    """Finds out whose an API key is, from a cache of the Secrets."""

    def __init__(
        self,
        cache: SecretCache,
        namespace_of: Callable[[str], str | None],
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        used: Callable[[ObjectView], None] = lambda _: None,
    ) -> None:
        """``namespace_of`` an organisation's id, None for one that is not there; ``used`` is called with the Secret of
        a key that is good."""
        self._cache = cache
        self._namespace_of = namespace_of
        self._now = now
        self._used = used

    def caller(self, key: str) -> Caller | None:
        """The key's caller, or None for a key that is not good (any more)."""
        found = KEY.fullmatch(key)
        organisation = parse_id(found["organisation"]) if found else None
        if organisation is None:
            return None
        namespace = self._namespace_of(organisation)
        secret = self._cache.get(namespace, secret_name(key)) if namespace else None
        read = read_secret(secret, organisation) if secret else None
        if read is None or not hmac.compare_digest(read.hash, digest(key)) or read.is_over(self._now()):
            return None
        self._used(read.obj)
        return read.caller


def _data(secret: ObjectView) -> dict[str, str]:
    try:
        return {
            name: base64.b64decode(value).decode().strip()
            for name, value in (secret.get("data") or {}).items()
        }
    except ValueError:
        return {}
