"""From a session's cookie to the headers that the API knows callers by.

Only where the request has the console's static header, comes from the console's own page, and brings no credentials
of its own. Else the cookie counts for nothing.
"""

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from tieline_api import errors
from tieline_api.console import cookies
from tieline_api.console.browser_checks import has_header, is_from_elsewhere
from tieline_api.console.parts import Console, cookies_of
from tieline_api.http.request_keys import CREDENTIALS, SESSION_ENDS

SET_COOKIES = web.RequestKey("set_cookies", tuple)
"""Headers ``Set-Cookie`` for the answer, whatever it is."""
_API = "/api/"


def session_credentials(console: Console) -> Middleware:
    """Gives requests of the console's page the credentials of their session."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        if not _counts(request, public_url=console.settings.public_api_url):
            return await handler(request)
        opened = await console.open(request)
        if opened is None:
            if cookies.SESSION in cookies_of(request):
                raise errors.unauthenticated("Your session has ended: sign in to the console again")
            return await handler(request)
        request[CREDENTIALS] = opened.session.headers()
        request[SET_COOKIES] = opened.set_cookies
        request[SESSION_ENDS] = opened.ends
        return await handler(request)

    return middleware


async def add_cookies(request: web.Request, response: web.StreamResponse) -> None:
    """For ``on_response_prepare``."""
    for header in request.get(SET_COOKIES, ()):
        response.headers.add("Set-Cookie", header)


def _counts(request: web.Request, *, public_url: str) -> bool:
    headers = request.headers
    if not request.path.startswith(_API) or "Authorization" in headers or "X-API-Key" in headers:
        return False
    return has_header(request) and not is_from_elsewhere(request, public_url=public_url)
