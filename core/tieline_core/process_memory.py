"""Memory of processes that run for months: what the garbage collector need not look at, and what goes back."""

import asyncio
import ctypes
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

_EVERY = 30.0


def freeze_gc() -> None:
    """Has the collector leave alone what is there by now: for when the caches have been filled.

    A full collection looks at every object, half a second for the caches of 2,000 projects, and nothing else happens
    meanwhile. What is in caches has no cycles: it goes when nobody refers to it any more, as before.
    """
    gc.collect()
    gc.freeze()


def trim_heap() -> None:
    """Returns freed memory to the kernel, where the C library can (glibc does); takes milliseconds.

    By itself glibc returns only what is at the end of its heap. Every TLS connection has a buffer of 256 KiB, and many
    answers are as large: they leave holes between what stays, which the next ones do not quite fit.
    """
    with suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


@asynccontextmanager
async def periodic_heap_trim() -> AsyncIterator[None]:
    """Within it, freed memory is returned every half a minute, beside the event loop."""
    tidying = asyncio.create_task(_trim_periodically(), name="tidying")
    try:
        yield
    finally:
        tidying.cancel()


async def _trim_periodically() -> None:
    while True:
        await asyncio.sleep(_EVERY)
        await asyncio.to_thread(trim_heap)
