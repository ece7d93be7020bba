"""Makes the engine's streams and consumers, as they should be."""

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import timedelta

from nats.js import JetStreamContext
from nats.js.api import ConsumerConfig, DiscardPolicy, RetentionPolicy, StorageType, StreamConfig
from nats.js.errors import BadRequestError, NotFoundError

from tieline_core.engine.claims import AccountLimits
from tieline_protocol.event_streams import (
    EVENTS_PER_SECOND,
    LANES,
    LEASE_SECONDS,
    MAX_BYTES,
    MAX_HISTORY_BYTES,
    MAX_STORED_EVENT_BYTES,
    PODS,
    EventStreams,
    consumer_of,
    direct_stream,
    history_stream,
)

LIMITS_STREAM = "limits"
"""The stream of the platform's account that the API makes for the state of connections' limits."""
_DUPLICATES = timedelta(minutes=2)
NO_DUPLICATES = timedelta(seconds=1)
"""Where nothing is deduplicated: JetStream keeps ids in memory for this long, beyond all limits of an account."""
_MAX_ACK_PENDING = 10_000
_METADATA = "tieline.dev/"
SETTINGS = f"{_METADATA}settings"
"""The metadata of a stream with the fingerprint of what it and its account were made from."""
_FINGERPRINT = 16
DIVISORS = (1, 2, 4, 8, 16)
"""By which limits are made smaller where streams have to share."""
_SMALLEST_BYTES = 16 << 20
"""The largest message fits into it."""
_MAX_CONNECTIONS = 120
_SPARE_CONNECTIONS = 18
"""For replicas of the API, for operator and backups, and for those that the servers have not noticed to be gone."""
_MAX_SUBSCRIPTIONS = 10_000
_MAX_STREAMS = 4
_MAX_CONSUMERS = len(LANES) + 1
_LATER_MARGIN = 4


@dataclass(frozen=True, kw_only=True)
class StreamLimits:
    """What streams may take. At its bytes a queue refuses events, a store of state refuses values, and a
    history drops its oldest records."""

    queue_bytes: int = 256 << 20
    """Of the events that an environment has queued."""
    later_bytes: int = 256 << 20
    """Of the events of an environment that wait for a time; what is beyond it is not accepted (see MAX_BYTES)."""
    runs_bytes: int = 128 << 20
    """Of the steps of an environment's runs."""
    dead_letters_bytes: int = 128 << 20
    """Of the dead letters of an environment."""
    dead_letters_age: timedelta = timedelta(days=90)
    history_bytes: int = 256 << 20
    """Of the run history of an organisation, without its direct runs."""
    history_age: timedelta = timedelta(days=30)
    """Of the run history with its direct runs."""
    direct_bytes: int = 128 << 20
    """Of the direct runs of an organisation."""
    state_bytes: int = 256 << 20
    """Of the state of all integrations of an organisation; a full one refuses what is new."""
    schedules_bytes: int = 64 << 20
    """Of the records of an organisation's schedules."""
    issues_bytes: int = 8 << 20
    """Of decisions about an organisation's issues."""
    audit_bytes: int = 64 << 20
    """Of the audit records of an organisation."""
    audit_age: timedelta = timedelta(days=365)
    packages_bytes: int = 2 << 30
    """Of the packages of an organisation's projects; a full one refuses what is new."""
    events_per_second: int = 0
    """That an organisation may publish in all its environments; 0 is no quota."""
    replicas: int = 1
    lease: timedelta = timedelta(seconds=LEASE_SECONDS)
    """After this long without a sign of life, a pod's events are handed to another one."""

    @property
    def environment_bytes(self) -> int:
        """What the streams of an environment may take together."""
        return self.queue_bytes + self.later_bytes + self.runs_bytes + self.dead_letters_bytes

    def organisation_bytes(self, *, packages: bool) -> int:
        """What the streams of an organisation itself may take together; ``packages``: with that of packages."""
        kept = (
            self.history_bytes
            + self.direct_bytes
            + self.state_bytes
            + self.schedules_bytes
            + self.issues_bytes
            + self.audit_bytes
        )
        return kept + (self.packages_bytes if packages else 0)

    def divided(self, divisor: int) -> "StreamLimits":
        """The limits with a part of the bytes, and room for the largest message in each stream."""
        sizes = {one.name: getattr(self, one.name) for one in fields(self) if one.name.endswith("_bytes")}
        return replace(
            self, **{name: max(min(size, _SMALLEST_BYTES), size // divisor) for name, size in sizes.items()}
        )


class ForeignStreamError(Exception):
    """A stream of this name belongs to another installation of Tieline."""


@dataclass(frozen=True, kw_only=True)
class StreamOwner:
    """Whose a stream is, as its metadata says."""

    release: str
    """The installation of Tieline."""
    organisation: str
    namespace: str

    def to_metadata(self) -> dict[str, str]:
        """The stream's metadata."""
        return {f"{_METADATA}{name}": value for name, value in asdict(self).items()}

    @classmethod
    def of(cls, metadata: Mapping[str, str] | None) -> "StreamOwner | None":
        """The owner in a stream's metadata, if there is one."""
        names = (one.name for one in fields(cls))
        try:
            return cls(**{name: (metadata or {})[f"{_METADATA}{name}"] for name in names})
        except KeyError:
            return None


def connections_of(pods: int) -> int:
    """How many clients an account takes whose environment has so many pods: those of a rollout with surge, twice."""
    return 2 * (pods + 1) + _SPARE_CONNECTIONS


def account_limits(limits: StreamLimits, *, connections: int | None = None) -> AccountLimits:
    """What the account of an environment may take, whatever its pods do.

    ``connections`` is how many clients may be connected, by default as many as the largest environment needs.
    """
    kept = limits.queue_bytes + limits.runs_bytes + limits.dead_letters_bytes
    return AccountLimits(
        connections=_MAX_CONNECTIONS if connections is None else connections,
        subscriptions=_MAX_SUBSCRIPTIONS,
        # Publishers stop at later_bytes. Beyond it this ends pods that do not; JetStream then delivers nothing that is
        # due either.
        disk_bytes=(kept + _LATER_MARGIN * limits.later_bytes) * limits.replicas,
        streams=_MAX_STREAMS,
        consumers=_MAX_CONSUMERS,
    )


def environment_streams(streams: EventStreams, limits: StreamLimits) -> Sequence[StreamConfig]:
    """The streams of an environment.

    The one of events that wait has no bound of JetStream: with schedules it drops the oldest messages at one.
    """
    return (
        StreamConfig(
            name=streams.queue,
            max_msg_size=MAX_STORED_EVENT_BYTES,
            subjects=streams.queue_subjects,
            retention=RetentionPolicy.WORK_QUEUE,
            discard=DiscardPolicy.NEW,
            discard_new_per_subject=True,
            max_msgs_per_subject=1,
            max_bytes=limits.queue_bytes,
            duplicate_window=_DUPLICATES.total_seconds(),
        ),
        StreamConfig(
            name=streams.later,
            max_msg_size=MAX_STORED_EVENT_BYTES,
            subjects=streams.later_subjects,
            retention=RetentionPolicy.WORK_QUEUE,
            discard=DiscardPolicy.OLD,
            allow_msg_schedules=True,
            duplicate_window=_DUPLICATES.total_seconds(),
            allow_rollup_hdrs=True,
            metadata=_for_publishers(limits),
        ),
        StreamConfig(
            name=streams.runs,
            max_msg_size=MAX_STORED_EVENT_BYTES,
            subjects=streams.runs_subjects,
            retention=RetentionPolicy.LIMITS,
            discard=DiscardPolicy.NEW,
            max_msgs_per_subject=1,
            max_bytes=limits.runs_bytes,
            duplicate_window=NO_DUPLICATES.total_seconds(),
            allow_msg_ttl=True,
        ),
        StreamConfig(
            name=streams.dead_letters,
            max_msg_size=MAX_STORED_EVENT_BYTES,
            subjects=streams.dead_letters_subjects,
            retention=RetentionPolicy.LIMITS,
            discard=DiscardPolicy.NEW,
            max_msgs_per_subject=1,
            max_bytes=limits.dead_letters_bytes,
            duplicate_window=NO_DUPLICATES.total_seconds(),
            max_age=limits.dead_letters_age.total_seconds(),
        ),
    )


def _for_publishers(limits: StreamLimits) -> dict[str, str]:
    """What publishers keep to, because JetStream does not."""
    quota = {EVENTS_PER_SECOND: str(limits.events_per_second)} if limits.events_per_second else {}
    return {MAX_BYTES: str(limits.later_bytes), **quota}


def history_streams(organisation: str, limits: StreamLimits) -> Sequence[StreamConfig]:
    """The streams of an organisation's run history. Direct runs have one of their own: they push out no others."""
    streams = (
        (history_stream(organisation), f"history.{organisation}.>", limits.history_bytes),
        (direct_stream(organisation), f"direct.{organisation}.>", limits.direct_bytes),
    )
    return tuple(
        StreamConfig(
            name=name,
            max_msg_size=MAX_HISTORY_BYTES,
            subjects=[subject],
            retention=RetentionPolicy.LIMITS,
            discard=DiscardPolicy.OLD,
            max_bytes=max_bytes,
            duplicate_window=NO_DUPLICATES.total_seconds(),
            max_age=limits.history_age.total_seconds(),
        )
        for name, subject, max_bytes in streams
    )


def fingerprint(configs: Sequence[StreamConfig], limits: StreamLimits, more: str = "") -> str:
    """Differs where streams are to be different, or ``more`` is. Streams have it in their metadata."""
    text = json.dumps(
        [[config.as_dict() for config in configs], limits.replicas, limits.lease.total_seconds(), more],
        sort_keys=True,
        default=str,
    )
    return hashlib.sha256(text.encode()).hexdigest()[:_FINGERPRINT]


async def ensure_environment(
    jetstream: JetStreamContext,
    streams: EventStreams,
    limits: StreamLimits,
    owner: StreamOwner | None = None,
    *,
    settings: str = "",
) -> None:
    """Makes an environment's streams and consumers in its account, or updates them.

    With ``owner``, streams of another installation are left alone, and those of another organisation, which had the
    environment's id before, are deleted first. ``settings`` is their fingerprint.
    Raises ForeignStreamError and the errors of nats-py.
    """
    # The queue comes last: what accepts events has where their retries, steps and dead letters go.
    for config in reversed(environment_streams(streams, limits)):
        numbered = config.retention is RetentionPolicy.WORK_QUEUE
        first = await first_number(jetstream, str(config.name)) if numbered else None
        await ensure_stream(jetstream, replace(config, first_seq=first), limits, owner, settings=settings)
    for priority in LANES:
        consumer = _consumer(consumer_of(priority), streams.lane(priority), limits)
        await jetstream.add_consumer(streams.queue, consumer)
    await jetstream.add_consumer(streams.later, _consumer(PODS, streams.later_subjects[0], limits))


async def ensure_numbered(
    jetstream: JetStreamContext,
    configs: Sequence[StreamConfig],
    limits: StreamLimits,
    owner: StreamOwner | None = None,
    *,
    settings: str = "",
) -> None:
    """Makes or updates streams whose messages are known by their numbers: a new one has none of an earlier one's.

    Raises as ``ensure_environment`` does.
    """
    for config in configs:
        first = await first_number(jetstream, str(config.name))
        await ensure_stream(jetstream, replace(config, first_seq=first), limits, owner, settings=settings)


async def ensure_history(
    jetstream: JetStreamContext,
    organisation: str,
    limits: StreamLimits,
    owner: StreamOwner | None = None,
    *,
    settings: str = "",
) -> None:
    """Makes the streams of an organisation's run history, or updates them. Raises as ``ensure_environment`` does."""
    for config in history_streams(organisation, limits):
        await ensure_stream(jetstream, config, limits, owner, settings=settings)


async def delete_environment(jetstream: JetStreamContext, streams: EventStreams) -> None:
    """Deletes an environment's streams with all that is in them."""
    for name in streams.names:
        try:
            await jetstream.delete_stream(name)
        except NotFoundError:
            continue


async def ensure_stream(
    jetstream: JetStreamContext,
    config: StreamConfig,
    limits: StreamLimits,
    owner: StreamOwner | None = None,
    *,
    settings: str = "",
) -> None:
    """Makes a stream in files, or updates it."""
    metadata = {
        **(config.metadata or {}),
        **(owner.to_metadata() if owner else {}),
        **({SETTINGS: settings} if settings else {}),
    }
    wanted = replace(
        config,
        storage=StorageType.FILE,
        num_replicas=limits.replicas,
        allow_direct=True,
        max_consumers=None,
        metadata=metadata or None,
    )
    try:
        await jetstream.add_stream(wanted)
    except BadRequestError:
        # It is there with other settings.
        found = (await jetstream.stream_info(str(config.name))).config
        before = StreamOwner.of(found.metadata)
        if owner and before and before.release != owner.release:
            raise ForeignStreamError(f"The stream {config.name} belongs to another installation") from None
        if owner and before and before.organisation != owner.organisation:
            await jetstream.delete_stream(str(config.name))
            fresh = await first_number(jetstream, str(config.name)) if wanted.first_seq else None
            await jetstream.add_stream(replace(wanted, first_seq=fresh))
            return
        await jetstream.update_stream(wanted)


async def first_number(jetstream: JetStreamContext, stream: str) -> int | None:
    """The number of a stream's first message, which no message of an earlier stream of this name had.

    Pods acknowledge by number, also what they got before a volume was lost or a stream was deleted.
    """
    try:
        return (await jetstream.stream_info(stream)).config.first_seq
    except NotFoundError:
        return time.time_ns() // 1_000_000


def _consumer(name: str, filter_subject: str, limits: StreamLimits) -> ConsumerConfig:
    return ConsumerConfig(
        durable_name=name,
        filter_subject=filter_subject,
        ack_wait=limits.lease.total_seconds(),
        max_ack_pending=_MAX_ACK_PENDING,
    )
