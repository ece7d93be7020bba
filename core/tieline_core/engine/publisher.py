"""Publishes events, as ``tieline_protocol.event_streams`` says where they are kept."""

import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from nats.js import JetStreamContext
from nats.js.errors import APIError

from tieline_protocol.event_streams import EventStreams, hashed
from tieline_protocol.events import (
    HEADER,
    MESSAGE_ID,
    NO_ROLLUP,
    ROLLUP,
    SCHEDULE,
    SCHEDULE_TARGET,
    EventMetadata,
)

_STORE_FAILED = 10077
_NO_SPACE = (10002, 10023, 10028, 10047)
"""Limits of the account, and insufficient resources: of the server, of the account, of the storage."""
_PER_SUBJECT = "per subject"
TASK_PATTERN = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}"
"""What the name of an event's task looks like."""
_TASK = re.compile(TASK_PATTERN)


class StreamFullError(Exception):
    """The engine refuses an event, since its stream or its storage is full. Nothing was stored."""


@dataclass(frozen=True)
class Published:
    """What the engine says of an event."""

    stream: str
    sequence: int
    duplicate: bool
    """Whether it has an event of the same id already, which ``sequence`` is that of."""


def is_task(name: str) -> bool:
    """Whether events may have a task of this name: it becomes a part of a subject."""
    return _TASK.fullmatch(name) is not None


def is_full(error: APIError) -> bool:
    """Whether a stream refused a message since there is no room."""
    if error.err_code in _NO_SPACE:
        return True
    return error.err_code == _STORE_FAILED and not _is_taken(error)


async def publish_event(
    jetstream: JetStreamContext,
    streams: EventStreams,
    metadata: EventMetadata,
    payload: bytes,
    *,
    at: datetime | None = None,
    deduplicated_by: str | None = None,
    seconds: float,
) -> Published:
    """Stores an event; once this returns it is on disk. ``at`` is when it is to run, None for at once.

    Raises StreamFullError, ValueError for a task that ``is_task`` refuses, and the errors of nats-py. After a time-out
    the event may have been stored.
    """
    if not is_task(metadata.task):
        raise ValueError("no name of a task")
    headers = {HEADER: metadata.header()}
    headers[MESSAGE_ID] = deduplicated_by or metadata.message_id
    if at is not None:
        headers[SCHEDULE] = f"@at {at.astimezone(UTC).isoformat(timespec='milliseconds')[:23]}Z"
        headers[SCHEDULE_TARGET] = streams.due(metadata.run)
        subject, stream = streams.waiting(metadata.run), streams.later
    elif metadata.key is not None:
        subject, stream = streams.keyed_event(hashed(metadata.key), metadata.run), streams.queue
    else:
        subject, stream = streams.event(metadata.task, metadata.run), streams.queue
    if metadata.event_id is not None and metadata.kind == "event" and deduplicated_by is None:
        other, there = streams.later, streams.waiting(metadata.run)
        if at is not None:
            other, there = streams.queue, streams.event(metadata.task, metadata.run)
        before = await _accepted_before(jetstream, there, metadata.message_id, stream=other, seconds=seconds)
        if before is not None:
            return before
    stored = await _publish(jetstream, subject, payload, headers, stream=stream, seconds=seconds)
    if metadata.key is not None and at is None:
        # Where there is no room for the token, pods find the key later. Were the event deleted, the engine would still
        # take it for a duplicate when it is sent again.
        with contextlib.suppress(StreamFullError):
            await publish_token(jetstream, streams, hashed(metadata.key), seconds=seconds)
    return stored


async def _accepted_before(
    jetstream: JetStreamContext, subject: str, message_id: str, *, stream: str, seconds: float
) -> Published | None:
    """The event of this id in a stream that has ``subject``, if it was stored within the stream's window.

    The stream is asked to store a message that it refuses, and says before that if it has one of this id.
    """
    headers = {MESSAGE_ID: message_id, ROLLUP: NO_ROLLUP}
    try:
        found = await jetstream.publish(subject, b"", timeout=seconds, stream=stream, headers=headers)
    except APIError:
        return None
    return Published(found.stream, found.seq, True) if found.duplicate else None


async def publish_token(
    jetstream: JetStreamContext, streams: EventStreams, key_hash: str, *, seconds: float
) -> None:
    """Says that a key has events, unless that is said already. Raises StreamFullError and the errors of nats-py."""
    try:
        await _publish(jetstream, streams.key_token(key_hash), b"", {}, stream=streams.queue, seconds=seconds)
    except APIError as error:
        if not _is_taken(error):
            raise


async def _publish(
    jetstream: JetStreamContext,
    subject: str,
    payload: bytes,
    headers: Mapping[str, str],
    *,
    stream: str,
    seconds: float,
) -> Published:
    try:
        stored = await jetstream.publish(
            subject, payload, timeout=seconds, stream=stream, headers=dict(headers)
        )
    except APIError as error:
        if is_full(error):
            raise StreamFullError(error.description) from None
        raise
    return Published(stored.stream, stored.seq, bool(stored.duplicate))


def _is_taken(error: APIError) -> bool:
    """Whether a subject has its one message already."""
    return error.err_code == _STORE_FAILED and _PER_SUBJECT in (error.description or "")
