"""Where an event is stored, and with which headers, for platform and pods alike. Pure."""

from dataclasses import dataclass
from datetime import UTC, datetime

from tieline_protocol.event_streams import EventStreams
from tieline_protocol.events import (
    HEADER,
    MESSAGE_ID,
    NO_ROLLUP,
    ROLLUP,
    SCHEDULE,
    SCHEDULE_TARGET,
    EventMetadata,
)


@dataclass(frozen=True, kw_only=True)
class Placement:
    """A message of an event."""

    stream: str
    subject: str
    headers: dict[str, str]
    twin: "Placement | None" = None
    """What the environment's other stream is asked to store first, for an event with an id of its sender's.

    Each stream knows only the ids of its own events. JetStream refuses this message, and says before that whether it
    has one of the id.
    """


def placement(
    streams: EventStreams,
    metadata: EventMetadata,
    *,
    until: float | None = None,
    deduplicated_by: str | None = None,
) -> Placement:
    """How an event is stored. ``until`` is when it is to run (seconds since 1970); None is at once.

    ``deduplicated_by`` takes the place of the event's own id, for one that was accepted before.
    """
    headers = {HEADER: metadata.header(), MESSAGE_ID: deduplicated_by or metadata.message_id}
    waiting = (streams.later, streams.waiting(metadata.run))
    queued = (streams.queue, streams.event(metadata.task, metadata.run, metadata.priority))
    # Requests to webhooks are never delayed.
    has_id = metadata.event_id is not None and metadata.kind == "event" and deduplicated_by is None
    twin = _twin(*(queued if until is not None else waiting), metadata.message_id) if has_id else None
    if until is not None:
        headers |= schedule(streams.due(metadata.run), until)
        return Placement(stream=waiting[0], subject=waiting[1], headers=headers, twin=twin)
    if metadata.key is not None:
        subject = streams.keyed_event(metadata.key_hash, metadata.run)
        return Placement(stream=streams.queue, subject=subject, headers=headers, twin=twin)
    return Placement(stream=queued[0], subject=queued[1], headers=headers, twin=twin)


def schedule(target: str, until: float) -> dict[str, str]:
    """The headers of a message that comes to ``target`` at a time (seconds since 1970)."""
    at = datetime.fromtimestamp(until, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {SCHEDULE: f"@at {at}", SCHEDULE_TARGET: target}


def _twin(stream: str, subject: str, message_id: str) -> Placement:
    return Placement(stream=stream, subject=subject, headers={MESSAGE_ID: message_id, ROLLUP: NO_ROLLUP})
