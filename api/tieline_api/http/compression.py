"""Compresses answers for clients that accept gzip.

The size of an answer reveals no secret in it to another page: requests with our credentials need a header, which a page
of another origin cannot send.
"""

import zlib

from aiohttp import web
from aiohttp.typedefs import Handler

from tieline_api.http.dispatcher import ChunkedPayload

LEAST_BYTES = 1400
"""Smaller answers fit into one packet uncompressed."""
_LARGE = 64 * 1024
_LEVEL = 1
"""Most of the gain for a third of the time."""
_GZIP = 31
"""Bits of the window (15), in the format of gzip (16)."""
_PROXIED = "X-Tieline-Upstream-Status"


@web.middleware
async def compression(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Compresses JSON that is worth it."""
    response = await handler(request)
    if not isinstance(response, web.Response) or not _is_ours(response):
        return response
    body = response.body
    size = len(body) if isinstance(body, bytes) else body.size if isinstance(body, ChunkedPayload) else None
    if size is None or size < LEAST_BYTES:
        return response
    add_vary(response, "Accept-Encoding")
    if not takes_gzip(request.headers.get("Accept-Encoding", "")):
        return response
    if isinstance(body, bytes) and size <= _LARGE:
        response.body = zlib.compress(body, _LEVEL, wbits=_GZIP)
        response.headers["Content-Encoding"] = "gzip"
    else:
        response.enable_compression(web.ContentCoding.gzip)
    return response


def _is_ours(response: web.Response) -> bool:
    headers = response.headers
    return (
        response.content_type == "application/json"
        and not response.prepared
        and "Content-Encoding" not in headers
        and _PROXIED not in headers
    )


def takes_gzip(accepted: str) -> bool:
    """Whether a header Accept-Encoding lets an answer be gzip."""
    for one in accepted.split(","):
        coding, _, parameter = one.partition(";")
        if coding.strip().lower() == "gzip":
            name, _, weight = parameter.partition("=")
            return name.strip().lower() != "q" or _is_positive(weight)
    return False


def _is_positive(weight: str) -> bool:
    try:
        return float(weight) > 0
    except ValueError:
        return False


def add_vary(response: web.StreamResponse, name: str) -> None:
    """Adds a header's name to those that an answer depends on."""
    names = [one.strip() for one in response.headers.get("Vary", "").split(",") if one.strip()]
    if name not in names:
        response.headers["Vary"] = ", ".join([*names, name])
