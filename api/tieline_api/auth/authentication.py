"""The caller, and the chain of authenticators that find out who it is."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from multidict import MultiMapping

from tieline_api.auth.end_users import EndUserScope
from tieline_api.errors import malformed, unauthenticated

KEY_PREFIX = "tlk"
KEY = re.compile(rf"{KEY_PREFIX}_(?P<organisation>[0-9A-Za-z]{{26}})_[A-Za-z0-9_-]{{43}}")
"""How API keys look: ``tlk_<organisation>_<256 random bits>``."""
SESSION_PREFIX = "tcs"
SESSION = re.compile(rf"{SESSION_PREFIX}_(?P<organisation>[0-9A-Za-z]{{26}})_[A-Za-z0-9_-]{{43}}")
"""How tokens of connect sessions look: ``tcs_<organisation>_<256 random bits>``."""

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
    organisations: frozenset[str] | None = None
    """The organisations that the token is good for; None where RBAC alone decides."""
    kind: Literal["user", "serviceAccount", "apiKey", "endUser"] = "user"
    display_name: str = ""
    """The name, for people; empty where the username is all that is known."""
    end_user: EndUserScope | None = None
    """What an end user reaches; Kubernetes is asked nothing about them. None for everybody else."""

    def key(self) -> tuple[object, ...]:
        """What tells callers apart for permissions."""
        return (self.username, self.uid, self.groups, tuple(sorted(self.extra.items())))


class Authenticator(Protocol):
    """One way to find out who calls."""

    async def authenticate(self, token: str) -> Caller | None:
        """The token's caller, or None when this authenticator does not know the token.

        Raises ApiError (503) when it cannot tell right now.
        """


class ApiKeyLookup(Protocol):
    """Finds out whose an API key is."""

    def caller(self, key: str) -> Caller | None:
        """The key's caller, or None for a key that is not good."""


class AuthenticatorChain:
    """Asks one authenticator after the other; the first that knows the token decides."""

    def __init__(
        self,
        authenticators: Sequence[Authenticator],
        *,
        keys: ApiKeyLookup | None = None,
        sessions: Authenticator | None = None,
    ) -> None:
        """``sessions`` alone is asked about tokens of connect sessions."""
        self._authenticators = tuple(authenticators)
        self._keys = keys
        self._sessions = sessions

    async def caller(self, headers: Mapping[str, str], *, key_as_bearer: bool = False) -> Caller:
        """Who sends these headers; raises ApiError: 401 for nobody that is known, 400 for a header that is repeated.

        ``X-API-Key`` decides where it is sent; an empty one is none. ``key_as_bearer`` tells that an API key may be
        the bearer value as well (the operations that existing clients call so).
        """
        refuse_repeated(headers, "X-API-Key")
        key = api_key(headers)
        if key:
            refuse_repeated(headers, "Authorization")
            return self._holder(key)
        token = bearer_token(headers)
        if key_as_bearer and KEY.fullmatch(token):
            return self._holder(token)
        if SESSION.fullmatch(token):
            return await self._of_session(token)
        if KEY.fullmatch(token):
            raise unauthenticated("This is an API key: send it as X-API-Key: <key> instead of Authorization")
        for authenticator in self._authenticators:
            caller = await authenticator.authenticate(token)
            if caller is not None:
                return caller
        raise unauthenticated("Invalid or expired token: get a new one")

    async def _of_session(self, token: str) -> Caller:
        caller = await self._sessions.authenticate(token) if self._sessions is not None else None
        if caller is None:
            raise unauthenticated("The connect session has ended or was revoked: begin a new one")
        return caller

    def _holder(self, key: str) -> Caller:
        caller = self._keys.caller(key) if self._keys is not None and len(key) <= MAX_TOKEN else None
        if caller is None:
            raise unauthenticated("Invalid or revoked API key: get a new one")
        return caller


def api_key(headers: Mapping[str, str]) -> str:
    """The value of X-API-Key; empty where there is none, which some clients send as an empty header."""
    return headers.get("X-API-Key", "").strip()


def refuse_repeated(headers: Mapping[str, str], name: str) -> None:
    """ApiError 400 where a header that identifies the caller is sent twice.

    RFC 9110 (5.3) allows each once. Of two, a proxy in front of the API may check one and the API take the other.
    """
    if isinstance(headers, MultiMapping) and len(headers.getall(name, ())) > 1:
        raise malformed(f"The header {name} is sent more than once: send it once")


def bearer_token(headers: Mapping[str, str]) -> str:
    """The token of the Authorization header, whose scheme may be Bearer or JWT."""
    refuse_repeated(headers, "Authorization")
    header = headers.get("Authorization")
    if not header:
        raise unauthenticated("Send a token (Authorization: Bearer <token>) or an API key (X-API-Key: <key>)")
    scheme, _, token = header.strip().partition(" ")
    token = token.strip()
    if scheme.lower() not in _SCHEMES or not token:
        raise unauthenticated("The header must read: Authorization: Bearer <token>")
    if len(token) > MAX_TOKEN or not _TOKEN.fullmatch(token):
        raise unauthenticated("The token is malformed")
    return token
