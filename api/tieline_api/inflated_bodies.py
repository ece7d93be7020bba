"""Compressed bodies of requests and answers, read some kilobytes at a time."""

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable, Iterable

from aiohttp import StreamReader

from tieline_api.errors import ApiError

GZIP = frozenset({"gzip", "x-gzip"})
DEFLATE = "deflate"
_PIECE = 256 * 1024
_MOST_MEMBERS = 10_000
"""Of a gzip stream. They cost time even where they hold nothing, which no limit of the content counts."""
_GZIP_WINDOW, _ZLIB_WINDOW, _RAW_WINDOW = 31, 15, -15


def encodings_of(values: Iterable[str]) -> list[str]:
    """The encodings that headers name, without ``identity``.

    >>> encodings_of(["GZip, identity", "br"])
    ['gzip', 'br']
    """
    names = ",".join(values).lower().split(",")
    return [name for name in map(str.strip, names) if name not in ("", "identity")]


class Inflated:
    """What a compressed stream holds, some kilobytes at a time: what a bomb would grow to is never in memory."""

    def __init__(self, stream: StreamReader, *, gzip: bool, broken: Callable[[str], ApiError]) -> None:
        """``broken`` makes the error for a stream that is not what it says."""
        self._stream = stream
        self._gzip = gzip
        self._broken = broken
        self._inflate = zlib.decompressobj(_GZIP_WINDOW if gzip else _ZLIB_WINDOW)
        self._members = 1
        self._buffer = bytearray()
        self._waiting = b""
        self._is_full = False
        """Whether the last piece was as long as can be, so that more of it may be waiting without further input."""
        self._started = False
        self._ended = False

    async def read(self, size: int = -1) -> bytes:
        """Up to ``size`` bytes, all that are left for -1; none at the end."""
        while not self._ended and (size < 0 or not self._buffer):
            await self._more()
        return self._take(len(self._buffer) if size < 0 else size)

    async def readline(self, *, max_line_length: int | None = None) -> bytes:
        """A line with its end; ValueError for one that is longer than ``max_line_length``."""
        found = self._buffer.find(b"\n")
        while found < 0 and not self._ended:
            searched = len(self._buffer)
            await self._more()
            found = self._buffer.find(b"\n", searched)
            if found < 0 and max_line_length is not None and len(self._buffer) > max_line_length:
                raise ValueError("a line is too long")
        return self._take(found + 1 if found >= 0 else len(self._buffer))

    async def iter_any(self) -> AsyncIterator[bytes]:
        """The pieces as they come."""
        while piece := await self.read(_PIECE):
            yield piece

    def unread_data(self, data: bytes) -> None:
        """Puts back what was read."""
        self._buffer[:0] = data

    def at_eof(self) -> bool:
        """Whether everything was read."""
        return self._ended and not self._buffer

    def _take(self, size: int) -> bytes:
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    async def _more(self) -> None:
        data, self._waiting = self._waiting, b""
        if data or self._is_full:
            # What came grows a lot: others get their turn in between.
            await asyncio.sleep(0)
        else:
            data = await self._stream.readany()
        if not data and not self._is_full:
            if self._started and not self._inflate.eof:
                raise self._malformed()
            self._ended = True
            return
        try:
            self._buffer += self._inflated(data)
        except zlib.error:
            raise self._malformed() from None

    def _inflated(self, data: bytes) -> bytes:
        if not self._started and not self._gzip and data[0] & 0x0F != 8:
            # Not the zlib format that HTTP calls deflate, but what some clients send under that name.
            self._inflate = zlib.decompressobj(_RAW_WINDOW)
        elif self._inflate.eof:
            # One gzip member after the other (RFC 1952, section 2.2); after deflate comes nothing.
            self._members += 1
            if not self._gzip or self._members > _MOST_MEMBERS:
                raise zlib.error
            self._inflate = zlib.decompressobj(_GZIP_WINDOW)
        self._started = True
        found = self._inflate.decompress(data, _PIECE)
        self._is_full = len(found) == _PIECE and not self._inflate.eof
        self._waiting = self._inflate.unconsumed_tail or self._inflate.unused_data
        return found

    def _malformed(self) -> ApiError:
        return self._broken(
            f"The body is not {'gzip' if self._gzip else 'deflate'}, as its Content-Encoding says, or is cut off"
        )
