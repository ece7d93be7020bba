"""Answers of external systems: aiohttp's, whose errors keep what the system said."""

import contextlib
from collections import deque

import aiohttp

from tieline.errors import UpstreamError
from tieline.telemetry.client_spans import shown
from tieline.telemetry.redaction import Redactor

MAX_BODY_EXCERPT = 2048
"""Characters of an answer's body that an error keeps."""
# What of a body is looked at: masking has to see further than what is kept, and a letter has up to 4 bytes.
_LOOKED_AT = 64 * 1024
_NO_TEXT = (
    "audio/",
    "font/",
    "image/",
    "video/",
    "application/octet-stream",
    "application/zip",
    "application/pdf",
)


class Response(aiohttp.ClientResponse):
    """An aiohttp.ClientResponse. ``raise_for_status()`` raises an UpstreamError, which is a ClientResponseError."""

    _template = ""
    _redact: Redactor | None = None
    _beginning: bytes | None = None

    def describe(self, *, template: str, redact: Redactor) -> None:
        """Tell what the request went through, and what masks the texts of errors."""
        self._template = template
        self._redact = redact

    def raise_for_status(self) -> None:
        """Raise an UpstreamError for a status of 400 and above.

        It keeps the beginning of the body. Of an answer that is still being read (``ctx.session``) that is what has
        arrived; an answer of ``ctx.fetch`` is there as a whole, and can still be read afterwards.
        """
        if self.ok:
            return
        body = self._excerpt()
        if self._body is None and not self._in_context:
            self.release()
        raise UpstreamError(
            template=self._template or self.url.host or "",
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

    def _excerpt(self) -> str:
        """The body's beginning, masked, then cut. What may be the beginning of a secret at its end is left out."""
        if self.headers.get("Content-Type", "").lower().startswith(_NO_TEXT):
            return ""
        redact = self._redact or Redactor()
        content = self._body if self._body is not None else self._arrived()
        whole = self._body is not None and len(content) <= _LOOKED_AT
        text = content[:_LOOKED_AT].decode(self._encoding(), errors="replace")
        if not whole:
            text = text[: redact.unfinished(text)]
        masked = redact.for_run(text, longest=MAX_BODY_EXCERPT)
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
