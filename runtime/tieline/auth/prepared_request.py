"""A request that is about to be sent, as the auth schemes see it."""

import re
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from multidict import CIMultiDict
from yarl import URL

from tieline.auth.urls import with_parameter

# RFC 6265's cookie-octets, and what applications send besides: all but what ends or splits the header.
_NO_COOKIE_VALUE = re.compile(r"[\x00-\x20;,\x7f]")
_NO_HEADER_VALUE = re.compile(r"[\x00\r\n]")


class InvalidCredentialError(ValueError):
    """A value cannot be put where it should go; the message names the reason, never the value."""


async def _no_body() -> bytes:
    return b""


@dataclass(kw_only=True)
class PreparedRequest:
    """Method, final URL, headers and exact body; appliers change them, and sign what is there."""

    method: str
    url: URL
    headers: CIMultiDict[str] = field(default_factory=CIMultiDict)
    read: Callable[[], Awaitable[bytes]] = _no_body
    """Reads the body as its author gave it; appliers call ``body()``."""
    tls: ssl.SSLContext | None = None
    """What the connection presents and trusts; set by mutual TLS."""
    content: bytes | None = None
    """The body once it was read or replaced: these bytes must be the ones that are sent."""
    replaced: bool = False
    """Whether an applier put something into the body."""

    async def body(self) -> bytes:
        """The exact bytes that are sent, with what earlier appliers put into them."""
        if self.content is None:
            self.content = await self.read()
        return self.content

    def set_body(self, content: bytes) -> None:
        """Send ``content`` instead, under the same content type."""
        self.content = content
        self.replaced = True

    def set_value(self, where: object, name: str, value: str) -> None:
        """Put a value into the header, query parameter or cookie ``name``; raises InvalidCredentialError."""
        if not name:
            raise InvalidCredentialError("its auth scheme has no name to send it under")
        match where:
            case "header":
                self.set_header(name, value)
            case "query":
                self.set_query(name, value)
            case "cookie":
                self.set_cookie(name, value)
            case other:
                raise InvalidCredentialError(
                    f"its auth scheme's place is {other!r}, not header, query or cookie"
                )

    def set_header(self, name: str, value: str) -> None:
        """Put a header in the place of one of that name; raises InvalidCredentialError."""
        if _NO_HEADER_VALUE.search(value):
            raise InvalidCredentialError(
                "the value holds a line break (often the last character of a file); remove it from the Secret"
            )
        self.headers[name] = value

    def set_query(self, name: str, value: str) -> None:
        """Put a query parameter in the place of one of that name."""
        self.url = with_parameter(self.url, name, value)

    def set_cookie(self, name: str, value: str) -> None:
        """Put a cookie in the place of one of that name; raises InvalidCredentialError."""
        if _NO_COOKIE_VALUE.search(value):
            raise InvalidCredentialError("the value holds a character that a cookie cannot carry")
        cookies = [part.strip() for part in self.headers.get("Cookie", "").split(";")]
        kept = [cookie for cookie in cookies if cookie and cookie.partition("=")[0] != name]
        self.headers["Cookie"] = "; ".join([*kept, f"{name}={value}"])
