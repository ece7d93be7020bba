"""The port to whatever keeps events: the engine in a pod, memory on your own machine and in tests."""

from collections.abc import Callable, Collection, Coroutine
from typing import Any, Protocol

from tieline.errors import TielineError
from tieline.events.memory_runs import MemoryRuns
from tieline.events.memory_waits import MemoryWaits
from tieline.events.run_store import RunStore
from tieline.events.wait_store import OpenWait, WaitStore
from tieline_protocol.events import EventMetadata


class EventsUnavailableError(TielineError):
    """The event could not be stored: the engine is away, full, or not installed. Nothing was accepted.

    >>> async def order(ctx: Context, request: Request) -> Response:
    ...     try:
    ...         await ctx.publish("order.created", await request.json())
    ...     except EventsUnavailableError:
    ...         return Response(status=503, headers={"Retry-After": "30"})
    ...     return Response(status=202)
    >>> run(order, json={"id": "A-1"}).status
    202
    """


class QueueFullError(EventsUnavailableError):
    """The environment has as many events queued as it may, or the engine refuses to store for another reason."""


class MessageTooLargeError(EventsUnavailableError):
    """The engine refuses this message alone: it is, or its headers are, too large."""


class EventTooLargeError(TielineError):
    """The payload or a step's result is larger than the platform keeps; store it elsewhere and pass its name.

    >>> issubclass(EventTooLargeError, TielineError)
    True
    """


class Delivery(Protocol):
    """An event that this process is to run, and to say what became of it. It is this process's while ``held``."""

    metadata: EventMetadata
    payload: bytes

    @property
    def held(self) -> bool:
        """Whether nobody else has it. When the engine was out of reach for too long, somebody may."""

    @property
    def message(self) -> tuple[str, int]:
        """What the queue keeps it in: the same when it is handed out again, another one after ``wait``."""

    async def interruptions(self) -> int:
        """How many pods died with it since an attempt last ended by itself. Raises EventsUnavailableError."""

    async def begins(self, interruptions: int) -> None:
        """It is begun now, after so many pods died with it: this one counts too, if it dies.

        Raises EventsUnavailableError.
        """

    async def done(self) -> None:
        """It has run to its end."""

    @property
    def key_hash(self) -> str | None:
        """The hash of the key in whose order it is delivered; None for an event without a key."""

    async def wait(self, metadata: EventMetadata, until: float, waits: Collection[OpenWait] = ()) -> bool:
        """Hand it out again with ``metadata`` at a time (seconds since 1970), or once something ends one of ``waits``.

        False where somebody has cancelled its run meanwhile: then it is done.
        """

    async def dead_letter(self, metadata: EventMetadata, error: str) -> None:
        """Keep a dead letter of it; ``done`` comes after that. Raises QueueFullError where there is no room."""

    async def set_aside(self, metadata: EventMetadata, until: float) -> bool:
        """As ``wait``, for an event that is not run any more: its key goes on without it."""

    async def release(self) -> None:
        """Let go of an event that could not be settled: after a while it is handed out as it was. Raises nothing."""

    async def ack_duplicate(self) -> None:
        """Let go of an event that this process has settled after it was handed out again.

        Raises EventsUnavailableError.
        """


DeliveryHandler = Callable[[Delivery], Coroutine[Any, Any, None]]
"""Runs a delivery and calls one of its methods; raises nothing but CancelledError."""


class EventQueue(Protocol):
    """Keeps events until they have run, and the run history."""

    @property
    def runs(self) -> RunStore:
        """What is kept of the events that are tried again."""

    @property
    def waits(self) -> WaitStore:
        """The stored waits."""

    async def publish(self, metadata: EventMetadata, payload: bytes, *, until: float | None = None) -> bool:
        """Store an event, for a time (seconds since 1970) or for now; returns once it cannot get lost.

        False for an event whose ``event_id`` the queue knows already. Raises EventsUnavailableError.
        """

    async def requeue(self, metadata: EventMetadata, payload: bytes) -> None:
        """Store what was accepted before, whatever the limits of new events: an event that was handed out behind those
        with its key, which it had not returned before, or a batch of events. Raises EventsUnavailableError.
        """

    async def has_run(self, run: str) -> bool:
        """Whether an event of this run is stored, so that it has not ended. Raises EventsUnavailableError."""

    async def is_stored_for_later(self, run: str, *, besides: tuple[str, int]) -> bool:
        """Whether an attempt of this run waits for its time, or its time has come. Raises EventsUnavailableError.

        The message ``besides`` (``Delivery.message``) does not count: one that is handed out is stored, too.
        """

    async def knows_delivery(self, key_hash: str) -> bool:
        """Whether ``remember_delivery`` was called for it lately, by any pod. Raises EventsUnavailableError."""

    async def remember_delivery(self, key_hash: str, seconds: float) -> None:
        """Know for a time that a sender's request was accepted. Raises EventsUnavailableError."""

    async def add_history(self, content: bytes) -> None:
        """Add records to the run history (``tieline_protocol.run_records``). Raises EventsUnavailableError."""


class NoEvents:
    """Where nothing keeps events."""

    @property
    def runs(self) -> RunStore:
        """Nothing is run that could have steps."""
        return MemoryRuns()

    @property
    def waits(self) -> WaitStore:
        """Nothing is run that could wait."""
        return MemoryWaits()

    async def publish(self, metadata: EventMetadata, payload: bytes, *, until: float | None = None) -> bool:
        """Raises EventsUnavailableError."""
        raise EventsUnavailableError("Nothing keeps events here")

    async def requeue(self, metadata: EventMetadata, payload: bytes) -> None:
        """See ``publish``; there is nothing to hand out."""

    async def has_run(self, run: str) -> bool:
        """Nothing is stored here."""
        return False

    async def is_stored_for_later(self, run: str, *, besides: tuple[str, int]) -> bool:
        """Nothing is stored here."""
        return False

    async def knows_delivery(self, key_hash: str) -> bool:
        """Nothing is shared between pods here."""
        return False

    async def remember_delivery(self, key_hash: str, seconds: float) -> None:
        """See ``knows_delivery``."""

    async def add_history(self, content: bytes) -> None:
        """Nobody reads it."""
