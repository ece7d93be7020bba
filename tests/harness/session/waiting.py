"""Waiting for what comes about by itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

PATIENCE = 180.0
"""Seconds for what comes within a moment on an idle machine: none is too slow or too busy for it."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 0.3
_NOT_YET = (OSError, AssertionError, LookupError)


def eventually(
    what: str,
    probe: Callable[[], T | None],
    *,
    within: float = PATIENCE,
    seen: Callable[[], object] | None = None,
) -> T:
    """The first true result of ``probe``; fails with ``what`` and the last result, or with what ``seen`` sees.

    A probe whose assertion, look-up or connection fails is asked again.
    """
    last: Any = None
    for pause in _pauses(within):
        try:
            found = probe()
        except _NOT_YET as error:
            last = error
        else:
            if found:
                return found
            last = found
        time.sleep(pause)
    raise AssertionError(_given_up(what, within, seen() if seen else last))


async def eventually_async(
    what: str,
    probe: Callable[[], Awaitable[T | None]],
    *,
    within: float = PATIENCE,
    seen: Callable[[], Awaitable[object]] | None = None,
) -> T:
    """``eventually`` for a probe that awaits."""
    last: Any = None
    for pause in _pauses(within):
        try:
            found = await probe()
        except _NOT_YET as error:
            last = error
        else:
            if found:
                return found
            last = found
        await asyncio.sleep(pause)
    raise AssertionError(_given_up(what, within, await seen() if seen else last))


async def until(condition: Callable[[], object], *, within: float = 30.0) -> None:
    """Returns as soon as ``condition`` holds, which is of this process and has no event."""
    try:
        async with asyncio.timeout(within):
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(0.002)
    except TimeoutError:
        raise AssertionError(f"It did not come about within {within:.0f} s") from None


def _pauses(within: float) -> Iterator[float]:
    """Short ones for what is there at once, longer ones so that waiting takes no processor from the awaited."""
    end = time.monotonic() + within
    pause = _FIRST_PAUSE
    while time.monotonic() < end:
        yield pause
        pause = min(2 * pause, _LONGEST_PAUSE)


def _given_up(what: str, within: float, last: object) -> str:
    return f"After {within:.0f} s: not {what}; last seen: {last!r}"
