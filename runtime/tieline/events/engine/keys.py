"""Events with a key: one pod at a time runs a key's events, oldest first. It is the pod that holds the key's token."""

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from nats.aio.msg import Msg

from tieline.errors import reason
from tieline.events.engine.connection import RefusedByEngineError
from tieline.events.engine.deliveries import Lease
from tieline.events.queue import EventsUnavailableError
from tieline_common.backoff import jitter
from tieline_protocol.event_streams import KEY_TOKEN, subject_parts
from tieline_protocol.events import EventMetadata, InvalidEventError

if TYPE_CHECKING:
    from tieline.events.engine.queue import EngineQueue

logger = logging.getLogger("tieline.events")

_SWEEP_SECONDS = 60.0
_NOT_FOUND = 10043
_CRASHED = "Tieline-Crashed"
"""A header of a token in the place of one whose pod died."""


class KeyedEvents:
    """Serves tokens. ``wanted`` says whether the code has tasks with keys, for which ``sweep`` looks."""

    def __init__(self, queue: "EngineQueue") -> None:
        self._queue = queue
        self.stopping = False
        """Whether no further event is to be begun."""
        self.wanted = False

    async def serve(self, lease: Lease, key_hash: str) -> None:
        """Run the key's events, until there is none, or the oldest has to wait."""
        queue = self._queue
        crashed = _CRASHED in (lease.message.headers or {})
        position, is_first = 1, True
        try:
            if lease.deliveries > 1:
                # Whoever had it may still be on the way to acknowledge it, so it is not the one to hold.
                queue.redelivered += 1
                await lease.acknowledge()
                await queue.publish_token(key_hash, {_CRASHED: "1"})
                return
            while lease.held:
                head = None if self.stopping else await self._next(key_hash, position)
                if head is None:
                    await self._leave(lease, key_hash)
                    return
                delivery = await self._delivery(lease, key_hash, head, crashed, may_have_state=is_first)
                crashed = is_first = False
                if delivery is None:
                    await self._let_wait(lease, key_hash)
                    return
                await queue.handle(delivery)
                if not delivery.settled:
                    return
                if delivery.waits:
                    await self._let_wait(lease, key_hash)
                    return
                position = delivery.sequence + 1
        finally:
            queue.leases.remove(lease)

    async def sweep(self) -> None:
        """Publish tokens of keys that have events and no token, as when a pod died between the two."""
        while True:
            await self._queue.connection.connected.wait()
            if self.wanted:
                try:
                    await self._sweep()
                except (EventsUnavailableError, RefusedByEngineError) as error:
                    logger.info("Keys could not be looked through: %s", reason(error))
            await asyncio.sleep(jitter(_SWEEP_SECONDS))

    async def _sweep(self) -> None:
        streams = self._queue.streams
        with_events = await self._subjects(streams.queue, streams.keyed_event("*", "*"), 0)
        if not with_events:
            return
        tokens = await self._subjects(streams.queue, streams.key_token("*"), 1)
        waiting = await self._subjects(streams.later, streams.waiting("*"), 0)
        due = await self._subjects(streams.later, streams.due("*"), 0)
        moving = {one.removeprefix(f"{KEY_TOKEN}-") for one in waiting | due}
        for key_hash in with_events - tokens - moving:
            await self._queue.publish_token(key_hash)

    async def _subjects(self, stream: str, subjects: str, part: int) -> set[str]:
        """What stands at a place of the subjects of a stream's messages."""
        info = await self._queue.connection.api(f"STREAM.INFO.{stream}", subjects_filter=subjects)
        found = info.get("state", {}).get("subjects") or {}
        return {subject_parts(subject)[part] for subject in found}

    async def _leave(self, lease: Lease, key_hash: str) -> None:
        """Let go of the token; what came since the last look gets a new one."""
        await lease.acknowledge()
        if await self._next(key_hash, 1) is not None:
            await self._queue.publish_token(key_hash)

    async def _let_wait(self, lease: Lease, key_hash: str) -> None:
        """Let go of the token; the one that waits may have come already, and was refused then."""
        await lease.acknowledge()
        streams = self._queue.streams
        if await self._queue.connection.get(f"{streams.later}.{streams.waiting_key(key_hash)}") is None:
            await self._queue.publish_token(key_hash)

    async def _next(self, key_hash: str, position: int) -> Msg | None:
        streams = self._queue.streams
        return await self._queue.connection.get(
            streams.queue, seq=position, next_by_subj=streams.events_of_key(key_hash)
        )

    async def _delivery(
        self, lease: Lease, key_hash: str, head: Msg, crashed: bool, *, may_have_state: bool
    ) -> "KeyedDelivery | None":
        """The oldest event as it is to be run; None when it has to wait.

        ``may_have_state``: an event is begun when it is its key's oldest and not before, so what stood behind another
        one until now was never begun.
        """
        headers = head.headers or {}
        sequence = int(headers["Nats-Sequence"])
        try:
            metadata = EventMetadata.parse(headers)
        except InvalidEventError as error:
            logger.error("Removed a message that is no event: %s", reason(error))
            await self.delete(sequence)
            return None
        state = await self._queue.state(metadata.run) if may_have_state else None
        if state is not None:
            metadata, until = state
            if until > self._queue.clock():
                await self.schedule(key_hash, until + lease.engine_ahead)
                return None
        delivery = KeyedDelivery(
            self, lease, key_hash, sequence, metadata, head.data, has_state=state is not None
        )
        if crashed:
            # The pod that had the token died, most likely with this event.
            delivery.metadata = replace(metadata, interruptions=metadata.interruptions + 1)
        return delivery

    async def schedule(self, key_hash: str, until: float) -> None:
        """Have the key's token come back at a time."""
        streams = self._queue.streams
        await self._queue.store_until(
            streams.waiting_key(key_hash), streams.due_key(key_hash), b"", {}, until
        )

    async def delete_run(self, key_hash: str, run: str) -> None:
        """Delete an event that was stored and not accepted. Raises EventsUnavailableError."""
        streams = self._queue.streams
        found = await self._queue.connection.get(f"{streams.queue}.{streams.keyed_event(key_hash, run)}")
        if found is not None:
            await self.delete(int((found.headers or {})["Nats-Sequence"]))

    async def delete(self, sequence: int) -> None:
        """Delete an event that has run. Raises EventsUnavailableError."""
        try:
            await self._queue.connection.api(
                f"STREAM.MSG.DELETE.{self._queue.streams.queue}", seq=sequence, no_erase=True
            )
        except RefusedByEngineError as error:
            if error.code != _NOT_FOUND and "not found" not in error.description:
                raise EventsUnavailableError(error.description) from None


class KeyedDelivery:
    """See Delivery: the oldest event of a key."""

    def __init__(
        self,
        keys: KeyedEvents,
        lease: Lease,
        key_hash: str,
        sequence: int,
        metadata: EventMetadata,
        payload: bytes,
        *,
        has_state: bool,
    ) -> None:
        self._keys = keys
        self._lease = lease
        self._key_hash = key_hash
        self._has_state = has_state
        self.sequence = sequence
        self.metadata = metadata
        self.payload = payload
        self.settled = False
        """Whether it is known what became of it."""
        self.waits = False
        """Whether its key has to wait with it."""

    @property
    def held(self) -> bool:
        """See Delivery."""
        return self._lease.held

    async def interruptions(self) -> int:
        """See Delivery."""
        return self.metadata.interruptions

    async def begins(self, interruptions: int) -> None:
        """See Delivery."""
        if interruptions:
            await self.save_state(replace(self.metadata, interruptions=interruptions), 0)

    async def done(self) -> None:
        """See Delivery."""
        await self._keys.delete(self.sequence)
        if self._has_state:
            await self._keys._queue.forget_steps(self.metadata.run)
        self.settled = True

    async def wait(self, metadata: EventMetadata, until: float) -> None:
        """See Delivery. Its key waits with it."""
        await self.save_state(metadata, until)
        await self._keys.schedule(self._key_hash, until + self._lease.engine_ahead)
        self.settled = self.waits = True

    async def bury(self, metadata: EventMetadata, error: str) -> None:
        """See Delivery."""
        await self._keys._queue.bury(metadata, self.payload, error)

    async def save_state(self, metadata: EventMetadata, until: float) -> None:
        """Keep what the next attempt has to know. Raises EventsUnavailableError."""
        await self._keys._queue.save_state(metadata, until)
        self._has_state = True
