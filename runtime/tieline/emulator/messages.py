"""Requests and answers, apart from the server that carries them."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import parse_qsl, urlencode

from multidict import CIMultiDict, CIMultiDictProxy, MultiDict
from yarl import URL


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A request as the provider gets it."""

    method: str
    url: URL
    """At the provider's own host."""
    headers: CIMultiDictProxy[str]
    body: bytes = b""
    sent_to: URL | None = None
    """Where the client has sent it, if that is not the provider's own host."""

    @property
    def addressed(self) -> URL:
        """The URL as the client has it, which it may sign."""
        return self.sent_to or self.url

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode("utf-8", "replace")

    @property
    def content_type(self) -> str:
        """The body's media type."""
        return self.headers.get("Content-Type", "").partition(";")[0].strip().lower()

    @cached_property
    def form(self) -> MultiDict[str]:
        """The fields of a form."""
        return MultiDict(parse_qsl(self.text, keep_blank_values=True))

    @property
    def json(self) -> Any:
        """The body as JSON; None where it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    @cached_property
    def basic(self) -> tuple[str, str] | None:
        """Name and password of HTTP basic authentication."""
        kind, _, encoded = self.headers.get("Authorization", "").partition(" ")
        if kind.lower() != "basic":
            return None
        try:
            name, colon, password = base64.b64decode(encoded, validate=True).decode().partition(":")
        except ValueError:
            return None
        return (name, password) if colon else None

    @cached_property
    def everything(self) -> str:
        """All text of the request, to see whose it is."""
        return "\n".join([str(self.url), *self.headers.values(), *(self.basic or ()), self.text])


@dataclass(frozen=True, kw_only=True)
class Reply:
    """An answer of the provider."""

    status: int = 200
    headers: CIMultiDict[str] = field(default_factory=CIMultiDict)
    body: bytes = b""

    @property
    def content(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @classmethod
    def of(cls, content: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> "Reply":
        """An answer with JSON, with text, or with nothing (None)."""
        made: CIMultiDict[str] = CIMultiDict()
        body = b""
        if isinstance(content, str):
            made["Content-Type"], body = "text/plain; charset=utf-8", content.encode()
        elif content is not None:
            made["Content-Type"], body = "application/json", _dumps(content)
        made.update(headers or {})
        return cls(status=status, headers=made, body=body)

    @classmethod
    def form(cls, content: Mapping[str, Any], *, status: int = 200) -> "Reply":
        """An answer that is form-encoded."""
        headers = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}
        return cls(status=status, headers=CIMultiDict(headers), body=urlencode(content).encode())

    @classmethod
    def page(cls, html: str, *, status: int = 200) -> "Reply":
        """A page that shows nothing of its opener, and stands in no frame: as the pages of providers do."""
        headers = {
            "Content-Type": "text/html; charset=utf-8",
            "Cross-Origin-Opener-Policy": "same-origin",
            "X-Frame-Options": "DENY",
            "Cache-Control": "no-store",
        }
        return cls(status=status, headers=CIMultiDict(headers), body=html.encode())

    @classmethod
    def redirect(cls, url: URL) -> "Reply":
        """Sends the browser to a URL."""
        return cls(status=302, headers=CIMultiDict({"Location": str(url)}))


def _dumps(content: Any) -> bytes:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
