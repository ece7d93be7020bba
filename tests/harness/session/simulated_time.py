"""An event loop whose time passes only while nothing is left to do, so that minutes of waiting are exact and short."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Selector(selectors.SelectSelector):
    """Goes to the next timer at once. Nothing comes from outside."""

    now = 1000.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.now += max(0.0, timeout or 0.0)
        return super().select(0)


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._simulated = _Selector()
        super().__init__(self._simulated)
        # Else timers that are due within the resolution of the real clock would be called too early.
        self._clock_resolution = 1e-9

    def time(self) -> float:
        return self._simulated.now


def in_simulated_time(work: Coroutine[Any, Any, T]) -> T:
    """The result of ``work``, which may wait for timers alone."""
    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(work)
