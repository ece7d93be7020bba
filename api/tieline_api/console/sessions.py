"""Sessions: what somebody has signed in with, sealed into cookies. Nothing of them is kept here.

The session's cookie is written when somebody signs in and when tokens are refreshed. When it was last used is in a
second cookie, so that a late answer to one request cannot undo a refresh of another.
"""

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal, Protocol

import jwt
import orjson
from jwt.exceptions import PyJWTError

from tieline_api.auth.authentication import KEY
from tieline_api.console import cookies
from tieline_api.console.sealing import UnsealError
from tieline_api.console.session_keys import SessionKeys

_SESSION, _SEEN = "session", "seen"
_SEEN_SHARE = 20
"""The last use is noted again after this part of the idle time."""

Kind = Literal["token", "key", "oidc"]


class Grant(Protocol):
    """What an issuer has granted (``provider.Granted``)."""

    @property
    def token(self) -> str: ...
    @property
    def expires(self) -> int | None: ...
    @property
    def subject(self) -> str: ...
    @property
    def refresh_token(self) -> str: ...


@dataclass(frozen=True, kw_only=True)
class Session:
    """What a signed-in browser calls the API with. Times are seconds since 1970."""

    id: str
    kind: Kind
    token: str = field(repr=False)
    began: int
    token_expires: int | None = None
    """When the token ends; None where it does not say."""
    token_began: int = 0
    """When it was issued, of tokens that can be refreshed."""
    refresh_token: str = field(default="", repr=False)
    subject: str = ""
    """Whom the issuer takes the person for."""

    def headers(self) -> Mapping[str, str]:
        """The headers that the API knows callers by."""
        if self.kind == "key":
            return {"X-API-Key": self.token}
        return {"Authorization": f"Bearer {self.token}"}


def of_pasted(text: str, *, now: float) -> Session:
    """The session of a token or an API key that somebody has pasted."""
    kind: Kind = "key" if KEY.fullmatch(text) else "token"
    return Session(id=new_id(), kind=kind, token=text, began=int(now), token_expires=expiry_of(text))


def of_issuer(granted: Grant, *, now: float) -> Session:
    """The session of somebody whom an issuer has signed in."""
    return Session(
        id=new_id(),
        kind="oidc",
        token=granted.token,
        began=int(now),
        token_began=int(now),
        token_expires=granted.expires,
        refresh_token=granted.refresh_token,
        subject=granted.subject,
    )


def encoded(session: Session) -> bytes:
    """A session as it is sealed."""
    return orjson.dumps(asdict(session))


def decoded(content: bytes) -> Session | None:
    """The session again; None for one of another release."""
    try:
        found = orjson.loads(content)
        return Session(**found) if isinstance(found, dict) else None
    except (orjson.JSONDecodeError, TypeError):
        return None


def new_id() -> str:
    """An id that nobody can guess."""
    return secrets.token_urlsafe(16)


def expiry_of(token: str) -> int | None:
    """When a JWT says that it ends; None for what says nothing. The API checks the token itself."""
    try:
        found = jwt.decode(token, options={"verify_signature": False}).get("exp")
    except PyJWTError:
        return None
    return int(found) if isinstance(found, (int, float)) and abs(found) < 1e12 else None


@dataclass(frozen=True)
class Opened:
    """A session that is good, and the cookies that keep it."""

    session: Session
    set_cookies: tuple[str, ...] = ()
    ends: float = 0.0
    """When the session ends, if it is not used again."""


class Sessions:
    """Seals sessions into cookies, and opens them again."""

    def __init__(
        self,
        keys: SessionKeys,
        *,
        seconds: float,
        idle_seconds: float,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._keys = keys
        self._seconds = seconds
        self._idle = idle_seconds
        self.now = now

    def ends(self, session: Session) -> float:
        """When the session ends at the latest, whatever is done."""
        absolute = session.began + self._seconds
        if session.refresh_token or session.token_expires is None:
            return absolute
        return min(absolute, session.token_expires)

    async def begin(self, session: Session, sent: Mapping[str, str]) -> list[str]:
        """The headers ``Set-Cookie`` that keep a session, in place of what ``sent`` has. Raises TooLargeError."""
        sealed = await self._keys.seal(_SESSION, encoded(session))
        left = self._left(session)
        return [*cookies.replacing(sealed, sent, seconds=left), await self._seen(session)]

    async def open(self, sent: Mapping[str, str]) -> Opened | None:
        """The session in these cookies; None where there is none, or it has ended."""
        session = await self._session(sent)
        if session is None or self.now() >= self.ends(session):
            return None
        unused = await self._unused(session, sent)
        if unused is None or unused >= self._idle:
            return None
        due = unused >= self._idle / _SEEN_SHARE
        ends = min(self.ends(session), self.now() + self._idle - (0 if due else unused))
        return Opened(session, (await self._seen(session),) if due else (), ends)

    async def _session(self, sent: Mapping[str, str]) -> Session | None:
        content = await self._content(_SESSION, cookies.joined(sent))
        return None if content is None else decoded(content)

    async def _unused(self, session: Session, sent: Mapping[str, str]) -> float | None:
        """Seconds since the session was used; None where the cookie does not say, or is of another session."""
        content = await self._content(_SEEN, sent.get(cookies.SEEN))
        match None if content is None else orjson.loads(content):
            case [str(identifier), int(at)] if identifier == session.id:
                return self.now() - at
        return None

    async def _content(self, purpose: str, sealed: str | None) -> bytes | None:
        try:
            return await self._keys.unseal(purpose, sealed) if sealed else None
        except UnsealError:
            return None

    async def _seen(self, session: Session) -> str:
        sealed = await self._keys.seal(_SEEN, orjson.dumps([session.id, int(self.now())]))
        return cookies.set_cookie(cookies.SEEN, sealed, seconds=self._left(session))

    def _left(self, session: Session) -> int:
        return int(self.ends(session) - self.now())
