"""Ends tasks for certain."""

import asyncio

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
