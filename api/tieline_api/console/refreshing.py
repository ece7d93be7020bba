"""Tokens of sessions are refreshed shortly before they end."""

import hashlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace

from cachetools import TTLCache

from tieline_api.console.provider import Provider, ProviderError, RefusedError
from tieline_api.console.refresh_notes import RefreshNotes
from tieline_api.console.sessions import Session, decoded, encoded
from tieline_api.errors import unavailable
from tieline_common.single_flight import SingleFlight
from tieline_core.kubernetes import KubeError
from tieline_core.objects import Object

logger = logging.getLogger(__name__)

_MARGIN = 30.0
_SHARE = 4
_REMEMBERED = 1000
_KEEP = 300.0
_PAUSE = 5.0
_REFUSED = b"refused"


class Refresher:
    """Brings sessions' tokens up to date.

    What came of a refresh is remembered for requests that are still on their way with the old cookie.
    """

    def __init__(self, provider: Provider, notes: RefreshNotes | None, *, now: Callable[[], float]) -> None:
        self._provider = provider
        self._notes = notes
        self._now = now
        self._flights: SingleFlight[bytes, Session | None] = SingleFlight()
        self._done: TTLCache[bytes, Session | None] = TTLCache(_REMEMBERED, _KEEP, timer=now)
        self._paused: TTLCache[bytes, bool] = TTLCache(_REMEMBERED, _PAUSE, timer=now)

    async def fresh(self, session: Session) -> Session | None:
        """The session with tokens that are good; None where it has ended. ApiError 503 while nobody can tell."""
        if not session.refresh_token or not self._is_due(session):
            return session
        key = hashlib.sha256(session.refresh_token.encode()).digest()
        if key in self._done:
            found = self._done[key]
        elif key in self._paused:
            return self._meanwhile(session)
        else:
            try:
                found = await self._flights.run(key, lambda: self._refreshed(session))
            except ProviderError as error:
                self._paused[key] = True
                logger.warning("The tokens of a session cannot be refreshed: %s", error)
                return self._meanwhile(session)
            self._done[key] = found
        if found is None and self._now() < (session.token_expires or 0):
            return session
        return found

    def _is_due(self, session: Session) -> bool:
        if session.token_expires is None:
            return False
        lifetime = session.token_expires - session.token_began
        return session.token_expires - self._now() < min(_MARGIN, lifetime / _SHARE)

    def _meanwhile(self, session: Session) -> Session:
        """The session as it is, where its token is good for a while. ApiError 503."""
        if self._now() < (session.token_expires or 0):
            return session
        raise unavailable(f"{self._provider.name} cannot be reached right now to go on with your session")

    async def _refreshed(self, session: Session) -> Session | None:
        if self._notes is None:
            return await self._asked(session)
        try:
            note = await self._notes.claim(session.refresh_token)
            if note is None and (content := await self._notes.result(session.refresh_token)) is not None:
                return None if content == _REFUSED else decoded(content)
        except KubeError as error:
            logger.warning("A refresh is not shared with other replicas: %s", error.message)
            note = None
        return await self._asked(session) if note is None else await self._claimed(session, note, self._notes)

    async def _claimed(self, session: Session, note: Object, notes: RefreshNotes) -> Session | None:
        """Asks for all replicas."""
        try:
            found = await self._asked(session)
        except ProviderError:
            await _quietly(notes.drop(note))
            raise
        content = encoded(found) if found else _REFUSED
        await _quietly(notes.tell(note, session.refresh_token, content))
        return found

    async def _asked(self, session: Session) -> Session | None:
        try:
            granted = await self._provider.refresh(session.refresh_token, subject=session.subject)
        except RefusedError as error:
            logger.info("A session of the console ends: %s", error)
            return None
        return replace(
            session,
            token=granted.token,
            token_began=int(self._now()),
            token_expires=granted.expires,
            refresh_token=granted.refresh_token,
        )


async def _quietly(writing: Awaitable[None]) -> None:
    """Others that wait find out by time."""
    try:
        await writing
    except KubeError as error:
        logger.warning("A note of a refresh cannot be written: %s", error.message)
