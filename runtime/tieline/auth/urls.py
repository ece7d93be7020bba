"""URLs of requests: a connection's base URL joined with what code asks for."""

import re
from functools import lru_cache
from urllib.parse import quote, unquote_plus

from yarl import URL

from tieline.errors import ForeignOriginError, InvalidPathError

# What RFC 3986 allows, percent-encoding included: such text is sent as it is written.
_WELL_FORMED = re.compile(r"(?:[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*")
_ABSOLUTE = re.compile(r"^(?:[A-Za-z][A-Za-z0-9+.-]*:)?//")


def join(*, base: str, path: str | URL, template: str) -> URL:
    """The URL of ``path`` under ``base``; an absolute ``path`` is taken as it is when its origin is base's.

    Paths are put together and queries too (base's first), so neither loses anything: ``https://h/v2?a=1``
    and ``/orders?b=2`` give ``https://h/v2/orders?a=1&b=2``. Percent-encoding stays as it was written.
    Raises ForeignOriginError and InvalidPathError.
    """
    return _joined(base, str(path), template)


# Most code asks for the same few paths again and again.
@lru_cache(maxsize=512)
def _joined(base: str, text: str, template: str) -> URL:
    root = _base(base, template)
    if _ABSOLUTE.match(text):
        return _same_origin(text, root, template)
    if not text.startswith(("/", "?", "#")):
        text = f"/{text}" if text else text
    relative = _parsed(text)
    if ".." in relative.parts or ".." in relative.path.split("/"):
        raise InvalidPathError(
            f"The path {text!r} holds '..'; give the path under the connection's base URL as it is, "
            "and percent-encode values that you put into it"
        )
    joined = root.raw_path.rstrip("/") + relative.raw_path if relative.raw_path else root.raw_path
    query = "&".join(part for part in (root.raw_query_string, relative.raw_query_string) if part)
    return rebuilt(root, path=joined or "/", query=query)


def path_below(*, base: str, url: str | URL) -> str:
    """The path of what code asks for, below ``base`` and without a query.

    >>> path_below(base="https://h/v2", url="orders?state=open"), path_below(base="https://h/v2", url="https://h/v2/orders")
    ('/orders', '/orders')
    """
    text = re.split("[?#]", str(url), maxsplit=1)[0]
    if _ABSOLUTE.match(text):
        path = "/" + text.partition("//")[2].partition("/")[2]
        root = ("/" + base.partition("//")[2].partition("/")[2]).rstrip("/")
        is_below = path == root or path.startswith(f"{root}/")
        return (path.removeprefix(root) if is_below else path) or "/"
    return text if text.startswith("/") else f"/{text}"


def with_parameter(url: URL, name: str, value: str) -> URL:
    """``url`` with the query parameter set: one of that name is replaced, the others keep their bytes."""
    added = f"{quote(name, safe='')}={quote(value, safe='')}"
    return rebuilt(url, path=url.raw_path, query="&".join([*_others(url.raw_query_string, name), added]))


def without_parameter(url: URL, name: str) -> URL:
    """``url`` without the query parameter; the others keep their bytes."""
    return rebuilt(url, path=url.raw_path, query="&".join(_others(url.raw_query_string, name)))


def origin(url: URL) -> tuple[str, str, int | None]:
    """Scheme, host and port (the scheme's own when none is written): what credentials are bound to."""
    return url.scheme, (url.raw_host or "").lower(), url.port


def rebuilt(url: URL, *, path: str, query: str) -> URL:
    """``url`` with another path and query, both taken as they are, byte by byte."""
    return URL.build(
        scheme=url.scheme,
        authority=url.raw_authority,
        path=path,
        query_string=query,
        encoded=True,
    )


def _base(base: str, template: str) -> URL:
    if "{" in base:
        raise InvalidPathError(
            f"The base URL of template {template!r} still has a placeholder: {base}; set the connection's baseUrl"
        )
    url = _parsed(base)
    if url.scheme not in {"http", "https"} or not url.raw_host:
        raise InvalidPathError(
            f"The base URL of template {template!r} is no http or https URL: {base}; set the connection's baseUrl"
        )
    return url


def _same_origin(text: str, root: URL, template: str) -> URL:
    url = _parsed(f"{root.scheme}:{text}" if text.startswith("//") else text)
    if not url.raw_host or origin(url) != origin(root):
        raise ForeignOriginError(
            template=template,
            origin=shown(url),
            base_origin=shown(root),
        )
    return url.with_fragment(None)


def shown(url: URL) -> str:
    """The origin as text, for messages."""
    return f"{url.scheme}://{url.raw_authority.rpartition('@')[2]}"


def _parsed(text: str) -> URL:
    """The URL of ``text``: as it is when it is well-formed, else with what needs it percent-encoded."""
    try:
        return URL(text, encoded=_WELL_FORMED.fullmatch(text) is not None)
    except ValueError as error:
        raise InvalidPathError(f"{text!r} cannot be read as a URL: {error}") from error


def _others(query: str, name: str) -> list[str]:
    return [part for part in query.split("&") if part and _name(part) != name]


def _name(part: str) -> str:
    return unquote_plus(part.partition("=")[0])
