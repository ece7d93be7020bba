"""``/connect``: the page of a connect session, its files, and the window in which an authorisation begins.

The page is static. Its path names the session by a hash of the token, so that the answer can say in whose frames it may
stand; the token itself is in the fragment of the URL, which browsers do not send.
"""

import orjson
from aiohttp import web

from tieline_api.auth.authentication import Caller
from tieline_api.client_address import origin
from tieline_api.connect.brand import Brands
from tieline_api.connect.files_served import PageFiles
from tieline_api.connect.policy import headers
from tieline_api.dependencies import Dependencies
from tieline_api.http.request_keys import OPERATION
from tieline_core.identity.ids import parse_id

PREFIX = "/connect"
_ID = "{organisation:[0-9A-Za-z]{26}}"
_PAGE = "index.html"
_WINDOW = "authorise.html"


def add_connect_page(app: web.Application, platform: Dependencies) -> None:
    """Adds the page. Raises BrandError when the file with the brand cannot be used."""
    found = PageFiles()
    brands = Brands.read(platform.settings.connect_brand_file)

    async def page(request: web.Request) -> web.Response:
        _count(request, platform)
        organisation = parse_id(request.match_info["organisation"]) or ""
        frames = await platform.connect_sessions.frames(organisation, request.match_info["key"])
        logo = str(brands.of(organisation).get("logo", ""))
        return _html(found.page(_PAGE, assets="../assets"), headers(frames=frames, logo=logo))

    async def window(request: web.Request) -> web.Response:
        _count(request, platform)
        return _html(found.page(_WINDOW, assets="assets"), headers())

    async def asset(request: web.Request) -> web.Response:
        request[OPERATION] = "connectPage"
        return found.asset(request.match_info["name"], version=request.match_info["version"])

    async def brand(request: web.Request) -> web.Response:
        _count(request, platform)
        body = orjson.dumps(brands.of(parse_id(request.match_info["organisation"]) or ""))
        return web.Response(body=body, content_type="application/json")

    app.router.add_get(f"{PREFIX}/assets/{{version}}/{{name}}", asset)
    app.router.add_get(f"{PREFIX}/brand/{_ID}", brand)
    app.router.add_get(f"{PREFIX}/authorise", window)
    app.router.add_get(f"{PREFIX}/{_ID}/{{key:[0-9a-f]{{40}}}}", page)


def _html(body: bytes, policy: dict[str, str]) -> web.Response:
    return web.Response(body=body, content_type="text/html", charset="utf-8", headers=policy)


def _count(request: web.Request, platform: Dependencies) -> None:
    """ApiError 429 for too many requests of an address: nobody has signed in here."""
    request[OPERATION] = "connectPage"
    forwarded = request.headers.getall("X-Forwarded-For", ())
    address = origin(request.remote, forwarded, trusted=platform.settings.trusted_proxies)
    platform.rates.hit(Caller(username=f"connect-page:{address}"))
