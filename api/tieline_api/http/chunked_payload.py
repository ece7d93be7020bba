"""A large answer, sent in pieces: bytes go out in one go, which holds up everybody else when they are many."""

import asyncio
from collections.abc import Sequence

from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import Payload

_PIECE = 256 * 1024


class ChunkedPayload(Payload):
    """Bytes, one after the other, as a body. (aiohttp's payload for io.BytesIO copies all of them first.)"""

    def __init__(self, parts: Sequence[bytes]) -> None:
        super().__init__(parts)
        self._size = sum(map(len, parts))

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """The whole as text."""
        return b"".join(self._value).decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Sends the pieces, and lets others go on after each."""
        for part in self._value:
            view = memoryview(part)
            for start in range(0, len(view), _PIECE):
                await writer.write(view[start : start + _PIECE])
                await asyncio.sleep(0)
