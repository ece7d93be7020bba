"""Events that the engine keeps and never hands out: their consumer counts them as acknowledged.

An engine that was killed can come back with such ones, as it stores streams and consumers apart.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import nats.errors
from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, RawStreamMsg
from nats.js.errors import NotFoundError

from tieline_core.engine.publisher import publish_event, publish_token
from tieline_core.engine.trust import AccountSigner
from tieline_operator.engine.keys import EngineKeys
from tieline_protocol.event_streams import KEY_TOKEN, PODS, EventStreams, history_stream, subject_parts
from tieline_protocol.events import EventMetadata, InvalidEventError
from tieline_protocol.run_records import ENDED, InvalidRecordsError, decode

logger = logging.getLogger(__name__)

OLD = timedelta(minutes=10)
"""How long an event must have been in the queue."""
LOOK_SECONDS = 300.0
"""Between two looks. What two of them find is stranded: an acknowledged event is deleted a moment later."""
_ENVIRONMENT_SECONDS = 60.0
_REQUEST_SECONDS = 10.0
_MAX_MESSAGES = 100
_MAX_HISTORY = 50_000
_BATCH = 32
_UNUSED_SECONDS = 30.0


class StrandedEvents:
    """Hands stranded events out again, unless their run has ended or goes on elsewhere. Then they are deleted."""

    def __init__(
        self,
        environments: Callable[[], Iterable[EventStreams]],
        *,
        keys: Callable[[], EngineKeys | None],
        open_account: Callable[[AccountSigner], AbstractAsyncContextManager[Client]],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """``environments`` are those that have old messages in their queue."""
        self._environments = environments
        self._keys = keys
        self._open = open_account
        self._now = now
        self._seen: dict[EventStreams, frozenset[int]] = {}
        """The numbers of messages that the last look found, by environment."""

    async def run(self) -> None:
        """Looks, for ever."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Looks once at each environment, and repairs what the look before has found as well."""
        keys = self._keys()
        if keys is None:
            return
        wanted = list(self._environments())
        self._seen = {streams: self._seen[streams] for streams in wanted if streams in self._seen}
        for streams in wanted:
            try:
                async with asyncio.timeout(_ENVIRONMENT_SECONDS):
                    await self._look(keys, streams)
            except Exception as error:
                logger.warning(
                    "The queue of an environment cannot be looked through, trying again: %s",
                    str(error) or type(error).__name__,
                    extra={"stream": streams.queue},
                )

    async def _look(self, keys: EngineKeys, streams: EventStreams) -> None:
        prefix = keys.trust.management_prefix
        async with self._open(keys.signer.of_environment(streams)) as client:
            jetstream = client.jetstream(prefix=prefix, timeout=_REQUEST_SECONDS)
            found = {int(one.seq or 0): one async for one in self._stranded(jetstream, streams)}
            before = self._seen.get(streams, frozenset())
            self._seen[streams] = frozenset(found)
            for sequence, message in found.items():
                if sequence in before:
                    await self._repair(keys, jetstream, streams, message)

    async def _stranded(
        self, jetstream: JetStreamContext, streams: EventStreams
    ) -> AsyncIterator[RawStreamMsg]:
        """Old messages of the consumer's subjects below its floor. What it has handed out or will is above it."""
        consumer = await jetstream.consumer_info(streams.queue, PODS)
        floor = int(consumer.ack_floor.stream_seq) if consumer.ack_floor else 0
        sequence, subjects = 1, streams.queue_subjects[0]
        for _ in range(_MAX_MESSAGES):
            try:
                message = await jetstream.get_msg(streams.queue, seq=sequence, subject=subjects, next=True)
            except NotFoundError:
                return
            if message.seq is None or message.seq > floor:
                return
            if message.time is not None and self._now() - message.time >= OLD:
                yield message
            sequence = message.seq + 1

    async def _repair(
        self, keys: EngineKeys, jetstream: JetStreamContext, streams: EventStreams, message: RawStreamMsg
    ) -> None:
        sequence, (task, name) = int(message.seq or 0), subject_parts(str(message.subject))
        if task == KEY_TOKEN:
            # While it is there, the key gets no other one.
            await jetstream.delete_msg(streams.queue, sequence)
            await publish_token(jetstream, streams, name, seconds=_REQUEST_SECONDS)
            logger.warning(
                "A key was stuck in the event engine, and goes on", extra={"stream": streams.queue}
            )
            return
        try:
            metadata = EventMetadata.parse(message.headers)
        except InvalidEventError:
            await jetstream.delete_msg(streams.queue, sequence)
            return
        is_settled = await _is_settled(jetstream, streams, metadata.run)
        if not is_settled and message.time is not None:
            is_settled = await self._has_ended(keys, streams, metadata.run, message.time)
        if not is_settled:
            # Stored before the other one is deleted. Whoever runs it looks first whether it has ended.
            await publish_event(
                jetstream,
                streams,
                replace(metadata, has_steps=True),
                message.data or b"",
                at=self._now(),
                deduplicated_by=f"{metadata.run}/again",
                seconds=_REQUEST_SECONDS,
            )
        await jetstream.delete_msg(streams.queue, sequence)
        logger.warning(
            "An event was stuck in the event engine, and %s",
            "was deleted: its run has ended, or goes on" if is_settled else "is handed out again",
            extra={"stream": streams.queue, "run": metadata.run},
        )

    async def _has_ended(self, keys: EngineKeys, streams: EventStreams, run: str, since: datetime) -> bool:
        """Whether the run history has the end of a run. Raises TooLongHistoryError."""
        async with self._open(keys.signer) as client:
            managing = client.jetstream(prefix=keys.trust.management_prefix, timeout=_REQUEST_SECONDS)
            reading = client.jetstream(timeout=_REQUEST_SECONDS)
            stream = history_stream(streams.organisation)
            consumer = await managing.add_consumer(stream, _reader(streams.history, since))
            left = int(consumer.num_pending or 0)
            subscription = await reading.pull_subscribe_bind(consumer=consumer.name, stream=stream)
            try:
                if left > _MAX_HISTORY:
                    raise TooLongHistoryError
                while left > 0:
                    found = await subscription.fetch(min(_BATCH, left), timeout=_REQUEST_SECONDS)
                    left -= len(found)
                    if any(_tells_end(message.data, run) for message in found):
                        return True
                return False
            finally:
                with suppress(nats.errors.Error, NotFoundError, OSError):
                    await subscription.unsubscribe()
                    await managing.delete_consumer(stream, consumer.name)


class TooLongHistoryError(Exception):
    """The history since an event was stored is too long to be read."""

    def __init__(self) -> None:
        super().__init__(f"the run history has more than {_MAX_HISTORY:,} messages since")


async def _is_settled(jetstream: JetStreamContext, streams: EventStreams, run: str) -> bool:
    """Whether a run has ended lately, is a dead letter, waits for its next attempt, or is queued behind its key."""
    places = (
        (streams.dead_letters, streams.dead(run)),
        (streams.runs, streams.ended(run)),
        (streams.later, streams.waiting(run)),
        (streams.later, streams.due(run)),
    )
    for stream, subject in places:
        with suppress(NotFoundError):
            await jetstream.get_msg(stream, subject=subject)
            return True
    info = await jetstream.stream_info(streams.queue, subjects_filter=streams.keyed_event("*", run))
    return bool(info.state.subjects)


def _reader(subject: str, since: datetime) -> ConsumerConfig:
    return ConsumerConfig(
        deliver_policy=DeliverPolicy.BY_START_TIME,
        opt_start_time=since,
        filter_subject=subject,
        ack_policy=AckPolicy.NONE,
        inactive_threshold=_UNUSED_SECONDS,
        mem_storage=True,
        num_replicas=1,
    )


def _tells_end(content: bytes, run: str) -> bool:
    try:
        return run.encode() in content and any(
            record.id == run and record.status in ENDED for record in decode(content)
        )
    except InvalidRecordsError:
        return False
