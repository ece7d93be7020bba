"""Events that the engine keeps and never hands out: their consumer counts them as acknowledged.

An engine that was killed can come back with such ones, as it stores streams and consumers apart.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js.api import RawStreamMsg
from nats.js.errors import NotFoundError

from tieline_core.engine.publisher import publish_event, publish_token
from tieline_core.engine.stored_messages import ReadLimits, StoredMessage, read_subject
from tieline_core.engine.trust import AccountSigner
from tieline_operator.engine.keys import EngineKeys
from tieline_operator.queues.organisation_turns import OrganisationTurns
from tieline_protocol.event_streams import (
    KEY_TOKEN,
    LANES,
    EventStreams,
    consumer_of,
    history_stream,
    queued_parts,
)
from tieline_protocol.events import EventMetadata, InvalidEventError
from tieline_protocol.run_records import ENDED, InvalidRecordsError, decode

logger = logging.getLogger(__name__)

OLD = timedelta(minutes=10)
"""How long an event must have been in the queue."""
LOOK_SECONDS = 300.0
"""Between two looks. What two of them find is stranded: an acknowledged event is deleted a moment later."""
_ENVIRONMENT_SECONDS = 60.0
_ORGANISATION_SECONDS = 120.0
_REQUEST_SECONDS = 10.0
_MAX_MESSAGES = 100
_HISTORY = ReadLimits(messages=50_000, bytes=512 << 20, batch=32, seconds=_REQUEST_SECONDS)


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
        self._turns = OrganisationTurns(
            "Queues cannot be looked through for stuck events",
            seconds=_ORGANISATION_SECONDS,
            total_seconds=LOOK_SECONDS,
        )

    async def run(self) -> None:
        """Looks, for ever."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self.look()

    @property
    def stalled(self) -> int:
        """Organisations whose queues cannot be looked through."""
        return self._turns.stalled

    async def look(self) -> None:
        """Looks once at each environment, and repairs what the look before has found as well."""
        keys = self._keys()
        if keys is None:
            return
        wanted: dict[str, list[EventStreams]] = {}
        for streams in self._environments():
            wanted.setdefault(streams.organisation, []).append(streams)
        known = {streams for environments in wanted.values() for streams in environments}
        self._seen = {streams: seen for streams, seen in self._seen.items() if streams in known}
        await self._turns.take(wanted, lambda name: self._look_at(keys, wanted[name]))

    async def _look_at(self, keys: EngineKeys, environments: Sequence[EventStreams]) -> None:
        """Looks at an organisation's environments. Raises the first error once it has tried them all."""
        failed: Exception | None = None
        for streams in environments:
            try:
                async with asyncio.timeout(_ENVIRONMENT_SECONDS):
                    await self._look(keys, streams)
            except Exception as error:
                failed = failed or error
        if failed is not None:
            raise failed

    async def _look(self, keys: EngineKeys, streams: EventStreams) -> None:
        async with self._open(keys.signer.of_environment(streams)) as client:
            jetstream = client.jetstream(timeout=_REQUEST_SECONDS)
            found = {int(one.seq or 0): one async for one in self._stranded(jetstream, streams)}
            before = self._seen.get(streams, frozenset())
            self._seen[streams] = frozenset(found)
            failed: Exception | None = None
            for sequence, message in found.items():
                if sequence in before:
                    try:
                        await self._repair(keys, jetstream, streams, message)
                    except Exception as error:  # pods may have written it: the others are repaired
                        failed = failed or error
            if failed is not None:
                raise failed

    async def _stranded(
        self, jetstream: JetStreamContext, streams: EventStreams
    ) -> AsyncIterator[RawStreamMsg]:
        """Old messages of each consumer's subjects below its floor. What it has handed out or will is above it."""
        for priority in LANES:
            async for message in self._stranded_in_lane(jetstream, streams, priority):
                yield message

    async def _stranded_in_lane(
        self, jetstream: JetStreamContext, streams: EventStreams, priority: int
    ) -> AsyncIterator[RawStreamMsg]:
        consumer = await jetstream.consumer_info(streams.queue, consumer_of(priority))
        floor = int(consumer.ack_floor.stream_seq) if consumer.ack_floor else 0
        sequence, subjects = 1, streams.lane(priority)
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
        sequence, parts = int(message.seq or 0), queued_parts(str(message.subject))
        if parts[:1] == [KEY_TOKEN] and len(parts) > 1:
            # While it is there, the key gets no other one.
            await jetstream.delete_msg(streams.queue, sequence)
            await publish_token(jetstream, streams, parts[1], seconds=_REQUEST_SECONDS)
            logger.warning(
                "A key was stuck in the event engine and continues", extra={"stream": streams.queue}
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
            "was deleted: its run has ended or continues" if is_settled else "is queued again",
            extra={"stream": streams.queue, "run": metadata.run},
        )

    async def _has_ended(self, keys: EngineKeys, streams: EventStreams, run: str, since: datetime) -> bool:
        """Whether the run history has the end of a run. Raises TooLongHistoryError."""
        count = 0
        async with self._open(keys.signer) as client:
            pages = read_subject(
                client,
                history_stream(streams.organisation),
                streams.history,
                start=since,
                limits=_HISTORY,
            )
            async for page in pages:
                count += len(page)
                if count >= _HISTORY.messages:
                    raise TooLongHistoryError
                if await asyncio.to_thread(_any_tells_end, page, run):
                    return True
        return False


class TooLongHistoryError(Exception):
    """The history since an event was stored is too long to be read."""

    def __init__(self) -> None:
        super().__init__(f"the run history has more than {_HISTORY.messages:,} messages since")


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


def _any_tells_end(messages: Sequence[StoredMessage], run: str) -> bool:
    return any(_tells_end(message.data, run) for message in messages)


def _tells_end(content: bytes, run: str) -> bool:
    try:
        return run.encode() in content and any(
            record.id == run and record.status in ENDED for record in decode(content)
        )
    except InvalidRecordsError:
        return False
