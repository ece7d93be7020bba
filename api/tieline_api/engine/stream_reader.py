"""Reads a whole stream in order, and goes on with what comes: each message once, none left out."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from nats.js.errors import NotFoundError

from tieline_api.engine.connection import Engine
from tieline_api.engine.errors import EngineUnavailableError
from tieline_api.engine.requests import EngineRequests
from tieline_core.engine.stored_messages import StoredMessage
from tieline_engine.client import delivery_status
from tieline_protocol.event_streams import MAX_MESSAGE_BYTES

_BATCH = 256
_BATCH_BYTES = 2 * MAX_MESSAGE_BYTES
"""The engine sends so much before it is asked again: what a stream takes of the memory."""
_EXPIRES = 30.0
_HEARTBEAT = 5.0
_SILENCE = 2.5 * _HEARTBEAT
_LOOK_SECONDS = 1.0
_UNUSED_SECONDS = 60.0
_NANOSECONDS = 1_000_000_000
_HEARTBEAT_STATUS = "100"
_ENDED_STATUSES = ("404", "408", "409")


@dataclass(frozen=True)
class StreamBatch:
    """Messages that follow each other."""

    messages: list[StoredMessage]
    pending: int
    """How many messages of the stream come after them."""


@dataclass(frozen=True)
class StreamState:
    """A stream as it is now."""

    created: str
    """When it was made: one that was deleted and made again begins anew."""
    first: int
    """Sequence number of its oldest message, or of the next one where there is none."""
    last: int


async def stream_state(engine: EngineRequests, stream: str) -> StreamState | None:
    """The state of a stream, None where there is none. Raises as ``EngineRequests.ask``."""
    found = await engine.stream_info(stream)
    if found is None:
        return None
    state = found["state"]
    return StreamState(str(found["created"]), int(state["first_seq"]), int(state["last_seq"]))


async def read_stream(engine: Engine, stream: str, *, after: int) -> AsyncIterator[StreamBatch]:
    """The messages after a sequence number. The first batch is empty, and says how many there are.

    Never ends by itself. Raises EngineUnavailableError when messages may have been missed, after which the reader
    begins anew from what it has, and NotFoundError when the stream is gone.
    """
    connection = engine.connections
    config = ConsumerConfig(
        deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
        opt_start_seq=after + 1,
        ack_policy=AckPolicy.NONE,
        inactive_threshold=_UNUSED_SECONDS,
        mem_storage=True,
        num_replicas=1,
    )
    info = await engine.ask(lambda jetstream: jetstream.add_consumer(stream, config))
    yield StreamBatch([], int(info.num_pending or 0))
    client = await engine.ask_client(_client)
    inbox = client.new_inbox()
    queue: asyncio.Queue[Msg] = asyncio.Queue()

    async def take(message: Msg) -> None:
        queue.put_nowait(message)

    subscription = await engine.ask(
        lambda _: client.subscribe(inbox, cb=take, pending_bytes_limit=4 * _BATCH_BYTES)
    )
    try:
        reader = _Reader(engine, connection, queue)
        while True:
            await _pull(engine, client, stream, info.name, inbox)
            async for batch in reader.pulled():
                yield batch
    finally:
        with suppress(nats.errors.Error, OSError):
            await subscription.unsubscribe()
        with suppress(EngineUnavailableError, NotFoundError):
            await engine.ask(lambda jetstream: jetstream.delete_consumer(stream, info.name))


class _Reader:
    """Takes what a consumer sends, and sees that nothing is missing."""

    def __init__(self, engine: Engine, connection: int, queue: asyncio.Queue[Msg]) -> None:
        self._engine = engine
        self._connection = connection
        self._queue = queue
        self._expected = 1

    async def pulled(self) -> AsyncIterator[StreamBatch]:
        """What the engine sends for one request, in batches as they come."""
        left, ended = _BATCH, False
        while left > 0 and not ended:
            messages: list[StoredMessage] = []
            pending = 0
            received: Msg | None = await self._next()
            while received is not None:
                status = delivery_status(received)
                if status is None:
                    message, pending = self._stored(received)
                    messages.append(message)
                    left -= 1
                elif status != _HEARTBEAT_STATUS:
                    if status not in _ENDED_STATUSES or _is_gone(received):
                        raise EngineUnavailableError
                    ended = True
                received = None if self._queue.empty() else self._queue.get_nowait()
            if messages:
                yield StreamBatch(messages, pending)

    async def _next(self) -> Msg:
        """Raises EngineUnavailableError when the connection is another one, or the engine says nothing."""
        waited = 0.0
        while waited < _SILENCE:
            if self._engine.connections != self._connection or not self._engine.connected:
                raise EngineUnavailableError
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    return await self._queue.get()
            waited += _LOOK_SECONDS
        raise EngineUnavailableError

    def _stored(self, received: Msg) -> tuple[StoredMessage, int]:
        metadata = received.metadata
        if metadata.sequence is None or metadata.sequence.consumer != self._expected:
            raise EngineUnavailableError
        self._expected += 1
        message = StoredMessage(
            metadata.sequence.stream,
            received.subject,
            received.headers or {},
            received.data,
            metadata.timestamp.timestamp(),
        )
        return message, int(metadata.num_pending or 0)


async def _client(client: Client) -> Client:
    return client


async def _pull(engine: Engine, client: Client, stream: str, consumer: str, inbox: str) -> None:
    wanted = {
        "batch": _BATCH,
        "max_bytes": _BATCH_BYTES,
        "expires": int(_EXPIRES * _NANOSECONDS),
        "idle_heartbeat": int(_HEARTBEAT * _NANOSECONDS),
    }
    subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}"
    await engine.ask_client(lambda _: client.publish(subject, json.dumps(wanted).encode(), reply=inbox))


def _is_gone(message: Msg) -> bool:
    description = (message.headers or {}).get("Description", "").lower()
    return "consumer deleted" in description or "leadership change" in description
