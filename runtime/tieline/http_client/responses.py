"""Answers of external systems: aiohttp's, whose errors keep what the system said."""

import asyncio
import contextlib
import json
from codecs import BOM_UTF8
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import aiohttp
import orjson

from tieline.errors import RateLimitedError, UpstreamError
from tieline.telemetry.client_spans import shown
from tieline.telemetry.redaction import Redactor
from tieline_protocol.answer_paths import MISSING
from tieline_protocol.limit_answers import LimitSignal
from tieline_protocol.openapi_parameters import is_json

MAX_BODY_EXCERPT = 2048
"""Characters of an answer's body that an error keeps."""
# What of a body is looked at: masking has to see further than what is kept, and a letter has up to 4 bytes.
_LOOKED_AT = 64 * 1024
_FIRST_LOOK, _LAST_LOOK = 0.001, 0.02
_NO_TEXT = (
    "audio/",
    "font/",
    "image/",
    "video/",
    "application/octet-stream",
    "application/zip",
    "application/pdf",
)


_NOT_PARSED = object()


class Response(aiohttp.ClientResponse):
    """An aiohttp.ClientResponse. ``raise_for_status()`` raises an UpstreamError, which is a ClientResponseError."""

    limit: LimitSignal | None = None
    """What the answer says about the system's limits."""
    _template = ""
    _system = ""
    _redact: Redactor | None = None
    _beginning: bytes | None = None
    _document: Any = _NOT_PARSED

    async def json(
        self,
        *,
        encoding: str | None = None,
        loads: Callable[[str], Any] = json.loads,
        content_type: str | None = "application/json",
    ) -> Any:
        """The body as JSON; as aiohttp.ClientResponse.json, also where it begins with a byte order mark."""
        if encoding is None and (await self.read()).startswith(BOM_UTF8):
            encoding = "utf-8-sig"
        return await super().json(encoding=encoding, loads=loads, content_type=content_type)

    def describe(self, *, template: str, redact: Redactor, system: str = "") -> None:
        """Tell what the request went through, and what masks the texts of errors."""
        self._template = template
        self._system = system
        self._redact = redact

    def raise_for_status(self) -> None:
        """Raise an UpstreamError for a status of 400 and above.

        It is a RateLimitedError where the system's limits are reached, which some systems say with other statuses, such
        as 200. The error keeps the beginning of the body. Of an answer that is still being read (``ctx.session``) that
        is what has arrived; an answer of ``ctx.fetch`` is there as a whole, and can still be read afterwards.
        """
        limit = self.limit if self.limit is not None and self.limit.refused else None
        if self.ok and limit is None:
            return
        body = self.excerpt()
        if self._body is None and not self._in_context:
            self.release()
        error = UpstreamError if limit is None else partial(RateLimitedError, limit=limit)
        raise error(
            template=self._template or self.url.host or "",
            system=self._system,
            body=body,
            method=self.method,
            url=shown(self.url),
            reason=self.reason or "",
            status=self.status,
            request_info=self.request_info,
            history=self.history,
            headers=self.headers,
        )

    async def raise_with_body(self) -> None:
        """The same for an answer that nobody else gets: its body's beginning is waited for."""
        if not self.ok and self._body is None:
            with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                self._beginning = await self.content.read(_LOOKED_AT)
        self.raise_for_status()

    async def arrived_json(self, *, seconds: float) -> Any:
        """A JSON body of ``_LOOKED_AT`` bytes at most; None for others. The body can still be read."""
        if not is_json(self.headers.get("Content-Type", "")):
            return None
        if self._body is None:
            await self._whole(seconds)
        if self._body is None and not self.content.is_eof():
            return None
        content = self._body if self._body is not None else self._arrived()
        if len(content) > _LOOKED_AT:
            return None
        found = self._parsed(content)
        return None if found is MISSING else found

    def _parsed(self, content: bytes) -> Any:
        """The body as JSON data, parsed once; MISSING for what is none."""
        if self._document is _NOT_PARSED:
            self._document = _json_of(content)
        return self._document

    async def _whole(self, seconds: float) -> None:
        """Wait until the body has arrived, or more of it than is looked at."""
        content, wait = self.content, _FIRST_LOOK
        length = None if "Content-Encoding" in self.headers else self.content_length
        if length is not None and length > _LOOKED_AT:
            return
        with contextlib.suppress(TimeoutError, aiohttp.ClientError):
            async with asyncio.timeout(seconds):
                if length is not None:
                    await content.wait_eof()
                while not content.is_eof() and content.total_bytes <= _LOOKED_AT:
                    await asyncio.sleep(wait)
                    wait = min(wait * 2, _LAST_LOOK)

    def small_json(
        self, longest: int, *, is_of_interest: Callable[[bytes], bool], body: bytes | None = None
    ) -> Any:
        """The body as JSON data, where it is read, declared as such, of interest and not too long; else MISSING.

        ``body`` is what somebody has read from the content.
        """
        content = self._body if body is None else body
        media_type = self.headers.get("Content-Type", "")
        if content is None or len(content) > longest or not is_json(media_type):
            return MISSING
        if not is_of_interest(content):
            return MISSING
        return self._parsed(content) if body is None else _json_of(content)

    def excerpt(self, *, longest: int = MAX_BODY_EXCERPT) -> str:
        """The body's beginning, masked, then cut. What may be the beginning of a secret at its end is left out."""
        if self.headers.get("Content-Type", "").lower().startswith(_NO_TEXT):
            return ""
        redact = self._redact or Redactor()
        content = self._body if self._body is not None else self._arrived()
        whole = self._body is not None and len(content) <= _LOOKED_AT
        text = content[:_LOOKED_AT].decode(self._encoding(), errors="replace")
        if not whole:
            text = text[: redact.unfinished(text)]
        masked = redact.for_run(text, longest=longest)
        return "".join(letter for letter in masked if letter.isprintable() or letter in "\n\t").strip()

    def _arrived(self) -> bytes:
        if self._beginning is not None:
            return self._beginning
        # Looked at, and left there for whoever reads it.
        parts: deque[bytes] = getattr(self.content, "_buffer", deque())
        found = bytearray()
        for part in parts:
            if len(found) > _LOOKED_AT:
                break
            found += part
        return bytes(found[getattr(self.content, "_buffer_offset", 0) :])

    def _encoding(self) -> str:
        try:
            return self.get_encoding()
        except RuntimeError:  # its body is not read, and it declares none
            return "utf-8"


def _json_of(content: bytes) -> Any:
    try:
        return orjson.loads(content.removeprefix(BOM_UTF8))
    except ValueError:
        return MISSING
