"""What is in the streams of the event engine, as the last look at them has found it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from tieline_core.engine.accounts import StreamFacts
from tieline_operator.engine.desired_streams import StreamKey
from tieline_operator.workload.pods import Failure
from tieline_protocol.event_streams import EventStreams


@dataclass(frozen=True, kw_only=True)
class EnvironmentReading:
    """What an environment has in the engine."""

    queued: int
    """Messages in its queue: events, and a token for each key that has some."""
    waiting: int
    """Events that wait for a time."""
    dead_letters: int
    oldest: datetime | None
    """When the first message in its queue was stored."""
    fill: float = 0.0
    """How full the fullest of its streams is: 1 is full."""
    engine_bytes: int = 0
    """Bytes that its streams may take together."""
    refusal: Failure | None = None
    """Why it has no streams though it needs some."""


NOTHING = EnvironmentReading(queued=0, waiting=0, dead_letters=0, oldest=None)


@dataclass(frozen=True, kw_only=True)
class Survey:
    """What the last look at all streams has found."""

    began: datetime | None = None
    """Since when they were looked at; None before the first look."""
    environments: Mapping[StreamKey, EnvironmentReading] = field(default_factory=dict)
    revisions: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Of each stream of this installation, by its name: differs once there are other messages in it."""
    streams: int = 0
    """Of this installation."""
    missing: int = 0
    foreign: int = 0
    """Streams of the account that belong to nobody or to other installations."""
    reserved: int = 0
    """Bytes that all streams may take together."""


def reading_of(streams: EventStreams, found: Mapping[str, StreamFacts]) -> EnvironmentReading | None:
    """What an environment has in the streams that were found, by name; None where one of its own is missing."""
    if any(name not in found for name in streams.names):
        return None
    return EnvironmentReading(
        queued=found[streams.queue].messages,
        waiting=found[streams.later].messages,
        dead_letters=found[streams.dead_letters].messages,
        oldest=found[streams.queue].oldest,
        fill=max(found[name].fill for name in streams.names),
        engine_bytes=sum(found[name].limit for name in streams.names),
    )


def age(moment: datetime | None) -> float:
    """Seconds since a moment; 0 where there is none."""
    return max(0.0, (datetime.now(UTC) - moment).total_seconds()) if moment else 0.0
