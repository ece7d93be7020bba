"""Bounds what a request's body may take, whatever way the code reads it."""

from aiohttp import hdrs, web

from tieline.serving.refusals import RefusedError


async def bound(request: web.Request, limit: int) -> None:
    """Make sure that no more than ``limit`` bytes of body can be read from ``request``.

    A declared length is trusted, because the HTTP parser delivers no more. A body without one, or a
    compressed one, is read here, counted (``client_max_size`` of the server is ``limit`` too). Only a
    multipart body escapes that count, since aiohttp reads it in parts: it must declare its length.
    Raises RefusedError.
    """
    length = request.content_length
    if length is not None and length > limit:
        raise _too_large(limit)
    if not request.can_read_body:
        return
    encoded = request.headers.get(hdrs.CONTENT_ENCODING, "identity").lower() != "identity"
    if length is not None and not encoded:
        return
    if request.content_type.startswith("multipart/"):
        raise RefusedError(411, "length_required", "A multipart body needs a Content-Length and no encoding")
    try:
        await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise _too_large(limit) from None


def _too_large(limit: int) -> RefusedError:
    return RefusedError(413, "too_large", f"The request's body may have at most {limit} bytes")
