"""JWTs of configured issuers."""

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

import jwt
from jwt.exceptions import PyJWTError

from tieline_api.auth.authentication import Caller
from tieline_api.auth.end_users import EndUserScope, user_name
from tieline_api.auth.issuers import Issuer, IssuersError, IssuersFile
from tieline_api.auth.jwks import JwksCache, KeysUnavailableError
from tieline_api.auth.ttl_cache import TtlCache
from tieline_api.errors import unauthenticated, unavailable
from tieline_core.identity.ids import parse_id

logger = logging.getLogger(__name__)

WATCH_SECONDS = 10.0
_CACHED_TOKENS = 10_000
_LONGEST = 300.0
_REFUSED_SECONDS = 5.0
_MOST_GROUPS = 500
_LONGEST_NAME = 200
_LONGEST_EXTERNAL_ID = 256


class JwtAuthenticator:
    """Checks tokens of the issuers in a file; tokens of others are left to the next authenticator.

    A checked token is kept by its hash until it expires, at most five minutes. That a key was taken out of
    its set is noticed after that time at the latest.
    """

    def __init__(
        self,
        issuers: IssuersFile,
        keys: JwksCache,
        *,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._issuers = issuers
        self._keys = keys
        self._now = now
        self._clock = clock
        self._cache: TtlCache[bytes, Caller | None] = TtlCache(size=_CACHED_TOKENS, clock=clock)

    async def authenticate(self, token: str) -> Caller | None:
        """The token's caller; None for tokens of other issuers.

        Raises ApiError: 401 for a token of a known issuer that is not good, 503 while its keys cannot be read.
        """
        issuer = self._issuer_of(token)
        if issuer is None:
            return None

        async def check() -> tuple[Caller | None, float]:
            return await self._check(token, issuer)

        caller = await self._cache.get(hashlib.sha256(token.encode()).digest(), check)
        if caller is None:
            raise unauthenticated("Invalid or expired token: get a new one")
        return caller

    def issuers(self) -> tuple[Issuer, ...]:
        """The issuers whose tokens are accepted."""
        return self._issuers.all()

    async def keep_reading(self) -> None:
        """Follows changes of the file, for ever."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            try:
                changed = await asyncio.to_thread(self._issuers.read)
            except IssuersError as error:
                logger.error("The issuers stay as they were: %s", error)
                continue
            if changed:
                self._keys.forget()
                self._cache = TtlCache(size=_CACHED_TOKENS, clock=self._clock)
                logger.info("The issuers have changed")

    def _issuer_of(self, token: str) -> Issuer | None:
        if token.count(".") != 2:
            return None
        try:
            claims = jwt.decode(token, options={"verify_signature": False})
        except PyJWTError:
            return None
        issuer = claims.get("iss")
        return self._issuers.get(issuer) if isinstance(issuer, str) else None

    async def _check(self, token: str, issuer: Issuer) -> tuple[Caller | None, float]:
        try:
            header = jwt.get_unverified_header(token)
            identifier = header.get("kid")
            key = await self._keys.key(issuer, identifier if isinstance(identifier, str) else None)
            if key is None or header.get("alg") not in key.algorithms:
                return None, _REFUSED_SECONDS
            claims: Mapping[str, Any] = jwt.decode(
                token,
                key.key,
                algorithms=list(key.algorithms),
                audience=list(issuer.audiences),
                issuer=issuer.issuer,
                leeway=issuer.clock_skew_seconds,
                options={"require": ["exp", "iss", "aud"]},
            )
        except KeysUnavailableError:
            raise unavailable(
                "The keys of the token's issuer cannot be read right now: try again in a moment"
            ) from None
        except (PyJWTError, ValueError, TypeError):
            return None, _REFUSED_SECONDS
        caller = caller_of(claims, issuer)
        left = float(claims["exp"]) + issuer.clock_skew_seconds - self._now()
        return caller, min(left, _LONGEST) if caller else _REFUSED_SECONDS


def caller_of(claims: Mapping[str, Any], issuer: Issuer) -> Caller | None:
    """Who a token's claims name, in the words of RBAC; None when the user's name is missing.

    Names and groups get the issuer's prefix, so no issuer can name users or groups of another, of the
    cluster, or of Kubernetes itself (``system:masters``).
    """
    name = claims.get(issuer.username_claim)
    if not isinstance(name, str) or not name:
        return None
    if issuer.end_users:
        return _end_user(name, claims, issuer)
    prefix = issuer.rbac_prefix
    groups = [f"{prefix}{group}" for group in _texts(claims.get(issuer.groups_claim))[:_MOST_GROUPS]]
    return Caller(
        username=f"{prefix}{name}",
        groups=(*groups, "system:authenticated"),
        organisations=_organisations(claims, issuer),
        display_name=_display_name(claims.get("name")) or name,
    )


def _end_user(name: str, claims: Mapping[str, Any], issuer: Issuer) -> Caller | None:
    """The end user whom claims name; None for a name that no user can have."""
    listed = _organisations(claims, issuer)
    fixed = None if issuer.organisations is None else frozenset(issuer.organisations)
    organisations = frozenset[str]() if listed is None else listed
    if fixed is not None:
        organisations = fixed if listed is None else listed & fixed
    if len(name) > _LONGEST_EXTERNAL_ID or not name.isprintable():
        return None
    environments = None if issuer.environments is None else frozenset(issuer.environments)
    return Caller(
        # Of several organisations none is named: the issuer tells the users of one from those of another.
        username=user_name(next(iter(organisations)) if len(organisations) == 1 else issuer.issuer, name),
        organisations=organisations,
        kind="endUser",
        display_name=_display_name(claims.get("name")),
        end_user=EndUserScope(external_id=name, environments=environments),
    )


def _organisations(claims: Mapping[str, Any], issuer: Issuer) -> frozenset[str] | None:
    """The organisations that a token names; None where its issuer has no claim for them."""
    if issuer.organisations_claim is None:
        return None
    listed = _texts(claims.get(issuer.organisations_claim))
    return frozenset(found for text in listed if (found := parse_id(text)) is not None)


def _display_name(value: Any) -> str:
    """The claim ``name`` as text to show: one line, of a bounded length, without control characters."""
    text = "".join(letter for letter in value if letter.isprintable()) if isinstance(value, str) else ""
    return text.strip()[:_LONGEST_NAME]


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [item for item in value if isinstance(item, str) and item] if isinstance(value, list) else []
