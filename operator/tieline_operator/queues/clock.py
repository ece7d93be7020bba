"""The clock of the queues, which tests replace."""

import asyncio
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A call that is due later."""

    def cancel(self) -> None:
        """Drops the call."""


class Clock(Protocol):
    """Time and timers."""

    def time(self) -> float:
        """Seconds since an arbitrary moment."""

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Calls ``callback`` after some seconds."""


class LoopClock:
    """The clock of the running event loop."""

    def time(self) -> float:
        return asyncio.get_running_loop().time()

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(seconds, callback)
