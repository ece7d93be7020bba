"""What a pod keeps in its environment's streams, and what it reads there (see ``tieline_protocol.event_streams``)."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from nats.aio.msg import Msg

from tieline.events.engine.connection import EngineConnection, RefusedByEngineError, parsed
from tieline.events.engine.run_storage import RunStorage
from tieline.events.engine.stored_messages import StoredMessages, first_that_fits
from tieline.events.engine.stream_quota import StreamQuota
from tieline.events.engine.wait_storage import WaitStorage
from tieline.events.queue import EventsUnavailableError, MessageTooLargeError
from tieline_engine.client import stored_sequence
from tieline_engine.publishing import Placement, schedule
from tieline_engine.refusals import TOO_LARGE
from tieline_protocol.event_streams import TTL, EventStreams
from tieline_protocol.events import HEADER, EventMetadata

_NOT_FOUND = 10043
_GONE = ("not found", "no message found")
"""What JetStream says of a message that is not there, which for most has no code of its own."""
ERROR_HEADER = "Tieline-Error"
_MAX_ERROR = 1000
_CUT_ERROR = 100


class EngineStorage(StoredMessages):
    """Stores and reads messages. All of it raises EventsUnavailableError."""

    def __init__(self, connection: EngineConnection, *, clock: Callable[[], float] = time.time) -> None:
        super().__init__(connection)
        self.clock = clock
        self.streams: EventStreams = connection.streams
        self.runs = RunStorage(self)
        self._stream_quota = StreamQuota(connection)
        self.waits = WaitStorage(self, self._stream_quota, clock=clock)

    async def store_until(
        self, subject: str, target: str, payload: bytes, headers: Mapping[str, str], until: float
    ) -> bool:
        """Keep a message that comes to ``target`` at a time."""
        return await self.store(subject, payload, {**headers, **schedule(target, until)})

    async def store_waiting(self, metadata: EventMetadata, payload: bytes, until: float) -> None:
        """Keep an accepted event until a time."""
        waiting, due = self.streams.waiting(metadata.run), self.streams.due(metadata.run)
        await first_that_fits(
            metadata, lambda one: self.store_until(waiting, due, payload, {HEADER: one.header()}, until)
        )

    async def accepted_before(self, twin: Placement) -> bool:
        """Whether the other stream knows an event's id, which then is in its window."""
        try:
            answer = parsed(await self.connection.request(twin.subject, headers=twin.headers))
        except RefusedByEngineError:
            return False
        return bool(answer.get("duplicate", False))

    async def publish_token(self, key_hash: str, headers: Mapping[str, str] = MappingProxyType({})) -> None:
        """Say that a key has events; there is one such message at a time."""
        await self.store(self.streams.key_token(key_hash), b"", headers)

    async def schedule_token(self, key_hash: str, until: float) -> None:
        """Have a key's token come at a time."""
        streams = self.streams
        await self.store_until(streams.waiting_key(key_hash), streams.due_key(key_hash), b"", {}, until)

    async def waits_for_token(self, key_hash: str) -> bool:
        """Whether a key's token comes at a time."""
        streams = self.streams
        return await self.connection.get(f"{streams.later}.{streams.waiting_key(key_hash)}") is not None

    async def next_of_key(self, key_hash: str, position: int) -> Msg | None:
        """A key's oldest event from a position in the stream on."""
        streams = self.streams
        return await self.connection.get(
            streams.queue, seq=position, next_by_subj=streams.events_of_key(key_hash)
        )

    async def remove_if_cancelled(self, run: str, subject: str) -> bool:
        """Remove what waits at a subject if somebody cancels its run; whether that is so.

        Ask once it is stored. Whoever cancels says so first, and removes what is stored then.
        """
        if not await self.runs.is_cancelled(run):
            return False
        await self.purge(self.streams.later, subject)
        return True

    async def delete(self, sequence: int) -> None:
        """Delete a message of the queue's stream."""
        try:
            await self.connection.api(f"STREAM.MSG.DELETE.{self.streams.queue}", seq=sequence, no_erase=True)
        except RefusedByEngineError as error:
            if error.code != _NOT_FOUND and not any(text in error.description for text in _GONE):
                raise EventsUnavailableError(error.description) from None

    async def has_run(self, run: str) -> bool:
        """See EventQueue. A run is stored at its next place before it leaves the one before."""
        streams = self.streams
        for subjects in (streams.any_event(run), streams.keyed_event("*", run)):
            if await self.subjects(streams.queue, subjects):
                return True
        for subject in (streams.waiting(run), streams.due(run)):
            if await self.subjects(streams.later, subject):
                return True
        return False

    async def is_stored_for_later(self, run: str, *, besides: tuple[str, int]) -> bool:
        """See EventQueue."""
        streams = self.streams
        if await self.subjects(streams.later, streams.waiting(run)):
            return True
        if not await self.subjects(streams.later, streams.due(run)):
            return False
        stream, number = besides
        if stream != streams.later:
            return True
        due = await self.connection.get(f"{streams.later}.{streams.due(run)}")
        return due is not None and stored_sequence(due) != number

    async def knows_delivery(self, key_hash: str) -> bool:
        """See EventQueue."""
        return await self.connection.get(f"{self.streams.runs}.{self.streams.delivery(key_hash)}") is not None

    async def remember_delivery(self, key_hash: str, seconds: float) -> None:
        """See EventQueue. Nothing is stored while runs take much of the room."""
        if await self._stream_quota.left():
            await self.store(self.streams.delivery(key_hash), b"", {TTL: f"{max(round(seconds), 1)}s"})

    async def add_history(self, content: bytes) -> None:
        """See EventQueue."""
        try:
            parsed(await self.connection.request(self.streams.history, content))
        except RefusedByEngineError as error:
            if error.code in TOO_LARGE:
                raise MessageTooLargeError(error.description) from None
            raise EventsUnavailableError(error.description) from None

    async def dead_letter(self, metadata: EventMetadata, payload: bytes, error: str) -> None:
        """Keep a dead letter, with as much of its error as its headers have room for."""
        subject = self.streams.dead(metadata.run)
        text = error[:_MAX_ERROR]
        clean = replace(metadata, failure=None, refusals=0)
        for length in (_MAX_ERROR, _CUT_ERROR):
            headers = {ERROR_HEADER: json.dumps(text[:length])}
            try:
                await self.store(subject, payload, {HEADER: clean.header(), **headers})
            except MessageTooLargeError:
                continue
            return
        await first_that_fits(
            clean, lambda one: self.store(subject, payload, {HEADER: one.header(), **headers})
        )
