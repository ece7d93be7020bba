"""The bound of what waits for a time. JetStream cannot keep it: the stream would drop its oldest messages."""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from tieline.events.engine.connection import EngineConnection, RefusedByEngineError
from tieline.events.queue import EventsUnavailableError, QueueFullError
from tieline_engine.streams import events_quota, is_waiting_full, publishers_limit

_ASK_SECONDS = 10.0


class WaitingLimit:
    """Refuses new events while the stream ``later`` holds as much as its metadata allows.

    Events without a delay are refused as well, since their retries would wait there. Accepted ones never are.
    """

    def __init__(self, connection: EngineConnection, clock: Callable[[], float] = time.monotonic) -> None:
        self._connection = connection
        self._clock = clock
        self._asking: asyncio.Task[None] | None = None
        self._ask_at = 0.0
        self._known_until = 0.0
        self._refusal: str | None = None
        self.events_per_second = 0
        """The organisation's quota, which is kept beside the bound; 0 where there is none."""

    async def check(self) -> None:
        """Raises QueueFullError. Asks the engine at most every ten seconds, and not while nobody publishes.

        Whoever publishes waits for the answer only where the last one is old.
        """
        now = self._clock()
        if now >= self._ask_at and (self._asking is None or self._asking.done()):
            self._ask_at = now + _ASK_SECONDS
            self._asking = asyncio.create_task(self._ask())
        if now >= self._known_until and self._asking is not None:
            await asyncio.shield(self._asking)
        if self._refusal is not None:
            raise QueueFullError(self._refusal)

    async def _ask(self) -> None:
        stream = self._connection.streams.later
        try:
            info = await self._connection.api(f"STREAM.INFO.{stream}")
        except (EventsUnavailableError, RefusedByEngineError):
            # Whether the event can be stored, the engine says when it is to store it.
            if self._clock() >= self._known_until:
                self._refusal = None
            return
        self._known_until = self._clock() + 2 * _ASK_SECONDS
        self.events_per_second = events_quota(info["config"])
        self._refusal = _refusal(info) if is_waiting_full(info) else None


def _refusal(info: Mapping[str, Any]) -> str:
    stored, limit = info["state"]["bytes"], publishers_limit(info["config"])
    return (
        f"This environment has events of {stored:,} bytes that wait for a time, a retry or the end of a sleep, and may "
        f"have {limit:,}: it accepts new ones once some of them have run"
    )
