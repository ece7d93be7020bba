"""Makes the engine's streams and consumers, as they should be."""

from datetime import timedelta

from nats.js import JetStreamContext
from nats.js.api import ConsumerConfig, DiscardPolicy, RetentionPolicy, StorageType, StreamConfig

from tieline_protocol.event_streams import PODS, EventStreams

_ACK_WAIT = timedelta(seconds=30)
_DUPLICATES = timedelta(minutes=2)
_MAX_ACK_PENDING = 1000


async def create_environment(
    jetstream: JetStreamContext, streams: EventStreams, *, max_bytes: int, replicas: int
) -> None:
    """Makes an environment's streams and consumers; what is there stays.

    At ``max_bytes`` each of the first two refuses events, and drops none. The stream of events that wait has no bound:
    with schedules JetStream drops the oldest messages at one. What waits there was accepted by the others before.
    """
    environment = streams.environment
    await jetstream.add_stream(
        _accepting(streams.queue, f"ev.{environment}.>", max_bytes, replicas, RetentionPolicy.WORK_QUEUE)
    )
    await jetstream.add_stream(
        _accepting(streams.ordered, f"key.{environment}.>", max_bytes, replicas, RetentionPolicy.LIMITS)
    )
    await jetstream.add_stream(
        StreamConfig(
            name=streams.later,
            subjects=[f"later.{environment}.>", f"due.{environment}.>"],
            retention=RetentionPolicy.LIMITS,
            storage=StorageType.FILE,
            discard=DiscardPolicy.OLD,
            num_replicas=replicas,
            allow_msg_schedules=True,
            allow_msg_ttl=True,
            allow_rollup_hdrs=True,
        )
    )
    await jetstream.add_consumer(streams.queue, _consumer())
    await jetstream.add_consumer(streams.later, _consumer(f"due.{environment}.>"))


def _accepting(
    name: str, subject: str, max_bytes: int, replicas: int, retention: RetentionPolicy
) -> StreamConfig:
    return StreamConfig(
        name=name,
        subjects=[subject],
        retention=retention,
        storage=StorageType.FILE,
        discard=DiscardPolicy.NEW,
        max_bytes=max_bytes,
        num_replicas=replicas,
        allow_direct=True,
        duplicate_window=_DUPLICATES.total_seconds(),
    )


def _consumer(filter_subject: str | None = None) -> ConsumerConfig:
    return ConsumerConfig(
        durable_name=PODS,
        filter_subject=filter_subject,
        ack_wait=_ACK_WAIT.total_seconds(),
        max_ack_pending=_MAX_ACK_PENDING,
    )
