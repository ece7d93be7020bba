"""The caller, and the chain of authenticators that find out who it is."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tieline_api.errors import unauthenticated

MAX_TOKEN = 16384
_SCHEMES = frozenset({"bearer", "jwt"})
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]+")


@dataclass(frozen=True, kw_only=True)
class Caller:
    """Who calls, in the words of Kubernetes' authorisation."""

    username: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def key(self) -> tuple[object, ...]:
        """What tells callers apart for permissions."""
        return (self.username, self.uid, self.groups, tuple(sorted(self.extra.items())))


class Authenticator(Protocol):
    """One way to find out who calls."""

    async def authenticate(self, token: str) -> Caller | None:
        """The token's caller, or None when this authenticator does not know the token.

        Raises ApiError (503) when it cannot tell right now.
        """


class Chain:
    """Asks one authenticator after the other; the first that knows the token decides."""

    def __init__(self, authenticators: Sequence[Authenticator]) -> None:
        self._authenticators = tuple(authenticators)

    async def caller(self, headers: Mapping[str, str]) -> Caller:
        """Who sends these headers; raises ApiError (401) for nobody that is known."""
        token = bearer_token(headers)
        for authenticator in self._authenticators:
            caller = await authenticator.authenticate(token)
            if caller is not None:
                return caller
        raise unauthenticated("The token is not valid (any more): get a new one")


def bearer_token(headers: Mapping[str, str]) -> str:
    """The token of the Authorization header, whose scheme may be Bearer or JWT."""
    header = headers.get("Authorization")
    if not header:
        raise unauthenticated("Send a token: Authorization: Bearer <token>")
    scheme, _, token = header.strip().partition(" ")
    token = token.strip()
    if scheme.lower() not in _SCHEMES or not token:
        raise unauthenticated("The header must read: Authorization: Bearer <token>")
    if len(token) > MAX_TOKEN or not _TOKEN.fullmatch(token):
        raise unauthenticated("The token is malformed")
    return token
