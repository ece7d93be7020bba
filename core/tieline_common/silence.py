"""Waiting until nobody calls any more."""

import asyncio
from collections.abc import Callable

_TICK_SECONDS = 0.1


async def until_silent(calls: Callable[[], int], *, seconds: float, longest: float) -> None:
    """Returns when ``calls`` has counted none for ``seconds``, or after ``longest`` seconds.

    Time in which this process got no processor is no silence: what came meanwhile waits in its sockets, and has not
    been counted yet. So each tick counts for no more than twice its length.
    """
    clock = asyncio.get_running_loop().time
    began, quiet, counted = clock(), 0.0, calls()
    while quiet < seconds and clock() - began < longest:
        before = clock()
        await asyncio.sleep(min(_TICK_SECONDS, seconds - quiet, max(0.0, began + longest - before)))
        if calls() != counted:
            quiet, counted = 0.0, calls()
        else:
            quiet += min(clock() - before, 2 * _TICK_SECONDS)
