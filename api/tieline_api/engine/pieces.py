"""A large answer, sent in pieces: bytes go out in one go, which holds up everybody else when they are many."""

import asyncio

from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import Payload

_PIECE = 256 * 1024


class Pieces(Payload):
    """Bytes as a body. (aiohttp's payload for io.BytesIO does the same, but copies all of them first.)"""

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self._size = len(content)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """The whole as text."""
        text: str = self._value.decode(encoding, errors)
        return text

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Sends the pieces, and lets others go on after each."""
        view = memoryview(self._value)
        for start in range(0, len(view), _PIECE):
            await writer.write(view[start : start + _PIECE])
            await asyncio.sleep(0)
