"""``/docs``: Swagger UI from an installed package, so that no browser asks a stranger's server."""

import html
from importlib.resources import files
from importlib.resources.abc import Traversable

from aiohttp import web

from tieline_api.http.request_keys import OPERATION

ASSETS = {
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
    "favicon-32x32.png": "image/png",
}
SWAGGER_UI = "5.31.0"
_START = "start.js"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_SCRIPT = """window.ui = SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#docs",
  deepLinking: true,
  persistAuthorization: false,
  validatorUrl: null,
});
"""


def assets_folder() -> Traversable:
    """Where the installed package has Swagger UI."""
    return files("swagger_ui_bundle") / "vendor" / f"swagger-ui-{SWAGGER_UI}"


def add_documentation(app: web.Application, *, title: str) -> None:
    """Adds the page and what it needs."""
    page = _page(title)
    assets = {name: (assets_folder() / name).read_bytes() for name in ASSETS}

    async def show(request: web.Request) -> web.Response:
        request[OPERATION] = "docs"
        headers = {"Content-Security-Policy": _POLICY}
        return web.Response(text=page, content_type="text/html", headers=headers)

    async def asset(request: web.Request) -> web.Response:
        request[OPERATION] = "docs"
        name = request.match_info["name"]
        if name == _START:
            return web.Response(text=_SCRIPT, content_type="text/javascript")
        if name not in assets:
            raise web.HTTPNotFound
        headers = {"Cache-Control": "public, max-age=86400"}
        return web.Response(body=assets[name], content_type=ASSETS[name], headers=headers)

    app.router.add_get("/docs", show)
    app.router.add_get("/docs/{name}", asset)


def _page(title: str) -> str:
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)}</title>
<link rel="icon" href="/docs/favicon-32x32.png">
<link rel="stylesheet" href="/docs/swagger-ui.css">
</head>
<body>
<div id="docs"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/{_START}"></script>
</body>
</html>
"""
