"""Waiting for what happens in the background."""

import asyncio
from collections.abc import Callable


async def eventually(condition: Callable[[], object], *, within: float = 3.0) -> None:
    """Returns as soon as ``condition`` holds; fails after ``within`` seconds."""
    try:
        async with asyncio.timeout(within):
            while not condition():  # noqa: ASYNC110  (what is waited for has no event)
                await asyncio.sleep(0.002)
    except TimeoutError:
        raise AssertionError("It did not happen in time") from None
