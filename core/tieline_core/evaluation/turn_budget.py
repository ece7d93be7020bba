"""How much of one turn of the event loop organisations may take."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

_TURN_SECONDS = 0.002
"""What looking into an organisation's schemas and values may take in one turn of the event loop; the rest waits."""
_TURN_SECONDS_ALL = 0.008
"""The same for all organisations together."""


class TurnBudget:
    """The time that organisations have taken in this turn of the event loop."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._used: dict[str | None, float] = {}

    def is_over(self, tenant: str) -> bool:
        """Whether an organisation may take no more. One that has much to ask does not hold up the others."""
        if self._loop is not asyncio.get_running_loop():
            return False
        return self._used.get(tenant, 0.0) >= _TURN_SECONDS or sum(self._used.values()) >= _TURN_SECONDS_ALL

    @contextmanager
    def measured(self, tenant: str | None) -> Iterator[None]:
        """Adds what happens in the context to what an organisation has taken."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self._add(tenant, time.perf_counter() - began)

    def _add(self, tenant: str | None, seconds: float) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # nobody waits
            return
        if self._loop is not loop:
            self._loop = loop
            self._used.clear()
            loop.call_soon(self._next)
        self._used[tenant] = self._used.get(tenant, 0.0) + seconds

    def _next(self) -> None:
        self._loop = None
