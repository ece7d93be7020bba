"""Calls to the queue are retried while the event engine is away."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tieline.events.queue import EventsUnavailableError, MessageTooLargeError, QueueFullError
from tieline_common.backoff import exponential, jitter

T = TypeVar("T")

RETRY_SECONDS = 120.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 10.0


async def retried(call: Callable[[], Awaitable[T]], *, seconds: float = RETRY_SECONDS) -> T:
    """The result of a call to the queue, which is retried while the engine is away, for ``seconds`` at most.

    Raises EventsUnavailableError in the end. What the engine refuses is not retried.
    """
    began, attempt = time.monotonic(), 0
    while True:
        try:
            return await call()
        except (QueueFullError, MessageTooLargeError):
            raise
        except EventsUnavailableError:
            attempt += 1
            if time.monotonic() - began > seconds:
                raise
            await asyncio.sleep(jitter(exponential(attempt, first=_FIRST_PAUSE, cap=_LONGEST_PAUSE)))
