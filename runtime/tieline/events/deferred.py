"""The queue of a pod that may do without the event engine: its client takes memory, and a connection even more."""

import asyncio

from tieline.events.queue import EventQueue, EventsUnavailableError, NoEvents
from tieline.events.run_store import RunStore
from tieline.events.wait_store import WaitStore
from tieline_protocol.events import EventMetadata

_WAIT_SECONDS = 2.0


class DeferredQueue:
    """See EventQueue. Passes everything on to the queue of ``open``, once the engine is used."""

    def __init__(self) -> None:
        self.target: EventQueue = _NotYet()
        self._opened = asyncio.Event()

    def open(self, target: EventQueue) -> None:
        """Use the engine's queue from now on."""
        self.target = target
        self._opened.set()

    @property
    def runs(self) -> RunStore:
        """See EventQueue."""
        return self.target.runs

    @property
    def waits(self) -> WaitStore:
        """See EventQueue."""
        return self.target.waits

    async def publish(self, metadata: EventMetadata, payload: bytes, *, until: float | None = None) -> bool:
        """See EventQueue."""
        return await self.target.publish(metadata, payload, until=until)

    async def requeue(self, metadata: EventMetadata, payload: bytes) -> None:
        """See EventQueue."""
        await self.target.requeue(metadata, payload)

    async def is_stored_for_later(self, run: str, *, besides: tuple[str, int]) -> bool:
        """See EventQueue."""
        return await self.target.is_stored_for_later(run, besides=besides)

    async def has_run(self, run: str) -> bool:
        """See EventQueue."""
        return await self.target.has_run(run)

    async def knows_delivery(self, key_hash: str) -> bool:
        """See EventQueue."""
        return await self.target.knows_delivery(key_hash)

    async def remember_delivery(self, key_hash: str, seconds: float) -> None:
        """See EventQueue."""
        await self.target.remember_delivery(key_hash, seconds)

    async def add_history(self, content: bytes) -> None:
        """See EventQueue. Records of direct runs come before their pod has loaded the engine's client."""
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                await self._opened.wait()
        except TimeoutError:
            raise EventsUnavailableError("The pod does not use the event engine yet") from None
        await self.target.add_history(content)


class _NotYet(NoEvents):
    """While the pod does not use the engine: its code has no events, and it remembers deliveries alone."""

    async def publish(self, metadata: EventMetadata, payload: bytes, *, until: float | None = None) -> bool:
        """Raises EventsUnavailableError."""
        raise EventsUnavailableError("The code of this pod has no events")
