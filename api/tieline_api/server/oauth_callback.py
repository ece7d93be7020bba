"""``/oauth2/callback``: the page that providers send users back to, and what it asks of us.

The page is static; its script reads the query string, which is never written into the page here. Codes and
states are in no log: requests are logged by their route.
"""

from importlib.resources import files
from typing import Annotated, TypeVar

import orjson
from aiohttp import web
from pydantic import StringConstraints

from tieline_api import errors
from tieline_api.auth.authentication import Caller
from tieline_api.client_address import origin
from tieline_api.dependencies import Dependencies
from tieline_api.http.dispatcher import OPERATION, ORGANISATION
from tieline_api.http.request_body import parse_json, read_body, validate
from tieline_api.oauth.authorization_request import CALLBACK
from tieline_api.schemas.base import Rest
from tieline_api.schemas.credential_data import CredentialData, OAuth1Data, OAuth2CodeData
from tieline_api.server.oauth_start import cookie_name
from tieline_api.use_cases.authorization_completion import abandon, complete, opener_origins

_LIMIT = 64 * 1024
_ASSETS = {"page.js": "text/javascript", "page.css": "text/css"}
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    # The window that opened this one has to be reached.
    "Cross-Origin-Opener-Policy": "unsafe-none",
}

M = TypeVar("M", bound=Rest)
_Text = Annotated[str, StringConstraints(max_length=8192)]


class CallbackResult(Rest):
    """What the provider has sent the user back with."""

    state: _Text = ""
    """The state."""
    code: _Text = ""
    """The code, where the user has allowed access."""
    oauth_token: _Text = ""
    """The token that the user has allowed, of OAuth 1.0."""
    oauth_verifier: _Text = ""
    """The verifier that came with it."""
    error: _Text = ""
    """The provider's error code, where nothing came of it."""


class Opener(Rest):
    """A window that asks for the result."""

    origin: _Text
    """Where it comes from."""
    state: _Text = ""
    """The state that it asks about."""


def add_callback(app: web.Application, platform: Dependencies) -> None:
    """Adds the page, its script and style, and the two requests that it makes."""
    folder = files("tieline_api.server") / "page"
    page = (folder / "callback.html").read_bytes()
    assets = {name: (folder / name).read_bytes() for name in _ASSETS}

    async def show(request: web.Request) -> web.Response:
        request[OPERATION] = "oauth2Callback"
        return web.Response(body=page, content_type="text/html", charset="utf-8", headers=_HEADERS)

    async def asset(request: web.Request) -> web.Response:
        request[OPERATION] = "oauth2Callback"
        name = request.match_info["name"]
        if name not in assets:
            raise web.HTTPNotFound
        kind = _ASSETS[name]
        return web.Response(body=assets[name], content_type=kind, charset="utf-8", headers=_HEADERS)

    async def finish(request: web.Request) -> web.Response:
        request[OPERATION] = "oauth2CallbackFinish"
        body = await _body(request, platform, CallbackResult)
        credential_data = _credential_data(body)
        if body.error or credential_data is None:
            await abandon(platform, body.state)
            return web.Response(status=204, headers=_HEADERS)
        cookie = request.cookies.get(cookie_name(body.state), "")
        finished = await complete(platform, state=body.state, credential_data=credential_data, cookie=cookie)
        request[ORGANISATION] = finished.organisation_id
        result = {"connection": finished.connection, "system": finished.system}
        return web.Response(body=orjson.dumps(result), content_type="application/json", headers=_HEADERS)

    async def opener(request: web.Request) -> web.Response:
        request[OPERATION] = "oauth2CallbackOpener"
        body = await _body(request, platform, Opener)
        if body.origin.lower() not in await opener_origins(platform, body.state):
            raise errors.forbidden(
                "This origin may not learn the result: it is not in TIELINE_CORS_ORIGINS, or in allowedOrigins of "
                "the connect session"
            )
        return web.Response(status=204, headers=_HEADERS)

    app.router.add_get(CALLBACK, show)
    app.router.add_post(CALLBACK, finish)
    app.router.add_post(f"{CALLBACK}/opener", opener)
    app.router.add_get(f"{CALLBACK}/{{name}}", asset)


def _credential_data(body: CallbackResult) -> CredentialData | None:
    if body.code:
        return CredentialData(oauth2_code=OAuth2CodeData(code=body.code, state=body.state))
    if not body.oauth_verifier:
        return None
    signed = OAuth1Data(state=body.state, oauth_token=body.oauth_token, oauth_verifier=body.oauth_verifier)
    return CredentialData(oauth1=signed)


async def _body(request: web.Request, platform: Dependencies, model: type[M]) -> M:
    forwarded = request.headers.getall("X-Forwarded-For", ())
    address = origin(request.remote, forwarded, trusted=platform.settings.trusted_proxies)
    platform.rates.hit(Caller(username=f"callback:{address}"))
    raw = await read_body(request, limit=_LIMIT)
    body, _ = validate(model, parse_json(request, raw))
    return body
