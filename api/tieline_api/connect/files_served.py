"""The page's files, out of the package: under a name that changes with them, so that browsers may keep them."""

import hashlib
from collections.abc import Iterable
from importlib.resources import files

from aiohttp import web

_TYPES = {".js": "text/javascript", ".css": "text/css"}
_HTML = ".html"
_PLACE = "{{assets}}"
_FOR_EVER = "public, max-age=31536000, immutable"
_DIGITS = 12


class PageFiles:
    """The files as they are at the start."""

    def __init__(self) -> None:
        found = {
            entry.name: entry.read_bytes()
            for entry in (files("tieline_api.connect") / "files").iterdir()
            if entry.is_file()
        }
        self.version = _digest(found[name] for name in sorted(found))
        self._assets = {name: content for name, content in found.items() if not name.endswith(_HTML)}
        self._pages = {name: content.decode() for name, content in found.items() if name.endswith(_HTML)}

    def page(self, name: str, *, assets: str) -> bytes:
        """A page. ``assets`` is the path from it to the folder of assets."""
        return self._pages[name].replace(_PLACE, f"{assets}/{self.version}").encode()

    def asset(self, name: str, *, version: str) -> web.Response:
        """A script or a style sheet. 404 for what is none.

        A page of another replica may have another version: it gets what there is, and does not keep it.
        """
        if name not in self._assets:
            raise web.HTTPNotFound
        response = web.Response(
            body=self._assets[name],
            content_type=next(kind for end, kind in _TYPES.items() if name.endswith(end)),
            charset="utf-8",
            headers={
                "Cache-Control": _FOR_EVER if version == self.version else "no-store",
                "Vary": "Accept-Encoding",
            },
        )
        response.enable_compression()
        return response


def _digest(contents: Iterable[bytes]) -> str:
    found = hashlib.sha256()
    for content in contents:
        found.update(hashlib.sha256(content).digest())
    return found.hexdigest()[:_DIGITS]
