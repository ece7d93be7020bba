"""The stored form of a batch of events: the payload of its run."""

import json
from collections.abc import Sequence
from typing import Any

from tieline.events.batch import MAX_SIZE
from tieline.events.event import Event, event_with, parsed_payload
from tieline.events.retry import Reject
from tieline_protocol.events import EventMetadata

_MARK = "~batch"
"""The only name in the payload of a batch."""
_SPARE_LEVELS = 100
"""Of nesting: a payload that can be read here must be readable inside of its batch, where the stack is deeper."""


def member_content(payload: bytes) -> Any:
    """The JSON data of an event that is to join a batch.

    Raises Reject for a payload that is JSON by itself, and would make its batch unreadable.
    """
    content = parsed_payload(payload)
    try:
        json.loads(b"[" * _SPARE_LEVELS + payload + b"]" * _SPARE_LEVELS)
    except ValueError:
        raise Reject("The payload of an event in a batch must be UTF-8 without a byte order mark") from None
    except RecursionError:
        raise Reject("The payload is nested too deep for a batch") from None
    return content


def encode_member(metadata: EventMetadata, payload: bytes) -> bytes:
    """An event as a batch has it."""
    return f"[{json.dumps(_named(metadata))},".encode() + payload + b"]"


def encode_batch(members: Sequence[bytes]) -> bytes:
    """The payload of the run of a batch, of its encoded members."""
    return f'{{"{_MARK}":['.encode() + b",".join(members) + b"]}"


def looks_like_batch(payload: bytes) -> bool:
    """Whether a payload has the form of a batch. Anybody can send such a payload: only ``EventMetadata.batch`` says
    that an event is one.
    """
    try:
        content = json.loads(payload)
    except (ValueError, RecursionError):
        return False
    return isinstance(content, dict) and list(content) == [_MARK]


def events_of(payload: bytes, metadata: EventMetadata, *, attempt: int) -> list[Event]:
    """The events of a batch, which has the metadata of its run. Raises ValueError, KeyError, TypeError and the like."""
    found: list[Event] = []
    rows = json.loads(payload)[_MARK]
    if not 1 <= len(rows) <= MAX_SIZE:
        raise ValueError("no events, or too many")
    for named, content in rows:
        own = EventMetadata(
            run=str(named["run"]),
            kind="event",
            task=metadata.task,
            queued_at=float(named["queued_at"]),
            user=metadata.user,
            event_id=named.get("event_id"),
            key=named.get("key"),
            replay_of=named.get("replay_of"),
        )
        found.append(event_with(own, content, attempt=attempt))
    return found


def _named(metadata: EventMetadata) -> dict[str, Any]:
    named = {
        "run": metadata.run,
        "queued_at": metadata.queued_at,
        "event_id": metadata.event_id,
        "key": metadata.key,
        "replay_of": metadata.replay_of,
    }
    return {name: value for name, value in named.items() if value is not None}
