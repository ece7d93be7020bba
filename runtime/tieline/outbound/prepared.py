"""A request that is about to be sent, as the auth schemes see it."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from multidict import CIMultiDict
from yarl import URL

from tieline.outbound.urls import with_parameter

# RFC 6265's cookie-octets, and what applications send besides: all but what ends or splits the header.
_NO_COOKIE_VALUE = re.compile(r"[\x00-\x20;,\x7f]")
_NO_HEADER_VALUE = re.compile(r"[\x00\r\n]")


class UnusableValueError(ValueError):
    """A value cannot be put where it should go; the message names the reason, never the value."""


async def _no_body() -> bytes:
    return b""


@dataclass(kw_only=True)
class PreparedRequest:
    """Method, final URL, headers and exact body; appliers change URL and headers, and sign what is there."""

    method: str
    url: URL
    headers: CIMultiDict[str] = field(default_factory=CIMultiDict)
    body: Callable[[], Awaitable[bytes]] = _no_body
    """Reads the exact bytes that are sent; only schemes that sign them call it."""

    def set_header(self, name: str, value: str) -> None:
        """Put a header in the place of one of that name; raises UnusableValueError."""
        if _NO_HEADER_VALUE.search(value):
            raise UnusableValueError(
                "the value holds a line break (often the last character of a file); remove it from the Secret"
            )
        self.headers[name] = value

    def set_query(self, name: str, value: str) -> None:
        """Put a query parameter in the place of one of that name."""
        self.url = with_parameter(self.url, name, value)

    def set_cookie(self, name: str, value: str) -> None:
        """Put a cookie in the place of one of that name; raises UnusableValueError."""
        if _NO_COOKIE_VALUE.search(value):
            raise UnusableValueError("the value holds a character that a cookie cannot carry")
        cookies = [part.strip() for part in self.headers.get("Cookie", "").split(";")]
        kept = [cookie for cookie in cookies if cookie and cookie.partition("=")[0] != name]
        self.headers["Cookie"] = "; ".join([*kept, f"{name}={value}"])
