"""Publishing: checks what code publishes, and stores it."""

import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

from tieline.errors import TielineError
from tieline.events.delivery_memory import DeliveryMemory
from tieline.events.event import MAX_KEY, EventTask
from tieline.events.history import HistoryWriter
from tieline.events.queue import EventQueue, EventTooLargeError
from tieline.events.retry import Retry, seconds_of
from tieline.execution.ulids import new_ulid
from tieline.plain_json import encode
from tieline_protocol.event_streams import MAX_EVENT_BYTES
from tieline_protocol.events import EventMetadata
from tieline_protocol.run_records import RunRecord
from tieline_protocol.waits import WaitRule, payload_size_problem

_MAX_ID = 200
_ENDS_WAITS = Retry()
"""Of an event without a task, for which runs wait."""


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

    def __init__(self, task: str, known: Collection[str]) -> None:
        names = ", ".join(repr(name) for name in sorted(known)) or "none"
        super().__init__(
            f"There is no task {task!r} for events (there are: {names}); write `@integration.event({task!r})` on the "
            f"function that is to run, or `integration.waits_for({task!r})` where runs wait for it"
        )


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """An event that was checked, and is not stored yet."""

    metadata: EventMetadata
    content: bytes
    attempts: int
    until: float | None
    """When it is to run; None for now."""


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
        waits: Mapping[str, Sequence[WaitRule]] = MappingProxyType({}),
    ) -> None:
        """``version`` is the name of the ProjectVersion that publishes. ``waits`` has what the code waits for."""
        self._queue = queue
        self.deliveries = DeliveryMemory(queue, clock=clock)
        """The requests of senders that were accepted."""
        self._history = history
        self._version = version
        self.tasks = tasks
        self.waits = waits
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
        prepared = self.prepare(
            task, payload, key=key, id=id, delay=delay, at=at, user=user, traceparent=traceparent, run=run
        )
        stored = await self.store(
            prepared.metadata, prepared.content, attempts=prepared.attempts, until=prepared.until
        )
        return prepared.metadata.run if stored else None

    def prepare(
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
    ) -> Prepared:
        """Checks an event. Raises what ``Context.publish`` raises, except where it cannot be stored."""
        known = self.tasks.get(task)
        if known is None and task not in self.waits:
            raise UnknownTaskError(task, {*self.tasks, *self.waits})
        content = encode(payload).encode()
        if len(content) > MAX_EVENT_BYTES:
            raise EventTooLargeError(
                f"The payload for {task!r} has {len(content):,} bytes; at most {MAX_EVENT_BYTES:,} are kept: store "
                "it elsewhere, and publish where it is"
            )
        if task in self.waits and (problem := payload_size_problem(task, len(content))):
            raise EventTooLargeError(problem)
        now = self._clock()
        if key is None and known is not None:
            key = known.key_of(json.loads(content) if known.key else None)
        metadata = EventMetadata(
            run=run or new_ulid(),
            kind="event",
            task=task,
            queued_at=now,
            user=_checked("user", user, MAX_KEY),
            key=_checked("key", key, MAX_KEY),
            shared_key=known is not None and known.shared_key,
            event_id=_checked("id", id, _MAX_ID),
            traceparent=traceparent,
            priority=known.priority if known is not None else 0,
        )
        return Prepared(
            metadata=metadata,
            content=content,
            attempts=(known.retry if known is not None else _ENDS_WAITS).attempts,
            until=seconds_of(delay, at, now),
        )

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

    async def store_batch(self, metadata: EventMetadata, content: bytes, *, attempts: int) -> None:
        """Stores a batch of events, and has the run history say so. Again with the same metadata, it is stored once.

        The events were accepted, so no limit of the environment refuses it. Raises EventsUnavailableError.
        """
        await self._queue.requeue(metadata, content)
        if self._history is not None:
            self._history.add(self._queued(metadata, attempts, None))

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
            shared_key=metadata.shared_key,
            event_id=metadata.event_id,
            batch=metadata.batch,
            next_attempt_at=until,
            waits_for=None if until is None else "delay",
            replay_of=metadata.replay_of,
            parent=metadata.parent.run if metadata.parent else None,
        )


def _checked(name: str, value: object, longest: int) -> str | None:
    if value is None:
        return None
    text = str(value)
    if not 1 <= len(text) <= longest:
        raise ValueError(f"The {name} of an event is a text of 1 to {longest} characters")
    return text
