"""Events with a key: one pod at a time runs a key's events, oldest first. It is the pod that holds the key's token."""

import asyncio
import contextlib
import logging
from collections.abc import Collection
from dataclasses import replace

from nats.aio.msg import Msg

from tieline.errors import reason
from tieline.events.engine.deliveries import Lease, Leases
from tieline.events.engine.run_storage import RELEASED, RunState
from tieline.events.engine.storage import EngineStorage
from tieline.events.queue import DeliveryHandler, EventsUnavailableError, QueueFullError
from tieline.events.wait_store import OpenWait
from tieline_common.backoff import jitter
from tieline_protocol.event_streams import KEY_TOKEN, subject_parts
from tieline_protocol.events import EventMetadata, InvalidEventError

logger = logging.getLogger("tieline.events")

_SWEEP_SECONDS = 60.0
_CRASHED = "Tieline-Crashed"
"""A header of a token in the place of one whose pod died."""


class KeyedEvents:
    """Serves tokens. ``wanted`` says whether the code has tasks with keys, for which ``sweep`` looks."""

    def __init__(self, storage: EngineStorage, leases: Leases) -> None:
        self._storage = storage
        self._leases = leases
        self.stopping = False
        """Whether no further event is to be begun."""
        self.wanted = False

    async def serve(self, lease: Lease, key_hash: str, handle: DeliveryHandler) -> None:
        """Run the key's events, until there is none, or the oldest has to wait."""
        crashed = _CRASHED in (lease.message.headers or {})
        position, is_first = 1, True
        try:
            if lease.deliveries > 1:
                # Whoever had it may still be on the way to acknowledge it, so it is not the one to hold.
                self._leases.redelivered += 1
                # If this pod dies before it has stored the next token, that comes soon, and not when a run's wait ends.
                soon = self._storage.clock() + self._leases.seconds + lease.engine_ahead
                with contextlib.suppress(QueueFullError):
                    await self._storage.schedule_token(key_hash, soon)
                await lease.acknowledge()
                await self._storage.publish_token(key_hash, {_CRASHED: "1"})
                return
            while lease.held:
                head = None if self.stopping else await self._storage.next_of_key(key_hash, position)
                if head is None:
                    await self._leave(lease, key_hash)
                    return
                lease.has_slot = False
                delivery = await self._delivery(lease, key_hash, head, crashed, may_have_state=is_first)
                crashed = is_first = False
                if delivery is None:
                    await self._let_wait(lease, key_hash)
                    return
                await handle(delivery)
                if not delivery.settled:
                    return
                if delivery.waits:
                    await self._let_wait(lease, key_hash)
                    return
                position = delivery.sequence + 1
        finally:
            self._leases.remove(lease)

    async def sweep(self) -> None:
        """Publish tokens of keys that have events and no token, as when a pod died between the two."""
        while True:
            await self._storage.connection.connected.wait()
            if self.wanted:
                try:
                    await self.publish_lost_tokens()
                except EventsUnavailableError as error:
                    logger.info("Keys could not be looked through: %s", reason(error))
            await asyncio.sleep(jitter(_SWEEP_SECONDS))

    async def publish_lost_tokens(self) -> None:
        """Look once for keys without a token. Raises EventsUnavailableError."""
        streams = self._storage.streams
        with_events = await self._parts(streams.queue, streams.keyed_event("*", "*"), 0)
        if not with_events:
            return
        tokens = await self._parts(streams.queue, streams.key_token("*"), 2)
        waiting = await self._parts(streams.later, streams.waiting("*"), 0)
        due = await self._parts(streams.later, streams.due("*"), 0)
        moving = {one.removeprefix(f"{KEY_TOKEN}-") for one in waiting | due}
        for key_hash in with_events - tokens - moving:
            await self._storage.publish_token(key_hash)

    async def _parts(self, stream: str, subjects: str, part: int) -> set[str]:
        """What stands at a place of the subjects of a stream's messages."""
        return {subject_parts(one)[part] for one in await self._storage.subjects(stream, subjects)}

    async def _leave(self, lease: Lease, key_hash: str) -> None:
        """Let go of the token; what came since the last look gets a new one."""
        await lease.acknowledge()
        if await self._storage.next_of_key(key_hash, 1) is not None:
            await self._storage.publish_token(key_hash)

    async def _let_wait(self, lease: Lease, key_hash: str) -> None:
        """Let go of the token; the one that waits may have come already, and was refused then."""
        await lease.acknowledge()
        if not await self._storage.waits_for_token(key_hash):
            await self._storage.publish_token(key_hash)

    async def _delivery(
        self, lease: Lease, key_hash: str, head: Msg, crashed: bool, *, may_have_state: bool
    ) -> "KeyedDelivery | None":
        """The oldest event as it is to be run; None when it has to wait.

        ``may_have_state``: an event is begun when it is its key's oldest and not before, so what stood behind another
        one until now was never begun.
        """
        storage = self._storage
        headers = head.headers or {}
        sequence = int(headers["Nats-Sequence"])
        try:
            metadata = EventMetadata.parse(headers)
        except InvalidEventError as error:
            logger.error("Removed a message that is no event: %s", reason(error))
            await storage.delete(sequence)
            return None
        state = await storage.runs.state(metadata.run) if may_have_state else None
        if state is not None:
            # Were it moved to another key, what is kept would be removed, and it would count as ended.
            metadata = replace(state.metadata, has_steps=True)
            # Whoever died then did not die with the event.
            crashed = crashed and not state.begins_waits
            if state.until > storage.clock() and not state.begins_waits:
                await storage.schedule_token(key_hash, state.until + lease.engine_ahead)
                if not await storage.runs.is_current(state):
                    # Somebody has woken the run, and may have made the token come before it was scheduled here.
                    await storage.schedule_token(key_hash, storage.clock())
                await storage.remove_if_cancelled(metadata.run, storage.streams.waiting_key(key_hash))
                return None
        delivery = KeyedDelivery(storage, lease, key_hash, sequence, metadata, head.data, state=state)
        if crashed:
            # The pod that had the token died, most likely with this event.
            delivery.metadata = replace(metadata, interruptions=metadata.interruptions + 1)
        return delivery


class KeyedDelivery:
    """See Delivery: the oldest event of a key."""

    def __init__(
        self,
        storage: EngineStorage,
        lease: Lease,
        key_hash: str,
        sequence: int,
        metadata: EventMetadata,
        payload: bytes,
        *,
        state: RunState | None,
    ) -> None:
        self._storage = storage
        self._lease = lease
        self.key_hash = key_hash
        self._has_state = state is not None
        self._is_forgiven = metadata.interruptions == RELEASED or (state is not None and state.begins_waits)
        """Whether what is kept excuses the death of the pod before this one. It excuses one."""
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

    @property
    def message(self) -> tuple[str, int]:
        """See Delivery. It stays where it is until its run has ended."""
        return self._storage.streams.queue, self.sequence

    async def interruptions(self) -> int:
        """See Delivery."""
        return max(self.metadata.interruptions, 0)

    async def begins(self, interruptions: int) -> None:
        """See Delivery."""
        self._lease.has_slot = True
        if interruptions or self._is_forgiven:
            await self._save_state(replace(self.metadata, interruptions=interruptions), 0)

    async def done(self) -> None:
        """See Delivery."""
        await self._storage.delete(self.sequence)
        if self._has_state:
            await self._storage.runs.forget_steps(self.metadata.run)
        self.settled = True

    async def wait(self, metadata: EventMetadata, until: float, waits: Collection[OpenWait] = ()) -> bool:
        """See Delivery. Its key waits with it."""
        storage = self._storage
        await self._save_state(metadata, until, begins_waits=bool(waits))
        await storage.schedule_token(self.key_hash, until + self._lease.engine_ahead)
        if waits:
            await storage.waits.begin(waits)
            if self.held:
                # Else the state may be that of another pod, whose waits have not begun.
                await storage.runs.waits_have_begun(metadata.run)
        waiting = storage.streams.waiting_key(self.key_hash)
        if await storage.remove_if_cancelled(metadata.run, waiting):
            await self.done()
            return False
        self.settled = self.waits = True
        return True

    async def dead_letter(self, metadata: EventMetadata, error: str) -> None:
        """See Delivery."""
        await self._storage.dead_letter(metadata, self.payload, error)

    async def set_aside(self, metadata: EventMetadata, until: float) -> bool:
        """See Delivery. What is kept for the run stays there until it is a dead letter."""
        storage, run = self._storage, metadata.run
        aside = replace(metadata, has_steps=metadata.has_steps or self._has_state)
        await storage.store_waiting(aside, self.payload, until + self._lease.engine_ahead)
        cancelled = await storage.remove_if_cancelled(run, storage.streams.waiting(run))
        await storage.delete(self.sequence)
        self.settled = True
        return not cancelled

    async def release(self) -> None:
        """See Delivery."""
        if self.held:
            await self._storage.runs.save_released(self.metadata)
        await self._lease.release()

    async def ack_duplicate(self) -> None:
        """See Delivery. Whoever gets the key's next token looks for its oldest event."""
        self.settled = self.waits = True

    async def _save_state(self, metadata: EventMetadata, until: float, *, begins_waits: bool = False) -> None:
        await self._storage.runs.save_state(metadata, until, begins_waits=begins_waits)
        self._has_state = True
