"""The HTTP server: how long a client may take to say what it wants, and what those hear who do not speak HTTP.

aiohttp has no time-out for a request's headers. Its connections wait for them like idle ones, for an hour, and
whoever sends a byte now and then holds a connection for nothing.
"""

import asyncio
import logging
import socket
from contextlib import suppress
from http import HTTPStatus
from typing import Any

import orjson
from aiohttp import web
from aiohttp.http_exceptions import LineTooLong
from aiohttp.web_protocol import RequestHandler

from tieline_api import errors
from tieline_api.service.headers import STANDARD, complete

logger = logging.getLogger("tieline_api.requests")

HEADER_SECONDS = 30.0
"""From a connection's beginning, or the first byte of another request on it, to the end of the headers."""
KEEP_ALIVE_SECONDS = 620.0
"""How long an idle connection is kept: longer than load balancers keep theirs (Google's for 600 s), so that they
never send a request on one that is just being closed."""
UNREAD_SECONDS = 60.0
"""How long an answer may lie in the kernel without the client's taking any of it."""
# aiohttp answers longer ones by itself, in words that are not ours; tokens alone may have 16 KiB.
_LIMITS: dict[str, Any] = {"max_line_size": 32768, "max_field_size": 32768}


class Runner(web.AppRunner):
    """Serves an application with these time-outs."""

    def __init__(
        self,
        app: web.Application,
        *,
        shutdown_timeout: float,
        header_seconds: float = HEADER_SECONDS,
    ) -> None:
        super().__init__(
            app,
            access_log=None,
            shutdown_timeout=shutdown_timeout,
            keepalive_timeout=KEEP_ALIVE_SECONDS,
            **_LIMITS,
        )
        self._header_seconds = header_seconds

    async def _make_server(self) -> web.Server:
        made = await super()._make_server()
        return _Server(made, header_seconds=self._header_seconds)


class _Server(web.Server):
    """A server like another one, with connections of ours."""

    def __init__(self, made: web.Server, *, header_seconds: float) -> None:
        super().__init__(
            made.request_handler, request_factory=made.request_factory, loop=made._loop, **made._kwargs
        )
        self._header_seconds = header_seconds

    def __call__(self) -> RequestHandler:
        return _Connection(self, header_seconds=self._header_seconds, loop=self._loop, **self._kwargs)


class _Connection(RequestHandler):
    """A connection that is closed when a request's headers take too long.

    It looks at two of aiohttp's own fields: how many requests have come, and whether it waits for another one.
    """

    __slots__ = ("_header_seconds", "_timer", "_took_up")

    def __init__(self, manager: web.Server, *, header_seconds: float, **options: Any) -> None:
        super().__init__(manager, **options)
        self._header_seconds = header_seconds
        self._timer: asyncio.TimerHandle | None = None
        self._took_up = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        _limit_unread(transport)
        self._begin_to_wait()

    def data_received(self, data: bytes) -> None:
        before = self._request_count
        super().data_received(data)
        if self._request_count != before:
            self._stop_waiting()
        elif self._timer is not None or self._waiter is not None:
            self._took_up = True
            self._begin_to_wait()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _begin_to_wait(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(self._header_seconds, self._give_up)

    def _stop_waiting(self) -> None:
        self._took_up = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        if self._took_up and self.transport is not None:
            error = errors.ApiError(
                408, "timeout", f"The headers did not arrive within {self._header_seconds:g} s"
            )
            self.transport.write(_as_bytes(error))
        self.force_close()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """What is no HTTP is answered in the contract's form, without a traceback and without quoting it."""
        if status >= 500:
            return super().handle_error(request, status, exc, message)
        if request.writer.output_size > 0:
            raise ConnectionError("An answer was begun already")
        logger.info("Refused what is no HTTP", extra={"error": type(exc).__name__})
        error = errors.malformed("The request is no HTTP/1.1 that can be read")
        if isinstance(exc, LineTooLong):
            error = errors.ApiError(431, "too_large", "The request line or a header is too long")
        response = web.Response(
            status=error.status, body=orjson.dumps(error.body()), content_type="application/json"
        )
        complete(response)
        response.force_close()
        return response


def _limit_unread(transport: asyncio.BaseTransport) -> None:
    """Has the kernel give up a connection whose other side takes nothing any more (Linux)."""
    option = getattr(socket, "TCP_USER_TIMEOUT", None)
    found = transport.get_extra_info("socket")
    if option is not None and found is not None:
        with suppress(OSError):
            found.setsockopt(socket.IPPROTO_TCP, option, int(UNREAD_SECONDS * 1000))


def _as_bytes(error: errors.ApiError) -> bytes:
    """An answer that ends its connection."""
    body = orjson.dumps(error.body())
    headers = {
        "Content-Type": "application/json; charset=utf-8",
        "Content-Length": str(len(body)),
        "Connection": "close",
        **STANDARD,
    }
    lines = [f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body
