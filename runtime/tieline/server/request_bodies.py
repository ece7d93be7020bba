"""Bounds what a request's body may take, whatever way the code reads it, and says when it cannot be read."""

import asyncio
import json
import traceback
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

from aiohttp import StreamReader, hdrs, web

from tieline.server.refused_error import RefusedError
from tieline.sync import SyncRequest


async def _read_json(request: web.Request, *, loads: Callable[[str], Any] = json.loads) -> Any:
    return loads((await request.text()).removeprefix("\ufeff"))


_READERS = frozenset(
    reader.__code__
    for reader in (
        _read_json,
        web.BaseRequest.json,
        web.BaseRequest.text,
        SyncRequest.json,
        SyncRequest.text,
    )
)
_LONGEST = 200


def bounded(request: web.Request, limit: int) -> bool:
    """Whether no more than ``limit`` bytes of body can be read from ``request``, whoever reads it.

    A declared length is trusted, because the HTTP parser delivers no more. A body without one, or a
    compressed one, must be read by ``read_bounded``. Only a multipart body escapes that, since aiohttp reads
    it in parts: it must declare its length. Raises RefusedError.
    """
    length = request.content_length
    if length is not None and length > limit:
        raise _too_large(limit)
    if not request.can_read_body:
        return True
    encoded = request.headers.get(hdrs.CONTENT_ENCODING, "identity").lower() != "identity"
    if length is not None and not encoded:
        return True
    if request.content_type.startswith("multipart/"):
        raise RefusedError(411, "length_required", "A multipart body needs a Content-Length and no encoding")
    return False


async def read_bounded(request: web.Request, limit: int) -> None:
    """Read the body, counted: ``client_max_size`` of the server is ``limit`` too. Raises RefusedError."""
    try:
        await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise _too_large(limit) from None


def put_back(request: web.Request, body: bytes) -> None:
    """Let the code read the body again in any way, also part by part, after it was read as a whole."""
    # As wide as the body: a narrower one would stop the connection until someone has read it.
    content = StreamReader(request.protocol, limit=len(body) + 1, loop=asyncio.get_running_loop())
    content.feed_data(body)
    content.feed_eof()
    request._payload = content


def reads_json_after_a_mark(request: web.Request) -> None:
    """Let ``await request.json()`` read a body that begins with a byte order mark, as RFC 8259 allows parsers to."""
    # Without a cycle, which would keep each request until the garbage collector finds it.
    vars(request)["json"] = partial(_read_json, weakref.proxy(request))


def unreadable(error: Exception) -> RefusedError | None:
    """The answer when ``error`` says that the caller's body is not the JSON or the text that the code asked for.

    Only what comes from reading the request: the same error about anything else is the code's own.
    """
    if not isinstance(error, ValueError | LookupError | RecursionError):
        return None
    if not any(frame.f_code in _READERS for frame, _ in traceback.walk_tb(error.__traceback__)):
        return None
    return RefusedError(400, "malformed", f"The request's body cannot be read: {error}"[:_LONGEST])


def _too_large(limit: int) -> RefusedError:
    return RefusedError(413, "too_large", f"The request's body may have at most {limit} bytes")
