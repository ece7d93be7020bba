"""The streams of an environment that is new, or whose code has events for the first time."""

import asyncio
import logging

from tieline.events.engine.connection import EngineConnection, RefusedByEngineError
from tieline.events.queue import EventsUnavailableError

logger = logging.getLogger("tieline.events")

_CONNECT_SECONDS = 2.0
_STREAMS_SECONDS = 10.0
_ASK_SECONDS = 0.2


class NewStreams:
    """Waits until there are streams: the operator makes them when a pod connects. Run ``wait`` as a task.

    A pod is not ready before, so that it refuses no request. Neither an engine nor an operator that is away holds up a
    deploy for longer than some seconds.
    """

    def __init__(
        self,
        connection: EngineConnection,
        *,
        connect_seconds: float = _CONNECT_SECONDS,
        streams_seconds: float = _STREAMS_SECONDS,
    ) -> None:
        self._connection = connection
        self._connect_seconds = connect_seconds
        self._streams_seconds = streams_seconds
        self.over = asyncio.Event()
        """Whether they are there, or are not waited for any more."""

    async def wait(self) -> None:
        """Returns once ``over`` is set."""
        try:
            async with asyncio.timeout(self._connect_seconds):
                await self._connection.connected.wait()
            async with asyncio.timeout(self._streams_seconds):
                while not await self._are_there():  # noqa: ASYNC110  (nobody tells)
                    await asyncio.sleep(_ASK_SECONDS)
        except TimeoutError:
            if self._connection.connected.is_set():
                logger.warning("The event engine does not have the streams of this environment yet")
        finally:
            self.over.set()

    async def _are_there(self) -> bool:
        # The operator makes the queue last.
        try:
            await self._connection.api(f"STREAM.INFO.{self._connection.streams.queue}")
        except (EventsUnavailableError, RefusedByEngineError):
            return False
        return True
