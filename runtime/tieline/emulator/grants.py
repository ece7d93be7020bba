"""What a provider remembers: codes, grants and tokens, by a clock that tests turn."""

import base64
import json
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


def _part(content: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")


@dataclass
class Clock:
    """The provider's time, in seconds since 1970."""

    source: Callable[[], float] = time.time
    offset: float = 0.0

    def now(self) -> float:
        """The time."""
        return self.source() + self.offset

    def advance(self, seconds: float) -> None:
        """Lets time go by."""
        self.offset += seconds


@dataclass(eq=False)
class Grant:
    """What a person has allowed, or a client has by itself."""

    tenant: Mapping[str, str]
    """The values of the variables in the URL at which it was given."""
    scopes: tuple[str, ...]
    offline: bool
    """Whether there is a refresh token."""
    revoked: bool = False


@dataclass(eq=False)
class Code:
    """The code of one consent."""

    grant: Grant
    redirect_uri: str
    challenge: str
    issued_at: float
    used: bool = False


@dataclass(eq=False)
class Token:
    """An access token or a refresh token."""

    value: str = field(repr=False)
    grant: Grant
    issued_at: float
    expires_at: float | None = None


@dataclass
class Grants:
    """All of them, of one provider."""

    key: str
    """In each token, so that it is known whose it is."""
    clock: Clock
    codes: dict[str, Code] = field(default_factory=dict)
    access: dict[str, Token] = field(default_factory=dict)
    refresh: dict[str, Token] = field(default_factory=dict)

    def code(self, grant: Grant, *, redirect_uri: str, challenge: str) -> str:
        """A new code."""
        value = f"{self.key}-code-{secrets.token_urlsafe(12)}"
        self.codes[value] = Code(grant, redirect_uri, challenge, self.clock.now())
        return value

    def new_access(self, grant: Grant, *, lifetime: float | None, is_jwt: bool = False) -> Token:
        """A new access token: any text, or a JWT that says when it ends."""
        now = self.clock.now()
        ends = None if lifetime is None else now + lifetime
        value = f"{self.key}-at-{secrets.token_urlsafe(24)}"
        if is_jwt:
            value = f"{_part({'alg': 'RS256'})}.{_part({'iat': int(now), 'exp': int(ends or now)})}.{value}"
        token = Token(value, grant, now, ends)
        self.access[token.value] = token
        return token

    def new_refresh(self, grant: Grant) -> Token:
        """A new refresh token."""
        token = Token(f"{self.key}-rt-{secrets.token_urlsafe(24)}", grant, self.clock.now())
        self.refresh[token.value] = token
        return token

    def issue_known(self, grant: Grant, *, lifetime: float | None) -> None:
        """Tokens whose values stay the same, for files that people write: ``<key>-at-known`` and ``<key>-rt-known``."""
        now = self.clock.now()
        ends = None if lifetime is None else now + lifetime
        access, refresh = f"{self.key}-at-known", f"{self.key}-rt-known"
        self.access[access] = Token(access, grant, now, ends)
        if grant.offline:
            self.refresh[refresh] = Token(refresh, grant, now)

    def newest_access(self, grant: Grant) -> Token | None:
        """The access token that a grant got last."""
        found = [token for token in self.access.values() if token.grant is grant]
        return found[-1] if found else None

    def is_live(self, token: Token) -> bool:
        """Whether it is neither expired nor revoked."""
        ends = token.expires_at
        return not token.grant.revoked and (ends is None or self.clock.now() < ends)

    def grants(self) -> Iterator[Grant]:
        """All grants with a token."""
        seen: dict[int, Grant] = {}
        for token in (*self.access.values(), *self.refresh.values()):
            seen[id(token.grant)] = token.grant
        yield from seen.values()

    def expire(self) -> int:
        """Ends all access tokens now, as if their time had gone by; returns how many."""
        now = self.clock.now()
        live = [token for token in self.access.values() if self.is_live(token)]
        for token in live:
            token.issued_at -= max(0.0, (token.expires_at or now) - now)
            token.expires_at = now
        return len(live)

    def revoke(self) -> int:
        """Revokes all grants, as people do in their account's settings; returns how many."""
        live = [grant for grant in self.grants() if not grant.revoked]
        for grant in live:
            grant.revoked = True
        return len(live)
