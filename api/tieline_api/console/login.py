"""``/console/login`` and ``/console/callback``: signing in at the OpenID Connect issuer, by code and PKCE.

What belongs to a sign-in that has begun is in a sealed cookie of its own. It is Lax, because the issuer's page leads
to the callback, and it is good for ten minutes and for one callback.
"""

import base64
import hashlib
import hmac
import html
import logging
import secrets

import orjson
from aiohttp import web

from tieline_api import errors
from tieline_api.auth.authentication import Caller
from tieline_api.console import cookies
from tieline_api.console.browser_checks import HOME, local_path
from tieline_api.console.cookies import TooLargeError
from tieline_api.console.parts import Console, cookies_of
from tieline_api.console.provider import Provider, ProviderError, RefusedError
from tieline_api.console.sealing import UnsealError
from tieline_api.console.sessions import of_issuer
from tieline_api.http.request_keys import OPERATION, USER

logger = logging.getLogger(__name__)

_PURPOSE = "login"
_SECONDS = 600
_MAX_CODE = 8192


class _FailedError(Exception):
    """Nothing came of signing in; the message is for the person."""

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


def add_login(app: web.Application, console: Console, provider: Provider) -> None:
    """Adds the way to the issuer and back."""

    async def login(request: web.Request) -> web.Response:
        request[OPERATION] = "consoleLogin"
        _limit(console, request)
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
        back = local_path(request.query.get("return", HOME))
        try:
            url = await provider.authorize_url(state=state, nonce=nonce, challenge=challenge)
        except ProviderError as error:
            logger.error("Nobody can sign in to the console: %s", error)
            return _page(
                _FailedError(f"{provider.name} cannot be reached right now: try again later.", status=503)
            )
        pending = orjson.dumps([state, nonce, verifier, back, int(console.sessions.now())])
        sealed = await console.keys.seal(_PURPOSE, pending)
        response = _redirect(url)
        cookie = cookies.set_cookie(cookies.LOGIN, sealed, seconds=_SECONDS, strict=False)
        response.headers.add("Set-Cookie", cookie)
        return response

    async def callback(request: web.Request) -> web.Response:
        request[OPERATION] = "consoleCallback"
        _limit(console, request)
        try:
            response = await _signed_in(console, provider, request)
        except _FailedError as failed:
            response = _page(failed)
        response.headers.add("Set-Cookie", cookies.set_cookie(cookies.LOGIN, "", seconds=0, strict=False))
        return response

    app.router.add_get("/console/login", login)
    app.router.add_get("/console/callback", callback)


async def _signed_in(console: Console, provider: Provider, request: web.Request) -> web.Response:
    nonce, verifier, back = await _pending(console, request)
    query = request.query
    if query.get("iss", provider.issuer) != provider.issuer:
        raise _FailedError("The answer is of another issuer. Sign in again.", status=400)
    code = query.get("code", "")
    if "error" in query or not 0 < len(code) <= _MAX_CODE:
        raise _FailedError(f"{provider.name} has not signed you in.", status=403)
    try:
        granted = await provider.exchange(code, verifier=verifier, nonce=nonce)
    except RefusedError as error:
        logger.warning("Nobody was signed in to the console: %s", error)
        raise _FailedError(f"{provider.name} has not signed you in. Sign in again.", status=403) from None
    except ProviderError as error:
        logger.error("Nobody can sign in to the console: %s", error)
        raise _FailedError(
            f"{provider.name} cannot be reached right now: try again later.", status=503
        ) from None
    session = of_issuer(granted, now=console.sessions.now())
    try:
        caller = await console.caller(session)
        request[USER] = caller.username
        headers = await console.begin(request, session)
    except errors.ApiError as error:
        if error.status != 401:
            raise _FailedError(
                "Your sign-in cannot be checked right now: try again later.", status=503
            ) from None
        logger.error("The API does not accept the tokens that the console gets: see docs/console.md")
        raise _FailedError(
            f"{provider.name} has signed you in, but the API does not accept its tokens. Tell an administrator.",
            status=403,
        ) from None
    except TooLargeError as error:
        logger.error("A token of the issuer does not fit into cookies: %s", error)
        raise _FailedError(
            "Your token is too large, perhaps because you are in many groups. Tell an administrator.",
            status=403,
        ) from None
    response = _redirect(back)
    for header in headers:
        response.headers.add("Set-Cookie", header)
    return response


async def _pending(console: Console, request: web.Request) -> tuple[str, str, str]:
    """Nonce, verifier and path of the sign-in that this browser has begun, if it is the one that has come back."""
    given = request.query.get("state", "")
    sealed = cookies_of(request).get(cookies.LOGIN, "")
    try:
        match orjson.loads(await console.keys.unseal(_PURPOSE, sealed)):
            case [str(state), str(nonce), str(verifier), str(back), int(began)] if (
                hmac.compare_digest(state.encode(), given.encode())
                and console.sessions.now() - began < _SECONDS
            ):
                return nonce, verifier, back
    except UnsealError:
        pass
    raise _FailedError(
        "This sign-in was not begun in this browser, was used already, or took more than ten minutes. Sign in again.",
        status=400,
    )


def _limit(console: Console, request: web.Request) -> None:
    console.platform.rates.hit(Caller(username=f"console:{console.address(request)}"))


def _redirect(url: str) -> web.Response:
    return web.Response(status=302, headers={"Location": url, "Cache-Control": "no-store"})


def _page(failed: _FailedError) -> web.Response:
    """A page without any script or style, under the API's own policy."""
    text = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Not signed in</title></head>'
        f'<body><h1>Not signed in</h1><p>{html.escape(str(failed))}</p><p><a href="{HOME}">Back to the console</a></p>'
        "</body></html>\n"
    )
    return web.Response(
        status=failed.status, text=text, content_type="text/html", headers={"Cache-Control": "no-store"}
    )
