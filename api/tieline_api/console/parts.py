"""What the console's requests work with."""

from aiohttp import web

from tieline_api.auth.rate_limits import FailureLimiter
from tieline_api.client_address import origin
from tieline_api.console import cookies
from tieline_api.console.session_keys import SessionKeys
from tieline_api.console.sessions import Opened, Session, Sessions
from tieline_api.dependencies import Dependencies


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

    def methods(self) -> list[dict[str, str]]:
        """The ways to sign in, the best first."""
        return [{"type": "token"}] if self.settings.console_tokens else []

    async def open(self, request: web.Request) -> Opened | None:
        """The session of a request; None where there is none that is good."""
        return await self.sessions.open(cookies_of(request))

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
