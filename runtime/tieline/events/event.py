"""Events as integration code sees them, and the tasks that run them."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tieline.errors import TielineError
from tieline.events.batch import BatchRule
from tieline.events.debounce import DebounceRule
from tieline.events.retry import Reject, Retry
from tieline.events.throttle import ThrottleRule
from tieline_protocol.event_streams import hashed
from tieline_protocol.events import EventMetadata
from tieline_protocol.waits import WaitRule, value_text

MAX_KEY = 500
"""Characters. They take at most 12 bytes each in a header, of which the engine takes 64 KiB."""


class KeyTooLongError(TielineError, ValueError):
    """The payload has a key that is too long. The message names the field, and not its value."""

    def __init__(self, field: str) -> None:
        super().__init__(
            f"The field {field!r} has the event's key, and is longer than {MAX_KEY} characters: send a shorter one"
        )


@dataclass(frozen=True, kw_only=True)
class Event:
    """What a task is run for, or has waited for: its payload, and which attempt it is.

    >>> async def order_created(ctx: Context, event: Event) -> None:
    ...     if event.attempt > 1:
    ...         ctx.log.warning("Tried again", order=event.payload["id"], attempt=event.attempt)
    """

    id: str
    """What the publisher gave as ``id``, or else the run's id."""
    run_id: str
    """The run's id, the same in all attempts: a key by which other systems recognise a repeated request."""
    task: str
    payload: Any
    """JSON data."""
    key: str | None = None
    """Events with the same key run one at a time, in order."""
    attempt: int = 1
    """1 for the first."""
    queued_at: datetime
    """When the platform accepted it."""
    replay_of: str | None = None
    """The run that this one repeats, if it is a replay."""


def parsed_payload(payload: bytes) -> Any:
    """A stored payload. Raises Reject where it is not JSON."""
    try:
        return json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise Reject(f"The payload is not JSON: {error}") from None


def event_of(metadata: EventMetadata, payload: bytes, *, attempt: int = 1) -> Event:
    """A stored event as code sees it. Raises Reject for a payload that is not JSON."""
    return event_with(metadata, parsed_payload(payload), attempt=attempt)


def event_with(metadata: EventMetadata, payload: Any, *, attempt: int) -> Event:
    """An event as code sees it, of JSON data."""
    return Event(
        id=metadata.event_id or metadata.run,
        run_id=metadata.run,
        task=metadata.task,
        payload=payload,
        key=metadata.key,
        attempt=attempt,
        queued_at=datetime.fromtimestamp(metadata.queued_at, UTC),
        replay_of=metadata.replay_of,
    )


@dataclass(frozen=True, kw_only=True)
class EventTask:
    """A function that is run for events."""

    name: str
    handler: Callable[..., Any]
    is_async: bool
    arguments: int
    """How many of (context, event) the function takes: 0, 1 or 2."""
    key: str | None = None
    """The field of the payload that has an event's key; dots lead into objects."""
    shared_key: bool = False
    """Whether its events wait for those of other tasks and users with the same key that share it, too."""
    retry: Retry = field(default_factory=Retry)
    timeout: float | None = None
    """Seconds; None is the pod's setting."""
    cancel_on: WaitRule | None = None
    """The events that cancel its runs."""
    debounce: DebounceRule | None = None
    """How bursts of its events are run once."""
    throttle: ThrottleRule | None = None
    """How often its runs start."""
    batch: BatchRule | None = None
    """How its events are run together: the function takes a list of them."""
    priority: int = 0
    """Which of the events that wait for pods go first (``tieline.execution.priorities``)."""

    def key_of(self, payload: Any) -> str | None:
        """The key of an event with this payload; None where it has none. Raises KeyTooLongError."""
        key = key_in(payload, self.key)
        if self.key is not None and key is not None and len(key) > MAX_KEY:
            raise KeyTooLongError(self.key)
        return key

    def debounce_index(self, payload: Any, user: str | None) -> str | None:
        """The index at which its events supersede each other; None for an event that is not debounced."""
        if self.debounce is None:
            return None
        field = self.debounce.key
        value = "" if field is None else key_in(payload, field)
        return None if value is None else hashed(json.dumps(["debounce", self.name, user, field, value]))

    def throttle_index(self, payload: Any) -> str:
        """The limit at which a run of it counts. Those without the field of the limit's key have one together."""
        field = None if self.throttle is None else self.throttle.key
        return hashed(json.dumps(["throttle", self.name, field, key_in(payload, field)]))


def key_in(payload: Any, field: str | None) -> str | None:
    """The key that a field of the payload has (``value_text``), of any length; None where there is none.

    >>> key_in({"customer": {"id": 7}}, "customer.id")
    '7'
    """
    if field is None:
        return None
    found = payload
    for name in field.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return value_text(found)
