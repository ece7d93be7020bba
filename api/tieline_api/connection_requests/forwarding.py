"""What is passed on between a caller of the API and an external system, and what is not.

The API shares its origin with the console: nothing that an external system answers may act there.
"""

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import unquote

from multidict import CIMultiDict, CIMultiDictProxy

from tieline.telemetry.redaction import Redactor
from tieline_api import errors
from tieline_core.credentials.refusals import printable

_HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers that are about one connection (RFC 9110, 7.6.1)."""
_NOT_SENT = _HOP_BY_HOP | {
    # They are for the API, or tell of the caller's browser and network.
    "authorization",
    "cookie",
    "x-api-key",
    "origin",
    "referer",
    "forwarded",
    "via",
    "x-real-ip",
    # The request gets its own; its body is sent as it is without its encoding.
    "host",
    "content-length",
    "content-encoding",
    "accept-encoding",
    "expect",
}
_NOT_SENT_PREFIXES = ("proxy-", "sec-", "x-forwarded-", "x-tieline-")
_NOT_ANSWERED = _HOP_BY_HOP | {
    "content-length",
    # They change what a browser keeps or allows for the API's own origin.
    "set-cookie",
    "set-cookie2",
    "clear-site-data",
    "strict-transport-security",
    "public-key-pins",
    "public-key-pins-report-only",
    "expect-ct",
    "alt-svc",
    "service-worker-allowed",
    "permissions-policy",
    "feature-policy",
    "document-policy",
    "origin-agent-cluster",
    "referrer-policy",
    "x-frame-options",
    "x-content-type-options",
    "x-dns-prefetch-control",
    "x-xss-protection",
    "timing-allow-origin",
    "nel",
    "report-to",
    "reporting-endpoints",
    "accept-ch",
    "critical-ch",
    "speculation-rules",
    "supports-loading-mode",
    "sourcemap",
    "x-sourcemap",
    # They make a browser ask for a password, or go to another page.
    "www-authenticate",
    "location",
    "refresh",
    # The answer gets its own; it is not compressed.
    "content-encoding",
    "cache-control",
    "content-disposition",
    "expires",
    "pragma",
    "server",
    # Proxies in front of the API obey them.
    "x-sendfile",
    "x-lighttpd-send-file",
}
_NOT_ANSWERED_PREFIXES = (
    "access-control-",
    "content-security-policy",
    "cross-origin-",
    "proxy-",
    "sec-",
    "x-accel-",
    "x-litespeed-",
    "x-tieline-",
)
UPSTREAM_STATUS = "X-Tieline-Upstream-Status"
"""The status of the external system: what has it comes from there, and is not from the API."""
UPSTREAM_LOCATION = "X-Tieline-Upstream-Location"
"""Where a redirect leads: browsers do not follow it."""
HARMLESS = {
    # No document that comes from elsewhere has the API's origin, or runs anything.
    "Content-Security-Policy": "sandbox; default-src 'none'; frame-ancestors 'none'",
    "Content-Disposition": "attachment",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
"""What every answer of an external system gets."""
_CHARSET = re.compile(
    r"charset\s*=\s*\"?(utf-?(?:8|16|32)(?:-?[lb]e)?|iso-8859-\d{1,2}|windows-125\d)\b", re.IGNORECASE
)
"""Character sets that bodies are read in; UTF-8 in all other cases."""
_BYTES = "surrogateescape"
"""Keeps bytes that are no UTF-8 as they are."""
_SHOWN = 4096
"""Bytes of a body that are shown."""
_SMALL = 16 * 1024
"""Bytes of a body that are masked without a thread."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


def checked_path(path: str) -> str:
    """The path below a connection's base URL. ApiError 422 for one that could lead elsewhere."""
    before = re.split(r"[?#]", path, maxsplit=1)[0]
    plain = unquote(before)
    if path.startswith("//") or _ABSOLUTE.match(path.removeprefix("/")):
        raise errors.invalid(
            "path", "must be a path below the connection's base URL, such as /orders, without a server"
        )
    if "#" in path or "\\" in plain or _CONTROL.search(path) or _CONTROL.search(plain):
        raise errors.invalid("path", 'must have no "#", no backslash and no control characters')
    if _BROKEN_ESCAPE.search(before):
        raise errors.invalid("path", 'has a "%" without two hexadecimal digits: write it as %25')
    if any(part in (".", "..") for part in plain.split("/")):
        raise errors.invalid("path", 'must have no "." or ".." as a part')
    return path


def sent_headers(given: Mapping[str, str], named: Iterable[str]) -> CIMultiDict[str]:
    """The caller's headers without those of the API and of one connection; ``named`` are the values of Connection."""
    dropped = _named(named)
    kept: CIMultiDict[str] = CIMultiDict()
    for name, value in given.items():
        key = name.lower()
        if key in _NOT_SENT or key in dropped or key.startswith(_NOT_SENT_PREFIXES):
            continue
        if not _is_text(value):
            raise errors.malformed(f"The header {name[:64]} is not in UTF-8")
        kept.add(name, value)
    # Answers are passed on as they are; callers of an API need no compression between two servers.
    kept["Accept-Encoding"] = "identity"
    return kept


def answered_headers(status: int, given: CIMultiDictProxy[str], redact: Redactor) -> CIMultiDict[str]:
    """The system's headers without what browsers, or proxies in front of the API, would obey."""
    dropped = _named(given.getall("Connection", ()))
    kept: CIMultiDict[str] = CIMultiDict()
    for name, value in given.items():
        key = name.lower()
        if key in _NOT_ANSWERED or key in dropped or key.startswith(_NOT_ANSWERED_PREFIXES):
            continue
        if _is_text(value):
            kept.add(name, redact(value))
    location = given.get("Location", "")
    if location and _is_text(location):
        kept[UPSTREAM_LOCATION] = redact(location)
    kept[UPSTREAM_STATUS] = str(status)
    kept.update(HARMLESS)
    return kept


def masked(content: bytes, content_type: str, redact: Redactor) -> bytes:
    """A body without the secrets, in whatever form. It takes time for megabytes: call it in a thread."""
    for charset, how, begin in _readings(content, content_type):
        content = content[:begin] + _masked_as(content[begin:], charset, how, redact)
    return content


def _readings(content: bytes, content_type: str) -> Iterator[tuple[str, str, int]]:
    """The character sets that a body may be in, whatever its headers say; how other bytes are kept, and the begin."""
    if found := _CHARSET.search(content_type):
        yield found[1], "strict", 0
    yield "utf-8", _BYTES, 0
    if not content.isascii():
        yield "iso-8859-1", "strict", 0
    if b"\0" in content:
        # In big endian, letters begin a byte later.
        yield "utf-16-le", "surrogatepass", 0
        yield "utf-16-le", "surrogatepass", 1


def _masked_as(content: bytes, charset: str, how: str, redact: Redactor) -> bytes:
    """The body without the secrets that it has in a character set; as it is where it is not in that."""
    end = len(content) // 2 * 2 if charset == "utf-16-le" else len(content)
    try:
        text = content[:end].decode(charset, how)
    except (UnicodeDecodeError, LookupError):
        return content
    shown = redact(text)
    if shown == text:
        return content
    return shown.encode(charset, "replace" if how == "strict" else how) + content[end:]


async def shown_text(content: bytes, content_type: str, redact: Redactor) -> str:
    """The beginning of an answer's body for people: as text, without the secrets.

    All of it is masked before it is cut: a secret that is cut is not recognised.
    """
    if len(content) <= _SMALL:
        shown = masked(content, content_type, redact)
    else:
        shown = await asyncio.to_thread(masked, content, content_type, redact)
    return printable(shown[:_SHOWN].decode(errors="replace"))


def refuse_pages(headers: Mapping[str, str]) -> None:
    """ApiError 403 where a browser would show or run the answer instead of handing it to the console's code."""
    if headers.get("Sec-Fetch-Dest", "empty").lower() != "empty" or "Service-Worker" in headers:
        raise errors.forbidden(
            "A browser may not open this as a page, a script or a picture: call it as an API"
        )


def _named(values: Iterable[str]) -> frozenset[str]:
    return frozenset(part.strip().lower() for value in values for part in value.split(","))


def _is_text(value: str) -> bool:
    """Whether it can be sent: bytes that are no UTF-8 come as surrogates."""
    return not any("\ud800" <= letter <= "\udfff" for letter in value)
