"""Publishing: checks what code publishes, and stores it."""

import json
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from tieline.errors import TielineError
from tieline.events.delivery_memory import DeliveryMemory
from tieline.events.event import EventTask
from tieline.events.history import HistoryWriter
from tieline.events.queue import EventQueue, EventTooLargeError
from tieline.events.retry import seconds_of
from tieline.execution.ulids import new_ulid
from tieline.plain_json import encode
from tieline_protocol.event_streams import MAX_EVENT_BYTES
from tieline_protocol.events import EventMetadata
from tieline_protocol.run_records import RunRecord

_MAX_ID = 200
MAX_KEY = 500


class UnknownTaskError(TielineError):
    """The code publishes an event for a task that it does not have.

    >>> async def order(ctx: Context, request: Request) -> str:
    ...     try:
    ...         await ctx.publish("order.craeted", {})
    ...     except UnknownTaskError as error:
    ...         return str(error)
    >>> run(order, json={})
    "There is no task 'order.craeted' for events (there are: 'order.created'); write …"
    """

    def __init__(self, task: str, known: Mapping[str, EventTask]) -> None:
        names = ", ".join(repr(name) for name in sorted(known)) or "none"
        super().__init__(
            f"There is no task {task!r} for events (there are: {names}); write `@integration.event({task!r})` on the "
            "function that is to run"
        )


class Publisher:
    """Publishes events for the tasks of an environment."""

    def __init__(
        self,
        queue: EventQueue,
        tasks: Mapping[str, EventTask],
        *,
        history: HistoryWriter | None = None,
        version: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``version`` is the name of the ProjectVersion that publishes."""
        self._queue = queue
        self.deliveries = DeliveryMemory(queue, clock=clock)
        """The requests of senders that were accepted."""
        self._history = history
        self._version = version
        self._tasks = tasks
        self._clock = clock

    async def publish(
        self,
        task: str,
        payload: Any,
        *,
        key: str | None = None,
        id: str | None = None,
        delay: float | timedelta | None = None,
        at: datetime | None = None,
        user: str | None = None,
        traceparent: str | None = None,
        run: str | None = None,
    ) -> str | None:
        """Stores an event and returns its run's id, ``run`` or a new one; see ``Context.publish``."""
        known = self._tasks.get(task)
        if known is None:
            raise UnknownTaskError(task, self._tasks)
        content = encode(payload).encode()
        if len(content) > MAX_EVENT_BYTES:
            raise EventTooLargeError(
                f"The payload for {task!r} has {len(content):,} bytes; at most {MAX_EVENT_BYTES:,} are kept: store "
                "it elsewhere, and publish where it is"
            )
        now = self._clock()
        if key is None:
            key = known.key_of(json.loads(content) if known.key else None)
        metadata = EventMetadata(
            run=run or new_ulid(),
            kind="event",
            task=task,
            queued_at=now,
            user=_checked("user", user, MAX_KEY),
            key=_checked("key", key, MAX_KEY),
            event_id=_checked("id", id, _MAX_ID),
            traceparent=traceparent,
        )
        stored = await self.store(
            metadata, content, attempts=known.retry.attempts, until=seconds_of(delay, at, now)
        )
        return metadata.run if stored else None

    async def store(
        self, metadata: EventMetadata, content: bytes, *, attempts: int, until: float | None = None
    ) -> bool:
        """Stores an event, and has the run history say so; False for one that is stored already.

        Raises EventsUnavailableError.
        """
        stored = await self._queue.publish(metadata, content, until=until)
        if stored and self._history is not None:
            self._history.add(self._queued(metadata, attempts, until))
        return stored

    def _queued(self, metadata: EventMetadata, attempts: int, until: float | None) -> RunRecord:
        return RunRecord(
            id=metadata.run,
            kind=metadata.kind,
            task=metadata.task,
            status="queued",
            attempt=0,
            attempts=attempts,
            queued_at=metadata.queued_at,
            at=metadata.queued_at,
            user=metadata.user,
            version=self._version,
            key=metadata.key,
            event_id=metadata.event_id,
            next_attempt_at=until,
            replay_of=metadata.replay_of,
        )


def _checked(name: str, value: object, longest: int) -> str | None:
    if value is None:
        return None
    text = str(value)
    if not 1 <= len(text) <= longest:
        raise ValueError(f"The {name} of an event is a text of 1 to {longest} characters")
    return text
