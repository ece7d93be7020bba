"""A quota of the stream of steps, for what runs do not depend on: ids of requests, and events for later waits."""

import asyncio
import logging
import time

from tieline.events.engine.connection import EngineConnection, RefusedByEngineError
from tieline.events.queue import EventsUnavailableError

logger = logging.getLogger("tieline.events")

_ASK_SECONDS = 10.0
_SHARE = 0.5
"""Of the stream: once this much is taken, the rest is for runs."""


class StreamQuota:
    """Whether more may be stored, by the size of the stream a few seconds ago."""

    def __init__(self, connection: EngineConnection) -> None:
        self._connection = connection
        self._asking: asyncio.Task[None] | None = None
        self._ask_at = 0.0
        self._asked = False
        self._has_room = True

    async def left(self) -> bool:
        """Whether there is room. Asks the engine at most every ten seconds; only the first one waits for the answer."""
        now = time.monotonic()
        if now >= self._ask_at and (self._asking is None or self._asking.done()):
            self._ask_at = now + _ASK_SECONDS
            self._asking = asyncio.create_task(self._ask())
        if not self._asked and self._asking is not None:
            await asyncio.shield(self._asking)
        return self._has_room

    async def _ask(self) -> None:
        try:
            info = await self._connection.api(f"STREAM.INFO.{self._connection.streams.runs}")
        except (EventsUnavailableError, RefusedByEngineError):
            # The engine itself refuses what there is no room for.
            return
        self._asked = True
        limit, stored = int(info["config"].get("max_bytes", 0)), int(info["state"]["bytes"])
        has_room = limit <= 0 or stored < limit * _SHARE
        if self._has_room and not has_room:
            logger.warning(
                "The steps of runs take %s of %s bytes. Requests are remembered by this pod alone: one that another "
                "pod has accepted may run again. Events are kept for five minutes for waits that begin later",
                f"{stored:,}",
                f"{limit:,}",
            )
        self._has_room = has_room
