"""Which requests of senders were accepted, so that a repeated one is noticed.

A pod remembers its own in memory. Where its code uses the event engine, all pods of the environment share a memory
there.
"""

import time
from collections.abc import Callable

from tieline.events.queue import EventQueue
from tieline_protocol.event_streams import hashed

MAX_REMEMBERED = 10_000


class DeliveryMemory:
    """Remembers ids of senders for a time."""

    def __init__(self, queue: EventQueue, *, clock: Callable[[], float] = time.time) -> None:
        self._queue = queue
        self._clock = clock
        self._expiry: dict[str, float] = {}
        """By id, oldest first."""

    async def knows(self, identifier: str) -> bool:
        """Whether it was remembered, and not too long ago. Raises EventsUnavailableError."""
        if self._expiry.get(identifier, 0) > self._clock():
            return True
        return await self._queue.knows_delivery(identifier)

    async def remember(self, identifier: str, seconds: float) -> None:
        """Know it for ``seconds``. Raises EventsUnavailableError; this pod knows it nevertheless."""
        now = self._clock()
        self._expiry.pop(identifier, None)
        self._expiry[identifier] = now + seconds
        while len(self._expiry) > MAX_REMEMBERED or next(iter(self._expiry.values())) <= now:
            del self._expiry[next(iter(self._expiry))]
            if not self._expiry:
                break
        await self._queue.remember_delivery(identifier, seconds)


def delivery_key(task: str, user: str | None, identifier: str) -> str:
    """What tells one delivery from others of the environment."""
    return hashed("\0".join((task, user or "", identifier)))
