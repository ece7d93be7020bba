"""Messages that this pod holds: the lease of each is renewed until it is acknowledged."""

import asyncio
import contextlib
import json
import time
from collections.abc import Callable

from nats.aio.msg import Msg

from tieline.events.engine.connection import EngineConnection
from tieline.events.queue import EventsUnavailableError
from tieline_common.backoff import exponential, jitter

_RENEWALS = 3
"""In the time of a lease."""
_MARGIN = 0.9
"""The part of a lease that is counted on: the engine's clock began to count later than ours, and may be faster."""
_FIRST_RETRY = 0.2
_LONGEST_RETRY = 5.0
_GIVE_UP_SECONDS = 120.0
_FIRST_RELEASE = 20.0
_LONGEST_RELEASE = 600.0


class Lease:
    """A message of a consumer, while this pod has it."""

    def __init__(
        self, connection: EngineConnection, message: Msg, clock: Callable[[], float], seconds: float
    ) -> None:
        self._connection = connection
        self._clock = clock
        self._seconds = seconds * _MARGIN
        # It may have been on its way for long: while this pod was paused, or cut off.
        self._until = connection.heard + self._seconds
        self.message = message
        self.slot_changed: Callable[[bool], None] = ignored
        """Called with whether what it is for runs now."""
        self._has_slot = False
        parts = message.reply.split(".")
        self.deliveries = int(parts[4])
        """How often the engine handed it out, this time included."""
        self.place = (parts[2], int(parts[5]))
        """The message's stream, and its number there."""
        self.engine_ahead = max(int(parts[7]) / 1e9 - time.time(), 0.0)
        """Seconds that the engine's clock is ahead of this pod's, as far as its time of the message tells."""

    @property
    def has_slot(self) -> bool:
        """Whether what it is for runs, and waits for nobody. Of a token that is the key's oldest event."""
        return self._has_slot

    @has_slot.setter
    def has_slot(self, value: bool) -> None:
        if value != self._has_slot:
            self._has_slot = value
            self.slot_changed(value)

    @property
    def held(self) -> bool:
        """Whether the engine has not handed it to somebody else."""
        return self._clock() < self._until

    async def renew(self) -> None:
        """Tell the engine that it is being worked on."""
        began = self._clock()
        try:
            await self._connection.request(self.message.reply, b"+WPI")
        except EventsUnavailableError:
            return
        if self.held:
            self._until = began + self._seconds

    async def acknowledge(self) -> None:
        """Have it deleted. While the engine is away it is tried again for a while; then it comes to somebody again."""
        began, attempt = self._clock(), 0
        while True:
            try:
                await self._connection.request(self.message.reply, b"+ACK")
            except EventsUnavailableError:
                attempt += 1
                if self._clock() - began > _GIVE_UP_SECONDS:
                    raise
                await asyncio.sleep(jitter(exponential(attempt, first=_FIRST_RETRY, cap=_LONGEST_RETRY)))
            else:
                return

    async def release(self) -> None:
        """Have it handed out again after a while, which is longer each time. If the engine is away, its lease ends."""
        if not self.held:
            return  # somebody else may have it
        seconds = jitter(exponential(self.deliveries, first=_FIRST_RELEASE, cap=_LONGEST_RELEASE))
        content = json.dumps({"delay": int(seconds * 1e9)})
        with contextlib.suppress(EventsUnavailableError):
            await self._connection.request(self.message.reply, f"-NAK {content}".encode())


class Leases:
    """All messages that this pod holds. Run ``run`` as a task."""

    def __init__(
        self, connection: EngineConnection, *, seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """``seconds`` is the consumers' ack wait."""
        self._connection = connection
        self.seconds = seconds
        """How long the engine waits for a renewal."""
        self._clock = clock
        self._held: set[Lease] = set()
        self.redelivered = 0
        """Events that came again, since whoever had them did not say what became of them."""

    def __len__(self) -> int:
        return len(self._held)

    def add(self, message: Msg) -> Lease:
        """A message that has come."""
        lease = Lease(self._connection, message, self._clock, self.seconds)
        self._held.add(lease)
        return lease

    def remove(self, lease: Lease) -> None:
        """It is acknowledged, or given up."""
        self._held.discard(lease)

    async def run(self) -> None:
        """Renew the leases, until cancelled."""
        while True:
            await asyncio.sleep(self.seconds / _RENEWALS)
            await asyncio.gather(*(lease.renew() for lease in self._held))
            if self._clock() - self._connection.heard > self.seconds / (2 * _RENEWALS):
                self._connection.ask()


def ignored(value: bool) -> None:
    """Nobody needs to know."""
