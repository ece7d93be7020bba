"""What the console's requests work with."""

import logging

from aiohttp import web

from tieline_api import errors
from tieline_api.auth.authentication import Caller
from tieline_api.auth.rate_limits import FailureLimiter
from tieline_api.client_address import origin
from tieline_api.console import cookies
from tieline_api.console.cookies import TooLargeError
from tieline_api.console.provider import Provider
from tieline_api.console.refresh_notes import RefreshNotes
from tieline_api.console.refreshing import Refresher
from tieline_api.console.session_keys import SessionKeys
from tieline_api.console.sessions import Opened, Session, Sessions
from tieline_api.dependencies import Dependencies

logger = logging.getLogger(__name__)


class Console:
    """The parts, made once for the application."""

    def __init__(self, platform: Dependencies, failures: FailureLimiter) -> None:
        self.platform = platform
        self.settings = settings = platform.settings
        self.failures = failures
        self.keys = SessionKeys(platform.kube, settings.console_keys_namespace)
        self.sessions = Sessions(
            self.keys,
            seconds=settings.console_session_hours * 3600,
            idle_seconds=settings.console_idle_minutes * 60,
        )

        self.provider = Provider(settings) if settings.console_oidc_issuer else None
        namespace = settings.console_keys_namespace
        self.notes = RefreshNotes(platform.kube, namespace) if self.provider and namespace else None
        self._refresher = (
            Refresher(self.provider, self.notes, now=self.sessions.now) if self.provider else None
        )

    def methods(self) -> list[dict[str, str]]:
        """The ways to sign in, the best first."""
        oidc = [{"type": "oidc", "name": self.provider.name}] if self.provider else []
        return oidc + ([{"type": "token"}] if self.settings.console_tokens else [])

    async def open(self, request: web.Request) -> Opened | None:
        """The session of a request, its tokens fresh; None where there is none that is good.

        ApiError 503 where that is unknown.
        """
        sent = cookies_of(request)
        opened = await self.sessions.open(sent)
        if opened is None or opened.session.kind != "oidc":
            return opened
        session = await self._refresher.fresh(opened.session) if self._refresher else None
        if session is None or session is opened.session:
            return opened if session else None
        try:
            return Opened(session, tuple(await self.sessions.begin(session, sent)), opened.ends)
        except TooLargeError as error:
            logger.error("The new token of a session does not fit into cookies: %s", error)
            return None

    async def caller(self, session: Session) -> Caller:
        """Who is signed in. ApiError: 401 for tokens that are not accepted, and for those of end users."""
        caller = await self.platform.authentication.caller(session.headers())
        if caller.end_user is not None:
            raise errors.unauthenticated("The console is not for end users: sign in with a token of your own")
        return caller

    async def begin(self, request: web.Request, session: Session) -> list[str]:
        """The headers ``Set-Cookie`` for a new session. Raises TooLargeError."""
        return await self.sessions.begin(session, cookies_of(request))

    def address(self, request: web.Request) -> str:
        """Where a request comes from, as a key for counting."""
        forwarded = request.headers.getall("X-Forwarded-For", ())
        return origin(request.remote, forwarded, trusted=self.settings.trusted_proxies)


def cookies_of(request: web.Request) -> dict[str, str]:
    """The console's cookies in a request."""
    return cookies.received(request.headers.getall("Cookie", ()))
