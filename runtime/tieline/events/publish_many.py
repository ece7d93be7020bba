"""Many events in one call: all are checked before the first is stored, and then stored side by side."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tieline.events.publisher import Prepared, Publisher
from tieline.events.queue import EventsUnavailableError, EventTooLargeError
from tieline_common.chains import in_chains

MAX_EVENTS = 1000
"""Of a call."""
MAX_BYTES = 8 * 1024 * 1024
"""Of the payloads of a call, together."""
_AT_ONCE = 16
"""Events on their way to the engine, which syncs each by itself: more are hardly faster."""


@dataclass(frozen=True)
class NewEvent:
    """An event for ``ctx.publish_many``; what it has is what ``ctx.publish`` takes.

    >>> NewEvent("order.created", {"id": "A-1"}, key="A-1").task
    'order.created'
    """

    task: str
    payload: Any
    key: str | None = None
    id: str | None = None
    delay: float | timedelta | None = None
    at: datetime | None = None
    user: str | None = None


class EventsNotStoredError(EventsUnavailableError):
    """Some events of ``ctx.publish_many`` were not stored: the engine is full or away. All others are stored.

    >>> issubclass(EventsNotStoredError, EventsUnavailableError)
    True
    """

    def __init__(self, run_ids: Sequence[str | None], failures: Mapping[int, EventsUnavailableError]) -> None:
        first = min(failures)
        super().__init__(
            f"{len(failures):,} of {len(run_ids):,} events were not stored; the first of them is event {first}: "
            f"{failures[first]}"
        )
        self.run_ids = run_ids
        """The runs of the events, by their places in the call; None for those that were not stored."""
        self.failures = failures
        """Why events were not stored, by their places in the call, from 0."""


def counted(events: Iterable[NewEvent]) -> list[NewEvent]:
    """The events of a call. Raises ValueError and TypeError."""
    found: list[NewEvent] = []
    for one in events:
        if not isinstance(one, NewEvent):
            raise TypeError(f"publish_many takes NewEvent objects, not a {type(one).__name__}")
        if len(found) == MAX_EVENTS:
            raise ValueError(f"publish_many takes at most {MAX_EVENTS:,} events; call it again for the rest")
        found.append(one)
    return found


def prepare_all(
    publisher: Publisher, events: Sequence[NewEvent], *, user: str | None, traceparent: str | None
) -> list[Prepared]:
    """Checks the events, and names the one that is refused. Raises what ``Publisher.prepare`` raises."""
    prepared: list[Prepared] = []
    size = 0
    for number, one in enumerate(events):
        try:
            found = publisher.prepare(
                one.task,
                one.payload,
                key=one.key,
                id=one.id,
                delay=one.delay,
                at=one.at,
                user=user if one.user is None else one.user,
                traceparent=traceparent,
            )
        except (EventTooLargeError, TypeError, ValueError) as error:
            # Of others, such as UnicodeEncodeError, the text is not all that they are made of.
            if type(error) in (EventTooLargeError, TypeError, ValueError):
                raise type(error)(f"Event {number} of {len(events)}: {error}") from None
            raise
        size += len(found.content)
        if size > MAX_BYTES:
            raise EventTooLargeError(
                f"The payloads of these {len(events):,} events have more than {MAX_BYTES:,} bytes together: publish "
                "them in several calls"
            )
        prepared.append(found)
    return prepared


async def store_all(
    publisher: Publisher, prepared: Sequence[Prepared]
) -> list[bool | EventsUnavailableError]:
    """For each event whether it was new, or why it is not stored. Those of a key are stored in their order."""

    async def store(one: Prepared) -> bool | EventsUnavailableError:
        try:
            return await publisher.store(one.metadata, one.content, attempts=one.attempts, until=one.until)
        except EventsUnavailableError as error:
            return error

    def key_of(one: Prepared) -> str | None:
        return one.metadata.key_hash if one.metadata.key is not None else None

    return await in_chains(prepared, store, chain=key_of, at_once=_AT_ONCE)
