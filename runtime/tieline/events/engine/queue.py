"""The EventQueue of a pod: its environment's streams in the engine (see ``tieline_protocol.event_streams``)."""

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Callable, Collection, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any

import nats.errors
from nats.aio.msg import Msg

from tieline.configuration.pod_api import PodApi
from tieline.errors import reason
from tieline.events.engine.connection import EngineConnection
from tieline.events.engine.deliveries import Lease, Leases, ignored
from tieline.events.engine.event_rate import EventRate
from tieline.events.engine.keys import KeyedEvents
from tieline.events.engine.lanes import ALL_LANES, Due, InFlightMessages, Lane
from tieline.events.engine.pull import Puller
from tieline.events.engine.run_storage import RELEASED
from tieline.events.engine.storage import EngineStorage
from tieline.events.engine.waiting_limit import WaitingLimit
from tieline.events.queue import Delivery, DeliveryHandler, EventsUnavailableError, QueueFullError
from tieline.events.wait_store import OpenWait
from tieline_common.cancellation import cancel_and_wait
from tieline_engine.publishing import Placement, placement
from tieline_protocol.event_streams import (
    KEY_TOKEN,
    LEASE_SECONDS,
    PODS,
    consumer_of,
    queued_parts,
    subject_parts,
)
from tieline_protocol.events import EventMetadata, InvalidEventError

logger = logging.getLogger("tieline.events")

_RETRY_SECONDS = 1.0


class EngineQueue(EngineStorage):
    """Publishes to the engine, and hands out what it delivers."""

    def __init__(
        self,
        connection: EngineConnection,
        *,
        lease: float = LEASE_SECONDS,
        api: PodApi | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``lease`` is the consumers' ack wait in seconds. ``api`` is asked where there is a quota of events."""
        super().__init__(connection, clock=clock)
        self.leases = Leases(connection, seconds=lease)
        self.keys = KeyedEvents(self, self.leases)
        self._limit = WaitingLimit(connection)
        self._rate = EventRate(api)
        self._handle: DeliveryHandler = _nobody
        self._running: set[asyncio.Task[None]] = set()
        self._in_flight = InFlightMessages()
        self._pullers: tuple[Puller, ...] = ()
        self._renewing: asyncio.Task[None] | None = None

    @property
    def in_flight(self) -> int:
        """Events that this pod holds."""
        return len(self._running)

    async def publish(self, metadata: EventMetadata, payload: bytes, *, until: float | None = None) -> bool:
        """See EventQueue."""
        await self._limit.check()
        await self._rate.check(self._limit.events_per_second)
        placed = placement(self.streams, metadata, until=until)
        if placed.twin is not None and await self.accepted_before(placed.twin):
            return False
        return await self._store(placed, metadata, payload, has_token=until is None)

    async def requeue(self, metadata: EventMetadata, payload: bytes) -> None:
        """See EventQueue."""
        # Not deduplicated by its id: it was accepted already. It may come to one key after another.
        moved_to = (
            f"{metadata.run}/lane/{metadata.priority}"
            if metadata.key is None and metadata.priority
            else f"{metadata.run}/key/{metadata.key_hash}"
        )
        placed = placement(self.streams, metadata, deduplicated_by=moved_to)
        await self._store(placed, metadata, payload, has_token=True)

    async def _store(
        self, placed: Placement, metadata: EventMetadata, payload: bytes, *, has_token: bool
    ) -> bool:
        """``has_token``: whether an event with a key makes its token come, so that a pod takes it."""
        stored = await self.store(placed.subject, payload, placed.headers)
        if stored and has_token and metadata.key is not None:
            try:
                await self.publish_token(metadata.key_hash)
            except QueueFullError as error:
                # The event is stored, and its key is found once there is room. Were it deleted, the engine would still
                # take it for a duplicate when it is sent again.
                logger.warning("A key waits for room in the queue, for a minute at least: %s", reason(error))
        return stored

    async def run(self, handle: DeliveryHandler, *, capacity: int, cancel: Callable[[str], None]) -> None:
        """Hand out events to ``handle``, at most ``capacity`` at once, until cancelled. What runs then goes on.

        ``cancel`` is called with the id of a run that is to be cancelled.
        """
        self._handle = handle
        self._in_flight = InFlightMessages(capacity)
        self._renewing = asyncio.create_task(self.leases.run())

        self._pullers = tuple(map(self._puller, ALL_LANES))
        self.connection.on_connect.extend(puller.connected for puller in self._pullers)
        tasks = [asyncio.create_task(puller.run()) for puller in self._pullers]
        tasks.append(asyncio.create_task(self.keys.sweep()))
        tasks.append(asyncio.create_task(self._listen(cancel)))
        try:
            await asyncio.gather(*tasks)
        finally:
            self.keys.stopping = True
            await cancel_and_wait(*tasks)

    def _puller(self, lane: Lane) -> Puller:
        room = partial(self._in_flight.room, lane)
        if isinstance(lane, Due):
            return Puller(self.connection, self.streams.later, PODS, take=self._take_due, room=room)
        take = partial(self._take_event, lane)
        return Puller(self.connection, self.streams.queue, consumer_of(lane), take=take, room=room)

    async def _listen(self, cancel: Callable[[str], None]) -> None:
        """Hear of runs that are to be cancelled."""

        async def cancelled(message: Msg) -> None:
            with contextlib.suppress(ValueError, TypeError, KeyError):
                cancel(json.loads(message.data)["run"])

        while True:
            await self.connection.connected.wait()
            client = self.connection.client
            try:
                await client.subscribe(self.streams.control, cb=cancelled)
            except (nats.errors.Error, OSError) as error:
                logger.warning("Cancellations cannot be followed, trying again: %s", reason(error))
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                await self.connection.replaced(client)

    async def drain(self, seconds: float) -> None:
        """Wait for what runs, for ``seconds`` at most; what is not done then is stopped, and comes again."""
        if self._running:
            await asyncio.wait(set(self._running), timeout=max(seconds, 0))
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(set(self._running), timeout=3)
        if self._renewing is not None:
            self._renewing.cancel()

    def _take_event(self, lane: Lane, message: Msg) -> None:
        parts, lease = queued_parts(message.subject), self.leases.add(message)
        if parts[:1] == [KEY_TOKEN] and len(parts) > 1:
            self._start(lane, lease, self.keys.serve(lease, parts[1], self._handle))
        else:
            self._start(lane, lease, self._deliver(lease))

    def _take_due(self, message: Msg) -> None:
        run = subject_parts(message.subject)[0]
        lease = self.leases.add(message)
        if run.startswith(f"{KEY_TOKEN}-"):
            key_hash = run.removeprefix(f"{KEY_TOKEN}-")
            self._start(Due.DUE, lease, self._moved(lease, lambda: self.publish_token(key_hash)))
        else:
            self._start(Due.DUE, lease, self._deliver(lease))

    def _start(self, lane: Lane, lease: Lease, work: Coroutine[Any, Any, None]) -> None:
        def runs(value: bool) -> None:
            self._in_flight.runs(lane, value)
            self._wake()

        def ended(task: asyncio.Task[None]) -> None:
            lease.slot_changed = ignored
            self._in_flight.remove(lane, has_run=lease.has_slot)
            self._ended(task)

        self._in_flight.add(lane)
        lease.slot_changed = runs
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("An event comes again: %s", reason(error), exc_info=error)
        self._wake()

    def _wake(self) -> None:
        for puller in self._pullers:
            puller.wake()

    async def _deliver(self, lease: Lease) -> None:
        try:
            metadata = EventMetadata.parse(lease.message.headers)
        except InvalidEventError as error:
            logger.error("Removed a message that is no event: %s", reason(error))
            await self._settle(lease)
            return
        if lease.deliveries > 1:
            self.leases.redelivered += 1
        if metadata.key is not None and metadata.failure is None:
            # It waited for its time, and queues up behind its key's events now.
            # If it was moved before, it may have begun since, and have done steps.
            moved = replace(metadata, has_steps=metadata.has_steps or lease.deliveries > 1)
            await self._moved(lease, lambda: self.requeue(moved, lease.message.data))
            return
        try:
            await self._handle(_QueueDelivery(self, lease, metadata))
        finally:
            self.leases.remove(lease)

    async def _moved(self, lease: Lease, store: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Acknowledge a message once it is stored elsewhere; while that cannot be done it comes again."""
        try:
            await store()
            await lease.acknowledge()
        except EventsUnavailableError as error:
            logger.error(
                "An event cannot be queued behind its key, and is tried again later: %s", reason(error)
            )
            await lease.release()
        finally:
            self.leases.remove(lease)

    async def _settle(self, lease: Lease) -> None:
        try:
            await lease.acknowledge()
        finally:
            self.leases.remove(lease)


async def _nobody(delivery: Delivery) -> None:
    raise RuntimeError(f"Nobody runs {delivery.metadata.task}")


class _QueueDelivery:
    """See Delivery: an event without a key."""

    def __init__(self, storage: EngineStorage, lease: Lease, metadata: EventMetadata) -> None:
        self._storage = storage
        self._lease = lease
        self._was_released = False
        self.metadata = metadata
        self.payload: bytes = lease.message.data
        self.key_hash: str | None = None

    @property
    def held(self) -> bool:
        """See Delivery."""
        return self._lease.held

    @property
    def message(self) -> tuple[str, int]:
        """See Delivery."""
        return self._lease.place

    async def interruptions(self) -> int:
        """See Delivery. That it was handed out before says only that one pod may have begun with it."""
        if self._lease.deliveries == 1:
            return 0
        state = await self._storage.runs.state(self.metadata.run)
        # What is kept may be of an attempt that ended by itself since.
        if state is None or state.metadata.attempt != self.metadata.attempt:
            return 1
        self._was_released = state.metadata.interruptions == RELEASED
        return state.metadata.interruptions + 1

    async def begins(self, interruptions: int) -> None:
        """See Delivery."""
        self._lease.has_slot = True
        if interruptions or self._was_released:
            await self._storage.runs.save_state(replace(self.metadata, interruptions=interruptions), 0)

    async def done(self) -> None:
        """See Delivery."""
        if self._was_released:
            await self._storage.runs.forget_steps(self.metadata.run)
        await self._lease.acknowledge()

    async def wait(self, metadata: EventMetadata, until: float, waits: Collection[OpenWait] = ()) -> bool:
        """See Delivery."""
        storage, run = self._storage, metadata.run
        await storage.store_waiting(metadata, self.payload, until + self._lease.engine_ahead)
        # An event that comes from now on finds the stored attempt.
        await storage.waits.begin(waits)
        cancelled = await storage.remove_if_cancelled(run, storage.streams.waiting(run))
        await self._lease.acknowledge()
        return not cancelled

    async def dead_letter(self, metadata: EventMetadata, error: str) -> None:
        """See Delivery."""
        await self._storage.dead_letter(metadata, self.payload, error)

    async def set_aside(self, metadata: EventMetadata, until: float) -> bool:
        """See Delivery."""
        return await self.wait(metadata, until)

    async def release(self) -> None:
        """See Delivery."""
        if self.held:
            await self._storage.runs.save_released(self.metadata)
        await self._lease.release()

    async def ack_duplicate(self) -> None:
        """See Delivery."""
        await self._lease.acknowledge()
