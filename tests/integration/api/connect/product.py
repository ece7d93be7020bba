"""What stands around the hosted page: a system that people sign in at, and a product that embeds the page."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlencode

from aiohttp import web

from tests.harness.console.built import CONSOLE, TIMEOUT
from tests.harness.processes.local_servers import serving
from tests.integration.api.oauth_provider import Provider

GOOD_KEY = "the-key-of-ann"
EXAMPLE = CONSOLE.parent / "connect" / "example" / "dist"


class AskingProvider(Provider):
    """A provider with the page where people allow access, or refuse it. The page cuts the way to its opener."""

    def __enter__(self) -> Self:
        app = web.Application()
        app.router.add_post("/token", self._token)
        app.router.add_get("/authorize", self._ask)
        app.router.add_post("/{shop}/token", self._token_of_shop)
        app.router.add_get("/{shop}/authorize", self._ask)
        app.router.add_get("/api/me", self._me)
        self.seen: list[dict[str, str]] = []
        """The headers of requests for the page."""
        self.shops: list[str] = []
        """The shops whose token URL was asked."""
        self.url = self._serving.enter_context(serving(app))
        return self

    async def _token_of_shop(self, request: web.Request) -> web.Response:
        self.shops.append(request.match_info["shop"])
        return await self._token(request)

    async def _me(self, request: web.Request) -> web.Response:
        if request.headers.get("X-API-Key") == GOOD_KEY:
            return web.json_response({"name": "Ann"})
        return web.json_response({"error": f"no such key: {request.headers.get('X-API-Key')}"}, status=401)

    async def _ask(self, request: web.Request) -> web.Response:
        self.seen.append({**request.headers, "url": str(request.url)})
        back = request.query["redirect_uri"]
        agreed = urlencode(self.agree(str(request.url)))
        refused = urlencode({"error": "access_denied", "state": request.query["state"]})
        links = "".join(
            f'<p><a href="{escape(f"{back}?{query}")}">{name}</a></p>'
            for name, query in (("Allow", agreed), ("Refuse", refused))
        )
        return web.Response(
            text=f"<!doctype html><title>Shop</title><p>{escape(request.query.get('scope', ''))}</p>{links}",
            content_type="text/html",
            headers={"Cross-Origin-Opener-Policy": "same-origin", "X-Frame-Options": "DENY"},
        )


def built_example() -> Path:
    """The folder with the built example of a product."""
    command = [CONSOLE / "build", "connect-example"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return EXAMPLE


@contextmanager
def product(folder: Path, begin: Callable[[], dict[str, Any]]) -> Iterator[str]:
    """The example on an origin of its own, of another site than the API's; ``begin`` is what its server does."""

    async def index(_request: web.Request) -> web.FileResponse:
        return web.FileResponse(folder / "index.html")

    async def session(_request: web.Request) -> web.Response:
        return web.json_response(begin())

    app = web.Application()
    app.router.add_get("/", index)
    app.router.add_post("/connect-session", session)
    app.router.add_static("/assets", folder / "assets")
    with serving(app) as url:
        yield url.replace("127.0.0.1", "localhost")


@contextmanager
def page_with(html: str) -> Iterator[str]:
    """A page on an origin of its own."""

    async def show(_request: web.Request) -> web.Response:
        return web.Response(text=html, content_type="text/html")

    app = web.Application()
    app.router.add_get("/", show)
    with serving(app) as url:
        yield url.replace("127.0.0.1", "localhost")
