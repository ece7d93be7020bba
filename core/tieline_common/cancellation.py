"""Ends tasks and threads for certain."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_AGAIN_SECONDS = 3.0
"""Long enough for what tasks do at their ends."""


async def cancel_and_wait(*tasks: "asyncio.Task[object] | None") -> None:
    """Cancel the tasks, and return once all have ended; their exceptions are dropped. None stands for no task.

    A task is cancelled again until it ends: ``asyncio.wait_for`` of Python 3.11, which libraries use, drops a
    cancellation that arrives as its awaitable ends.
    """
    waiting = [task for task in tasks if task is not None]
    ended = list(waiting)
    while waiting:
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting, timeout=_AGAIN_SECONDS)
        waiting = [task for task in waiting if not task.done()]
    for task in ended:
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio logs nothing


async def finish_in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """``asyncio.to_thread`` whose cancellation waits for the thread: nothing goes on behind the caller."""
    thread = asyncio.ensure_future(asyncio.to_thread(work, *args, **kwargs))
    try:
        return await asyncio.shield(thread)
    except asyncio.CancelledError:
        while not thread.done():
            with suppress(asyncio.CancelledError):  # cancelled again, it still waits
                await asyncio.wait({thread})
        if not thread.cancelled():
            thread.exception()  # retrieved, so that asyncio logs nothing
        raise
