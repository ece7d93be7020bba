"""The port to whatever keeps events: the engine in a pod, memory on one's own desk and in tests."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

from tieline.errors import TielineError
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


class RunTakenOver(BaseException):
    """Ends a run that another pod may have begun with meanwhile: it must not record anything."""


@dataclass(frozen=True)
class StepsClaim:
    """The right of one attempt to save steps of its run. It ends when another attempt claims them."""

    number: int
    any_kept: bool
    """Whether something may be kept for the run already: results of steps, attempts, or that it has ended."""


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

    async def wait(self, metadata: EventMetadata, until: float) -> bool:
        """Hand it out again with ``metadata`` at a time (seconds since 1970).

        False where somebody has cancelled its run meanwhile: then it is done.
        """

    async def bury(self, metadata: EventMetadata, error: str) -> None:
        """Keep a dead letter of it; ``done`` comes after that. Raises QueueFullError where there is no room."""

    async def set_aside(self, metadata: EventMetadata, until: float) -> bool:
        """As ``wait``, for an event that is not run any more: its key goes on without it."""

    async def release(self) -> None:
        """Let go of an event that could not be settled: after a while it is handed out as it was. Raises nothing."""

    async def hand_back(self) -> None:
        """Let go of an event that this process has settled after it was handed out again.

        Raises EventsUnavailableError.
        """


DeliveryHandler = Callable[[Delivery], Coroutine[Any, Any, None]]
"""Runs a delivery and calls one of its methods; raises nothing but CancelledError."""


class EventQueue(Protocol):
    """Keeps events until they have run, results of steps until their run has ended, and the run history."""

    async def publish(self, metadata: EventMetadata, payload: bytes, *, until: float | None = None) -> bool:
        """Store an event, for a time (seconds since 1970) or for now; returns once it cannot get lost.

        False for an event whose ``event_id`` the queue knows already. Raises EventsUnavailableError.
        """

    async def requeue(self, metadata: EventMetadata, payload: bytes) -> None:
        """Store an event that was handed out behind those with its key, which it had not told before.

        Raises EventsUnavailableError.
        """

    async def step_result(self, run: str, name: str, occurrence: int, *, claim: StepsClaim) -> bytes | None:
        """What ``save_step`` kept before the claim; None where there is nothing, and never will be of others.

        Raises EventsUnavailableError, and RunTakenOver where there is nothing and the run has ended.
        """

    async def claim_steps(self, run: str, *, any_kept: bool) -> StepsClaim:
        """Let one attempt alone save steps of the run from now on. What others have saved before can be read then.

        Where ``any_kept`` is false the queue looks: an engine that was killed may hand out an event as if for the first
        time. Raises EventsUnavailableError.
        """

    async def save_step(
        self, run: str, name: str, occurrence: int, content: bytes, *, claim: StepsClaim
    ) -> None:
        """Keep a step's result.

        Raises EventsUnavailableError, and RunTakenOver where another attempt has claimed the steps.
        """

    async def forget_steps(self, run: str) -> None:
        """Let go of the results of a run that has ended, and remember for a while that it has.

        Raises EventsUnavailableError.
        """

    async def claim_end(self, run: str, content: bytes) -> bytes | None:
        """Remember for a while how a run has ended. None where this is its first end, else what ``end_of`` returns.

        Raises EventsUnavailableError.
        """

    async def end_of(self, run: str) -> bytes | None:
        """What the run's first end was claimed with, empty where that is not kept; None where it has not ended.

        Raises EventsUnavailableError.
        """

    async def knows_delivery(self, key_hash: str) -> bool:
        """Whether ``remember_delivery`` was called for it lately, by any pod. Raises EventsUnavailableError."""

    async def remember_delivery(self, key_hash: str, seconds: float) -> None:
        """Know for a time that a sender's request was accepted. Raises EventsUnavailableError."""

    async def add_history(self, content: bytes) -> None:
        """Add records to the run history (``tieline_protocol.run_records``). Raises EventsUnavailableError."""


class NoEvents:
    """Where there is no engine."""

    async def publish(self, metadata: EventMetadata, payload: bytes, *, until: float | None = None) -> bool:
        """Raises EventsUnavailableError."""
        raise EventsUnavailableError(
            "Events need the event engine, which this installation does not have (TIELINE_ENGINE_URL); see "
            "docs/install.md"
        )

    async def requeue(self, metadata: EventMetadata, payload: bytes) -> None:
        """See ``step_result``."""

    async def step_result(self, run: str, name: str, occurrence: int, *, claim: StepsClaim) -> bytes | None:
        """Nothing runs here that could have steps."""
        return None

    async def claim_steps(self, run: str, *, any_kept: bool) -> StepsClaim:
        """See ``step_result``."""
        return StepsClaim(0, any_kept)

    async def save_step(
        self, run: str, name: str, occurrence: int, content: bytes, *, claim: StepsClaim
    ) -> None:
        """See ``step_result``."""

    async def forget_steps(self, run: str) -> None:
        """See ``step_result``."""

    async def claim_end(self, run: str, content: bytes) -> bytes | None:
        """See ``step_result``."""
        return None

    async def end_of(self, run: str) -> bytes | None:
        """See ``step_result``."""
        return None

    async def knows_delivery(self, key_hash: str) -> bool:
        """Nothing is shared between pods here."""
        return False

    async def remember_delivery(self, key_hash: str, seconds: float) -> None:
        """See ``knows_delivery``."""

    async def add_history(self, content: bytes) -> None:
        """See ``step_result``."""
