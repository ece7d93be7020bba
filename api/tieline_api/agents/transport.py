"""Speaks the protocol with the SDK: the one place that knows of ASGI.

Each request is served by itself, with a JSON answer and without a session, as the protocol allows: any replica answers
any request. The SDK's transport is an ASGI application, and gets the request that the dispatcher has read and admitted.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from aiohttp import web
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from multidict import CIMultiDict

from tieline_api import errors
from tieline_api.agents.messages import Refusal, checked
from tieline_api.agents.server import server_of
from tieline_api.agents.tools import Tool
from tieline_api.http.operation import AnyCall

# One of each request: what the manager says when it starts and ends is no news.
logging.getLogger("mcp.server.streamable_http_manager").setLevel(logging.WARNING)

MOST_SECONDS = 90.0
"""For a message, whatever it asks for."""
_LENGTH = "content-length"


async def answer(call: AnyCall, tools: Sequence[Tool]) -> web.Response:
    """The answer to the message of JSON-RPC that a call brings, whatever is in it, by a server with these tools.

    Raises ApiError 504 where a tool does not end.
    """
    message = checked(call.raw, call.request.headers.get("Mcp-Protocol-Version"))
    if isinstance(message, Refusal):
        headers = {"Cache-Control": "no-store"}
        return web.Response(status=400, body=message.body(), content_type="application/json", headers=headers)
    exchange = _Exchange(message)
    server = server_of(call, tools)
    manager = StreamableHTTPSessionManager(server, json_response=True, stateless=True)
    try:
        async with asyncio.timeout(MOST_SECONDS), manager.run():
            await manager.handle_request(_scope(call.request.headers), exchange.receive, exchange.send)
    except TimeoutError:
        raise errors.ApiError(504, "timeout", "The tool did not end in time; it may still act") from None
    return exchange.response()


class _Exchange:
    """One request and its answer, as ASGI has them."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._is_read = False
        self._status = 500
        self._headers: CIMultiDict[str] = CIMultiDict()
        self._content = bytearray()

    async def receive(self) -> dict[str, Any]:
        """The body, once. Who asks again waits for the client to go away, which cancels all of this."""
        if self._is_read:
            await asyncio.Event().wait()
        self._is_read = True
        return {"type": "http.request", "body": self._body, "more_body": False}

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._headers.extend((name.decode(), value.decode()) for name, value in message["headers"])
        elif message["type"] == "http.response.body":
            self._content += message.get("body", b"")

    def response(self) -> web.Response:
        self._headers.popall(_LENGTH, None)
        self._headers["Cache-Control"] = "no-store"
        return web.Response(status=self._status, headers=self._headers, body=bytes(self._content))


def _scope(headers: Mapping[str, str]) -> dict[str, Any]:
    return {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/",
        "raw_path": b"/",
        "query_string": b"",
        "headers": [
            (name.lower().encode("latin-1", "replace"), value.encode("latin-1", "replace"))
            for name, value in headers.items()
            if name.lower() not in _KEPT_FROM_THE_SDK
        ]
        + [(b"accept", b"application/json")],
        "client": None,
        "server": None,
    }


_KEPT_FROM_THE_SDK = frozenset({"authorization", "cookie", "x-api-key", "accept", _LENGTH})
"""It needs no credentials: the dispatcher has checked them. Streams are not offered, whatever the client accepts."""
