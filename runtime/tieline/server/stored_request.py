"""The request of a webhook: what is kept of it, and the Request that its function gets later."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any, cast

from aiohttp import HttpVersion11, StreamReader, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http import RawRequestMessage
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from tieline.telemetry.redaction import Redactor
from tieline_protocol.event_streams import MAX_EVENT_BYTES
from tieline_protocol.events import EventMetadata, WebhookRequest

_CREDENTIALS = frozenset(("authorization", "cookie", "proxy-authorization"))
_OF_THE_CONNECTION = frozenset(
    ("connection", "content-length", "expect", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade")
)
_MAX_HEADERS = 16 * 1024
DEDUPLICATION_HEADERS = ("Webhook-Id", "Idempotency-Key")
"""Senders that repeat a request repeat these (Standard Webhooks, and the draft of the IETF)."""


def kept_request(request: web.Request, redact: Redactor) -> WebhookRequest:
    """Method, path and headers, without credentials and with known secrets masked. All headers have 16 KiB at most."""
    headers, size = [], 0
    for name, value in request.headers.items():
        if name.lower() in _CREDENTIALS or name.lower() in _OF_THE_CONNECTION:
            continue
        masked = _readable(redact.for_run(value))
        # As they are stored: a letter may take six bytes.
        length = len(json.dumps([name, masked]))
        if size + length <= _MAX_HEADERS:
            size += length
            headers.append((name, masked))
    return WebhookRequest(
        method=request.method, path=_readable(redact.for_run(request.raw_path)), headers=headers
    )


def _readable(text: str) -> str:
    """The text with bytes replaced that are no UTF-8."""
    return text.encode("utf-8", "replace").decode()


async def stored_request(
    metadata: EventMetadata, body: bytes, application: web.Application | None
) -> web.Request:
    """A request that is read like the one that was accepted. There is nobody to answer."""
    stored = metadata.request or WebhookRequest(method="POST", path=f"/{metadata.task}")
    loop = asyncio.get_running_loop()
    content = StreamReader(BaseProtocol(loop), limit=len(body) + 1, loop=loop)
    if body:
        content.feed_data(body)
    content.feed_eof()
    headers = CIMultiDict(stored.headers)
    headers["Content-Length"] = str(len(body))
    message = RawRequestMessage(
        stored.method,
        stored.path,
        HttpVersion11,
        CIMultiDictProxy(headers),
        tuple((name.encode(), value.encode()) for name, value in headers.items()),
        False,
        None,
        False,
        False,
        URL(stored.path, encoded=True),
    )
    protocol: Any = SimpleNamespace(
        transport=None, peername=None, sockname=None, ssl_context=None, max_field_size=8190, max_headers=128
    )
    request = web.Request(
        message,
        content,
        protocol,
        _Nobody(),
        cast("asyncio.Task[None]", asyncio.current_task()),
        loop,
        client_max_size=MAX_EVENT_BYTES,
    )
    if application is not None:
        request._match_info = await application.router.resolve(request)
    return request


class _Nobody(AbstractStreamWriter):
    """Takes an answer that is sent in parts."""

    async def write(self, chunk: bytes | bytearray | memoryview) -> None:
        """Nobody reads it."""

    async def write_eof(self, chunk: bytes = b"") -> None:
        """Nobody waits for its end."""

    async def drain(self) -> None:
        """Nothing is held."""

    def enable_compression(self, encoding: str = "deflate", strategy: int | None = None) -> None:
        """As if it were sent."""

    def enable_chunking(self) -> None:
        """As if it were sent."""

    async def write_headers(self, status_line: str, headers: CIMultiDict[str]) -> None:
        """Nobody reads them."""
