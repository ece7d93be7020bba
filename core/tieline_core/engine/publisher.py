"""Publishes events, as ``tieline_protocol.event_streams`` says where they are kept."""

import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from nats.js import JetStreamContext
from nats.js.errors import APIError

from tieline_engine import refusals
from tieline_engine.publishing import Placement, placement
from tieline_protocol import webhook_names
from tieline_protocol.event_streams import EXPECTED_SEQUENCE, TTL, EventStreams
from tieline_protocol.events import HEADER, EventMetadata

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


def is_run_task(name: str) -> bool:
    """Whether runs may have a task of this name; those of webhooks may have path parameters."""
    return is_task(name) or webhook_names.NAME.fullmatch(name) is not None


def is_full(error: APIError) -> bool:
    """Whether a stream refused a message since there is no room."""
    return refusals.is_full(error.err_code, error.description)


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

    Raises StreamFullError, ValueError for a task that ``is_run_task`` refuses, and the errors of nats-py. After a
    time-out the event may have been stored.
    """
    if not is_run_task(metadata.task):
        raise ValueError("no name of a task")
    until = at.timestamp() if at is not None else None
    placed = placement(streams, metadata, until=until, deduplicated_by=deduplicated_by)
    if placed.twin is not None:
        before = await _accepted_before(jetstream, placed.twin, seconds=seconds)
        if before is not None:
            return before
    stored = await _publish(
        jetstream, placed.subject, payload, placed.headers, stream=placed.stream, seconds=seconds
    )
    if metadata.key is not None and at is None:
        # Where there is no room for the token, pods find the key later. Were the event deleted, the engine would still
        # take it for a duplicate when it is sent again.
        with contextlib.suppress(StreamFullError):
            await publish_token(jetstream, streams, metadata.key_hash, seconds=seconds)
    return stored


async def publish_waking(
    jetstream: JetStreamContext,
    streams: EventStreams,
    metadata: EventMetadata,
    payload: bytes,
    *,
    seconds: float,
) -> Published:
    """Stores an event of the platform's own, by which a pod wakes a run: an answer to an approval, a signal, or a
    child's end.

    Raises StreamFullError and nats-py's errors.
    """
    placed = placement(streams, metadata)
    return await _publish(
        jetstream, placed.subject, payload, placed.headers, stream=placed.stream, seconds=seconds
    )


async def decide_approval(
    jetstream: JetStreamContext,
    streams: EventStreams,
    approval: str,
    answer: EventMetadata,
    payload: bytes,
    *,
    keep: float,
    seconds: float,
) -> bool:
    """Stores an answer as the outcome of an approval for ``keep`` seconds; False where it has one.

    Raises as ``publish_waking``.
    """
    headers = {HEADER: answer.header(), TTL: f"{round(keep)}s"}
    return await store_once(
        jetstream, streams.answered(approval), payload, headers, stream=streams.runs, seconds=seconds
    )


async def store_once(
    jetstream: JetStreamContext,
    subject: str,
    payload: bytes,
    headers: Mapping[str, str],
    *,
    stream: str,
    seconds: float,
) -> bool:
    """Stores a message; False where there is one at the subject. Raises as ``publish_waking``."""
    first = {**headers, EXPECTED_SEQUENCE: "0"}
    try:
        await _publish(jetstream, subject, payload, first, stream=stream, seconds=seconds)
    except APIError as error:
        if error.err_code in refusals.WRONG_SEQUENCE:
            return False
        raise
    return True


async def _accepted_before(
    jetstream: JetStreamContext, twin: Placement, *, seconds: float
) -> Published | None:
    """The event of the same id in the other stream, if it was stored within that stream's window."""
    try:
        found = await jetstream.publish(
            twin.subject, b"", timeout=seconds, stream=twin.stream, headers=twin.headers
        )
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
        if not refusals.is_taken(error.err_code, error.description):
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
