"""``/oauth2/callback``: the page that providers send users back to, and what it asks of us.

The page is static; its script reads the query string, which is never written into the page here. Codes and
states are in no log: requests are logged by their route.
"""

from importlib.resources import files
from typing import Annotated, TypeVar

import aiohttp
import orjson
from aiohttp import web
from pydantic import StringConstraints

from tieline_api import errors
from tieline_api.audit.records import PROVIDER
from tieline_api.auth.authentication import Caller
from tieline_api.client_address import origin
from tieline_api.connect.page_trail import note_authorisation
from tieline_api.connect.start_page import cookie_name
from tieline_api.dependencies import Dependencies
from tieline_api.http.auditing import Auditor
from tieline_api.http.request_body import parse_json, read_body, validate
from tieline_api.http.request_keys import OPERATION, ORGANISATION
from tieline_api.schemas.base import Rest
from tieline_api.schemas.credential_data import CredentialData, OAuth1Data, OAuth2CodeData
from tieline_api.settings import CALLBACK
from tieline_api.use_cases.authorization_completion import abandon, complete, opener_origins
from tieline_api.use_cases.uninstallations import uninstall
from tieline_core.identity.ids import object_id

_LIMIT = 64 * 1024
_MOST_SYSTEMS = 20
"""Of which the audit says that a provider reported a removal."""
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
    query: _Text = ""
    """The whole query: some providers have other names for the code, or parameters that the connection keeps."""


class Opener(Rest):
    """A window that asks for the result."""

    origin: _Text
    """Where it comes from."""
    state: _Text = ""
    """The state that it asks about."""


def add_callback(app: web.Application, platform: Dependencies, auditor: Auditor) -> None:
    """Adds the page, its script and style, and the two requests that it makes."""
    folder = files("tieline_api.connect") / "callback"
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
        if body.error or not (body.query or _credential_data(body)):
            await abandon(platform, body.state)
            return web.Response(status=204, headers=_HEADERS)
        cookie = request.cookies.get(cookie_name(body.state), "")
        with auditor.page(request) as trail:
            finished = await complete(
                platform,
                state=body.state,
                credential_data=_credential_data(body),
                query=body.query,
                cookie=cookie,
                began=lambda organisation, pending: note_authorisation(
                    trail, platform, organisation, pending
                ),
            )
            trail.wrote = finished is not None
        if finished is None:
            await abandon(platform, body.state)
            return web.Response(status=204, headers=_HEADERS)
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

    async def removed(request: web.Request) -> web.Response:
        request[OPERATION] = "oauth2CallbackUninstall"
        raw = await _limited(request, platform)
        try:
            client = aiohttp.BasicAuth.decode(request.headers.get("Authorization", ""))
        except ValueError:
            client = aiohttp.BasicAuth("")
        systems = await uninstall(
            platform,
            client_id=client.login,
            client_secret=client.password,
            body=parse_json(request, raw),
        )
        for system in systems[:_MOST_SYSTEMS]:
            with auditor.page(request) as trail:
                trail.organisation = platform.cluster.organisation_of(system["metadata"]["namespace"])
                trail.on_behalf, trail.kind_of_caller = client.login, PROVIDER
                trail.kind, trail.object, trail.status = "systems", object_id(system), 204
                trail.wrote = True
        if not systems:
            raise errors.ApiError(
                401,
                "unauthenticated",
                "Authenticate as the client of an auth scheme that has uninstall, with HTTP basic authentication",
                headers={"WWW-Authenticate": 'Basic realm="uninstall"'},
            )
        return web.Response(status=204, headers=_HEADERS)

    app.router.add_get(CALLBACK, show)
    app.router.add_delete(CALLBACK, removed)
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
    body, _ = validate(model, parse_json(request, await _limited(request, platform)))
    return body


async def _limited(request: web.Request, platform: Dependencies) -> bytes:
    """The body, after the caller's address was counted."""
    forwarded = request.headers.getall("X-Forwarded-For", ())
    address = origin(request.remote, forwarded, trusted=platform.settings.trusted_proxies)
    platform.rates.hit(Caller(username=f"callback:{address}"))
    return await read_body(request, limit=_LIMIT)
