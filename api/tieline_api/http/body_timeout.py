"""How long a body may take to arrive: as long as it makes progress, and never longer than its limit."""

import asyncio
from types import TracebackType
from typing import Self

GRACE_SECONDS = 15.0
"""What every body has, whatever its size."""
BYTES_PER_SECOND = 4096
"""What has to arrive on average after that: who sends less holds a connection for nothing."""


class ProgressTimeout:
    """A time-out that moves on with what arrives; ``async with`` raises TimeoutError as ``asyncio.timeout`` does."""

    def __init__(self, seconds: float) -> None:
        """``seconds`` is the limit that nothing moves."""
        loop = asyncio.get_running_loop()
        self._began, self._last = loop.time(), loop.time() + seconds
        self._timeout = asyncio.timeout_at(min(self._last, self._began + GRACE_SECONDS))

    def arrived(self, size: int) -> None:
        """Tells how many bytes have arrived so far."""
        due = self._began + GRACE_SECONDS + size / BYTES_PER_SECOND
        self._timeout.reschedule(min(self._last, due))

    async def __aenter__(self) -> Self:
        await self._timeout.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._timeout.__aexit__(kind, error, trace)
