"""The console's files: from a folder in the image, under a policy that lets the page load nothing else."""

from pathlib import Path

from aiohttp import web

from tieline_api import errors
from tieline_api.http.request_keys import OPERATION

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
_INDEX = "index.html"
_ASSETS = "assets/"
_FOR_EVER = "public, max-age=31536000, immutable"
_ENCODED = (".br", ".gz")
# What the image's system may not know.
_TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}


class ConsoleFiles:
    """The files of a folder as it is at the start. A request's path is looked up among them, and opens none."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files = {
            path.relative_to(folder).as_posix(): path
            for path in folder.rglob("*")
            if path.is_file() and path.suffix not in _ENCODED
        }

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """A file, or the page itself for paths that are its own."""
        request[OPERATION] = "console"
        if _INDEX not in self._files:
            raise errors.ApiError(
                404,
                "not_found",
                f"This API has no console: there is no {_INDEX} in {self._folder} (TIELINE_CONSOLE_FOLDER)",
            )
        path = request.match_info["path"]
        if path not in self._files and path.startswith(_ASSETS):
            raise errors.ApiError(404, "not_found", "The console has no such file; reload the page")
        name = path if path in self._files else _INDEX
        immutable = name.startswith(_ASSETS)
        headers = {
            **HEADERS,
            "Cache-Control": _FOR_EVER if immutable else "no-cache",
            "Vary": "Accept-Encoding",
        }
        file = self._files[name]
        response = web.FileResponse(file, headers=headers)
        if kind := _TYPES.get(file.suffix):
            response.content_type = kind
            response.charset = "utf-8" if kind.startswith("text/") else None
        return response


def add_files(app: web.Application, folder: Path) -> None:
    """Adds ``/console`` and all below it that is nothing else."""
    files = ConsoleFiles(folder)

    async def to_folder(request: web.Request) -> web.Response:
        request[OPERATION] = "console"
        query = request.rel_url.raw_query_string
        target = f"/console/?{query}" if query else "/console/"
        return web.Response(status=302, headers={**HEADERS, "Location": target})

    app.router.add_get("/console", to_folder)
    app.router.add_get("/console/{path:.*}", files.serve)
