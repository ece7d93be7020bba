"""``/console/session``: whether somebody is signed in, signing in with a token, and signing out."""

from datetime import UTC, datetime
from typing import Annotated, Any

import orjson
from aiohttp import web
from pydantic import StringConstraints

from tieline_api import errors
from tieline_api.auth.authentication import MAX_TOKEN
from tieline_api.console import cookies
from tieline_api.console.browser_checks import refuse_others
from tieline_api.console.cookies import TooLargeError
from tieline_api.console.parts import Console, cookies_of
from tieline_api.console.sessions import Opened, of_pasted
from tieline_api.http.middleware import counting_failures
from tieline_api.http.request_body import parse_json, read_body, validate
from tieline_api.http.request_keys import OPERATION, USER
from tieline_api.schemas.base import Rest
from tieline_core.identity.ids import format_time

PATH = "/console/session"
_LIMIT = 64 * 1024


class PastedToken(Rest):
    """What somebody signs in with."""

    token: Annotated[str, StringConstraints(min_length=1, max_length=MAX_TOKEN, strip_whitespace=True)]
    """A token that the API accepts, or an API key."""


def add_session(app: web.Application, console: Console) -> None:
    """Adds the requests about the session."""

    async def show(request: web.Request) -> web.Response:
        request[OPERATION] = "consoleSession"
        sent = cookies_of(request)
        opened = await _accepted(console, request)
        headers = opened.set_cookies if opened else tuple(cookies.removing(sent)) if sent else ()
        body: dict[str, Any] = {"signedIn": opened is not None, "methods": console.methods()}
        if opened:
            ends = datetime.fromtimestamp(console.sessions.ends(opened.session), UTC)
            body["expiresAt"] = format_time(ends)
        return _response(200, headers, body)

    async def sign_in(request: web.Request) -> web.Response:
        request[OPERATION] = "consoleSignIn"
        refuse_others(request, public_url=console.settings.public_api_url)
        if not console.settings.console_tokens:
            raise errors.forbidden("Signing in with a token is switched off here (TIELINE_CONSOLE_TOKENS)")
        if "Content-Type" not in request.headers:
            raise errors.ApiError(415, "unsupported_media_type", "The body must be application/json")
        body, _ = validate(PastedToken, parse_json(request, await read_body(request, limit=_LIMIT)))
        session = of_pasted(body.token, now=console.sessions.now())
        with counting_failures(console.failures, console.address(request), session.headers()):
            caller = await console.caller(session)
        request[USER] = caller.username
        console.platform.rates.hit(caller)
        try:
            return _response(204, await console.begin(request, session))
        except TooLargeError:
            raise errors.invalid(
                "token", "is too long for a session: use an API key, or a token with fewer groups"
            ) from None

    async def sign_out(request: web.Request) -> web.Response:
        request[OPERATION] = "consoleSignOut"
        refuse_others(request, public_url=console.settings.public_api_url)
        sent = cookies_of(request)
        removed, url = list(cookies.removing(sent)), ""
        opened = await console.sessions.open(sent)
        if opened and opened.session.kind == "oidc" and console.provider:
            if opened.session.refresh_token:
                await console.provider.revoke(opened.session.refresh_token)
            url = await console.provider.logout_url()
        return _response(200, removed, {"logoutUrl": url}) if url else _response(204, removed)

    app.router.add_get(PATH, show)
    app.router.add_post(PATH, sign_in)
    app.router.add_delete(PATH, sign_out)


async def _accepted(console: Console, request: web.Request) -> Opened | None:
    """The session, if the API still accepts what is in it. While that is unknown, it counts."""
    opened = await console.open(request)
    if opened is None:
        return None
    try:
        caller = await console.caller(opened.session)
    except errors.ApiError as error:
        return None if error.status == 401 else opened
    request[USER] = caller.username
    return opened


def _response(status: int, set_cookies: tuple[str, ...] | list[str], body: Any = None) -> web.Response:
    response = web.Response(
        status=status,
        body=None if body is None else orjson.dumps(body),
        content_type=None if body is None else "application/json",
        headers={"Cache-Control": "no-store"},
    )
    for header in set_cookies:
        response.headers.add("Set-Cookie", header)
    return response
