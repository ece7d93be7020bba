"""Environments whose streams are not there yet: the operator makes them once the API connects to their account."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tieline_api.engine.errors import EngineUnavailableError, NoStreamError
from tieline_api.engine.requests import EngineRequests
from tieline_common.backoff import exponential, jitter
from tieline_protocol.event_streams import EventStreams

T = TypeVar("T")

WAIT_SECONDS = 5.0
_OTHERS_SECONDS = 2.0
"""The streams of an environment are made one after the other, the queue first."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 1.0


async def with_streams(
    environment: EngineRequests,
    streams: EventStreams,
    work: Callable[[], Awaitable[T]],
    *,
    seconds: float = WAIT_SECONDS,
) -> T:
    """What ``work`` returns, which stores something in an environment. It is repeated until the streams are there.

    Raises as ``work``: NoStreamError where the engine does not know the environment's account, and
    EngineUnavailableError where the streams do not come in time, since no operator works.
    """
    until, attempt, has_queue_since = time.monotonic() + seconds, 0, math.inf
    while True:
        try:
            return await work()
        except NoStreamError:
            if await environment.stream_info(streams.queue) is not None:
                now = time.monotonic()
                has_queue_since = min(has_queue_since, now)
                if now - has_queue_since > _OTHERS_SECONDS:
                    # Another stream's leader is away.
                    raise EngineUnavailableError from None
        if time.monotonic() > until:
            raise EngineUnavailableError(
                "The event engine does not have the queue of this environment yet: try again in a moment"
            )
        attempt += 1
        await asyncio.sleep(jitter(exponential(attempt, first=_FIRST_PAUSE, cap=_LONGEST_PAUSE)))
