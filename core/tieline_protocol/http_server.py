"""An HTTP server that does not wait for slow clients: what the API and project pods listen with.

aiohttp has no time-out for a request's headers. Its connections wait for them like idle ones, for an hour, and
whoever sends a byte now and then holds a connection for nothing.
"""

import asyncio
import json
import socket
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

HEADER_SECONDS = 30.0
"""From a connection's beginning, or the first byte of another request on it, to the end of the headers."""
KEEP_ALIVE_SECONDS = 620.0
"""How long an idle connection is kept: longer than load balancers keep theirs (Google's for 600 s), so that they
never send a request on one that is just being closed."""
UNREAD_SECONDS = 60.0
"""How long an answer may lie in the kernel without the client's taking any of it."""


class RequestHandlerWithTimeout(RequestHandler):
    """A connection that is closed when a request's headers take too long.

    It looks at two of aiohttp's own fields: how many requests have come, and whether it waits for another one.
    """

    __slots__ = ("_header_seconds", "_timer", "_took_up")

    late_headers: Mapping[str, str] = {}
    """Headers of the answer to who is too late, beside the usual ones."""

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
        # Who has sent nothing expects no answer: a browser opens connections before it needs them.
        if self._took_up and self.transport is not None:
            self.transport.write(_too_late(self._header_seconds, self.late_headers))
        self.force_close()


class Runner(web.AppRunner):
    """Serves an application through such connections."""

    connection: type[RequestHandlerWithTimeout] = RequestHandlerWithTimeout

    def __init__(
        self, app: web.Application, *, header_seconds: float = HEADER_SECONDS, **options: Any
    ) -> None:
        """``options`` are those of ``aiohttp.web.AppRunner``."""
        super().__init__(app, **{"keepalive_timeout": KEEP_ALIVE_SECONDS, **options})
        self._header_seconds = header_seconds

    async def _make_server(self) -> web.Server:
        made = await super()._make_server()
        return _Server(made, connection=self.connection, header_seconds=self._header_seconds)


class _Server(web.Server):
    """A server like another one, with other connections."""

    def __init__(
        self, made: web.Server, *, connection: type[RequestHandlerWithTimeout], header_seconds: float
    ) -> None:
        super().__init__(
            made.request_handler,
            request_factory=made.request_factory,
            handler_cancellation=made.handler_cancellation,
            loop=made._loop,
            **made._kwargs,
        )
        self._connection = connection
        self._header_seconds = header_seconds

    def __call__(self) -> RequestHandler:
        return self._connection(self, header_seconds=self._header_seconds, loop=self._loop, **self._kwargs)


def _limit_unread(transport: asyncio.BaseTransport) -> None:
    """Has the kernel give up a connection whose other side takes nothing any more (Linux)."""
    option = getattr(socket, "TCP_USER_TIMEOUT", None)
    found = transport.get_extra_info("socket")
    if option is not None and found is not None:
        with suppress(OSError):
            found.setsockopt(socket.IPPROTO_TCP, option, int(UNREAD_SECONDS * 1000))


def _too_late(seconds: float, headers: Mapping[str, str]) -> bytes:
    """An answer that ends its connection."""
    error = {"code": "timeout", "message": f"The headers did not arrive within {seconds:g} s"}
    body = json.dumps(error).encode()
    fields = {
        **headers,
        "Content-Type": "application/json; charset=utf-8",
        "Content-Length": str(len(body)),
        "Connection": "close",
    }
    status = HTTPStatus.REQUEST_TIMEOUT
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        *(f"{name}: {value}" for name, value in fields.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body
