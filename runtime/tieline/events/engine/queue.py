"""The EventQueue of a pod: its environment's streams in the engine (see ``tieline_protocol.event_streams``)."""

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import nats.errors
from nats.aio.msg import Msg

from tieline.errors import reason
from tieline.events.engine.connection import EngineConnection, RefusedByEngineError, parsed
from tieline.events.engine.deliveries import Lease, Leases
from tieline.events.engine.keys import KeyedEvents
from tieline.events.engine.pull import Puller
from tieline.events.queue import Delivery, DeliveryHandler, EventsUnavailableError, QueueFullError
from tieline_protocol.event_streams import KEY_TOKEN, LEASE_SECONDS, EventStreams, hashed, subject_parts
from tieline_protocol.events import (
    HEADER,
    MESSAGE_ID,
    SCHEDULE,
    SCHEDULE_TARGET,
    EventMetadata,
    InvalidEventError,
)

logger = logging.getLogger("tieline.events")

_PUBLISH_ATTEMPTS = 3
_RETRY_SECONDS = 1.0
_TAKEN = "maximum messages per subject exceeded"
_WRONG_LAST_SEQUENCE = 10071
_TTL = "Nats-TTL"
_UNTIL_HEADER = "Tieline-Until"
_STEPS_TTL = "1440h"
"""Longer than most runs sleep; what a pod that was paused adds to a run that has ended goes by itself."""
_ENDED_TTL = "1h"
ERROR_HEADER = "Tieline-Error"
_MAX_ERROR = 1000


class EngineQueue:
    """Publishes to the engine, and hands out what it delivers."""

    def __init__(
        self,
        connection: EngineConnection,
        *,
        lease: float = LEASE_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``lease`` is the consumers' ack wait in seconds."""
        self.connection = connection
        self.clock = clock
        self.streams: EventStreams = connection.streams
        self.leases = Leases(connection, seconds=lease)
        self.keys = KeyedEvents(self)
        self.redelivered = 0
        """Events that came again, since whoever had them did not say what became of them."""
        self.handle: DeliveryHandler = _nobody
        self._running: set[asyncio.Task[None]] = set()
        self._pullers: tuple[Puller, ...] = ()
        self._renewing: asyncio.Task[None] | None = None

    @property
    def in_flight(self) -> int:
        """Events that this pod holds."""
        return len(self._running)

    async def publish(self, metadata: EventMetadata, payload: bytes, *, until: float | None = None) -> bool:
        """See EventQueue."""
        headers = {HEADER: metadata.header(), MESSAGE_ID: metadata.message_id}
        if until is not None:
            return await self.store_until(
                self.streams.waiting(metadata.run), self.streams.due(metadata.run), payload, headers, until
            )
        if metadata.key is None:
            return await self.store(self.streams.event(metadata.task, metadata.run), payload, headers)
        return await self._store_keyed(hashed(metadata.key), metadata, payload, headers)

    async def requeue(self, metadata: EventMetadata, payload: bytes) -> None:
        """See EventQueue."""
        # Not deduplicated by its id: it was accepted already.
        headers = {HEADER: metadata.header(), MESSAGE_ID: f"{metadata.run}/key"}
        await self._store_keyed(hashed(metadata.key or ""), metadata, payload, headers)

    async def _store_keyed(
        self, key: str, metadata: EventMetadata, payload: bytes, headers: Mapping[str, str]
    ) -> bool:
        stored = await self.store(self.streams.keyed_event(key, metadata.run), payload, headers)
        if stored:
            try:
                await self.publish_token(key)
            except QueueFullError:
                # It was not accepted, so it must not be run.
                await self.keys.delete_run(key, metadata.run)
                raise
        return stored

    async def publish_token(self, key_hash: str, headers: Mapping[str, str] = MappingProxyType({})) -> None:
        """Say that a key has events; there is one such message at a time. Raises EventsUnavailableError."""
        await self.store(self.streams.key_token(key_hash), b"", headers)

    async def store_until(
        self, subject: str, target: str, payload: bytes, headers: Mapping[str, str], until: float
    ) -> bool:
        """Keep a message that comes to ``target`` at a time. Raises EventsUnavailableError."""
        at = datetime.fromtimestamp(until, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return await self.store(subject, payload, {**headers, SCHEDULE: f"@at {at}", SCHEDULE_TARGET: target})

    async def store(self, subject: str, payload: bytes, headers: Mapping[str, str]) -> bool:
        """Store a message; False when it is there already. Raises EventsUnavailableError."""
        for attempt in range(1, _PUBLISH_ATTEMPTS + 1):
            try:
                answer = parsed(await self.connection.request(subject, payload, headers=headers))
                # A second try of one that was stored is a duplicate, and none of the sender's.
                return attempt > 1 or not answer.get("duplicate", False)
            except RefusedByEngineError as error:
                if _TAKEN in error.description:
                    return attempt > 1
                raise QueueFullError(
                    f"The event engine accepts no more events of this environment now: {error.description}"
                ) from None
            except EventsUnavailableError:
                if attempt == _PUBLISH_ATTEMPTS:
                    raise
                await asyncio.sleep(0.2 * attempt)
        raise AssertionError("unreachable")

    async def step_result(self, run: str, name: str, occurrence: int) -> bytes | None:
        """See EventQueue."""
        subject = self.streams.step(run, name, occurrence)
        found = await self.connection.get(f"{self.streams.runs}.{subject}")
        return found.data if found else None

    async def knows(self, run: str) -> bool:
        """See EventQueue."""
        streams = self.streams
        return (
            await self.connection.get(streams.runs, seq=1, next_by_subj=streams.all_of_run(run)) is not None
        )

    async def save_step(self, run: str, name: str, occurrence: int, content: bytes) -> bool:
        """See EventQueue."""
        headers = {"Nats-Expected-Last-Subject-Sequence": "0", _TTL: _STEPS_TTL}
        try:
            parsed(
                await self.connection.request(
                    self.streams.step(run, name, occurrence), content, headers=headers
                )
            )
        except RefusedByEngineError as error:
            if error.code == _WRONG_LAST_SEQUENCE:
                return False
            raise EventsUnavailableError(
                f"The event engine keeps no more steps of this environment now: {error.description}"
            ) from None
        return True

    async def forget_steps(self, run: str) -> None:
        """See EventQueue."""
        await self.store(self.streams.ended(run), b"", {_TTL: _ENDED_TTL})
        for subjects in (self.streams.steps(run), self.streams.run_state(run)):
            try:
                await self.connection.api(f"STREAM.PURGE.{self.streams.runs}", filter=subjects)
            except RefusedByEngineError as error:
                raise EventsUnavailableError(error.description) from None

    async def has_ended(self, run: str) -> bool:
        """See EventQueue."""
        return await self.connection.get(f"{self.streams.runs}.{self.streams.ended(run)}") is not None

    async def knows_delivery(self, key_hash: str) -> bool:
        """See EventQueue."""
        return await self.connection.get(f"{self.streams.runs}.{self.streams.delivery(key_hash)}") is not None

    async def remember_delivery(self, key_hash: str, seconds: float) -> None:
        """See EventQueue."""
        await self.store(self.streams.delivery(key_hash), b"", {_TTL: f"{max(round(seconds), 1)}s"})

    async def state(self, run: str) -> tuple[EventMetadata, float] | None:
        """What ``save_state`` kept. Raises EventsUnavailableError and InvalidEventError."""
        found = await self.connection.get(f"{self.streams.runs}.{self.streams.run_state(run)}")
        if found is None:
            return None
        headers = found.headers or {}
        return EventMetadata.parse(headers), float(headers.get(_UNTIL_HEADER, 0))

    async def save_state(self, metadata: EventMetadata, until: float) -> None:
        """Keep what the next attempt of a run has to know. Raises EventsUnavailableError."""
        headers = {HEADER: metadata.header(), _UNTIL_HEADER: f"{until:.3f}", _TTL: _STEPS_TTL}
        await self.store(self.streams.run_state(metadata.run), b"", headers)

    async def add_history(self, content: bytes) -> None:
        """See EventQueue."""
        try:
            parsed(await self.connection.request(self.streams.history, content))
        except RefusedByEngineError as error:
            raise EventsUnavailableError(error.description) from None

    async def bury(self, metadata: EventMetadata, payload: bytes, error: str) -> None:
        """Keep a dead letter. Raises EventsUnavailableError."""
        headers = {HEADER: metadata.header(), ERROR_HEADER: json.dumps(error[:_MAX_ERROR])}
        await self.store(self.streams.dead(metadata.run), payload, headers)

    async def run(self, handle: DeliveryHandler, *, capacity: int, cancel: Callable[[str], None]) -> None:
        """Hand out events to ``handle``, at most ``capacity`` at once, until cancelled. What runs then goes on.

        ``cancel`` is called with the id of a run that is to be cancelled.
        """
        self.handle = handle
        self._renewing = asyncio.create_task(self.leases.run())

        def room() -> int:
            return capacity - len(self._running)

        self._pullers = (
            Puller(self.connection, self.streams.queue, take=self._take_event, room=room),
            Puller(self.connection, self.streams.later, take=self._take_due, room=room),
        )
        self.connection.on_connect.extend(puller.connected for puller in self._pullers)
        tasks = [asyncio.create_task(puller.run()) for puller in self._pullers]
        tasks.append(asyncio.create_task(self.keys.sweep()))
        tasks.append(asyncio.create_task(self._listen(cancel)))
        try:
            await asyncio.gather(*tasks)
        finally:
            self.keys.stopping = True
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

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

    def _take_event(self, message: Msg) -> None:
        token, *rest = subject_parts(message.subject)
        if token == KEY_TOKEN:
            self._start(self.keys.serve(self.leases.add(message), rest[0]))
        else:
            self._start(self._deliver(self.leases.add(message)))

    def _take_due(self, message: Msg) -> None:
        run = subject_parts(message.subject)[0]
        lease = self.leases.add(message)
        if run.startswith(f"{KEY_TOKEN}-"):
            key_hash = run.removeprefix(f"{KEY_TOKEN}-")
            self._start(self._moved(lease, lambda: self.publish_token(key_hash)))
        else:
            self._start(self._deliver(lease))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("An event comes again: %s", reason(error), exc_info=error)
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
            self.redelivered += 1
        if metadata.key is not None:
            # It waited for its time, and queues up behind its key's events now.
            # If it was moved before, it may have begun since, and have done steps.
            moved = replace(metadata, has_steps=metadata.has_steps or lease.deliveries > 1)
            await self._moved(lease, lambda: self.requeue(moved, lease.message.data))
            return
        try:
            await self.handle(_QueueDelivery(self, lease, metadata))
        finally:
            self.leases.remove(lease)

    async def _moved(self, lease: Lease, store: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Acknowledge a message once it is stored elsewhere; while that cannot be done it comes again."""
        try:
            await store()
            await lease.acknowledge()
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

    def __init__(self, queue: EngineQueue, lease: Lease, metadata: EventMetadata) -> None:
        self._queue = queue
        self._lease = lease
        self.metadata = metadata
        self.payload: bytes = lease.message.data

    @property
    def held(self) -> bool:
        """See Delivery."""
        return self._lease.held

    async def interruptions(self) -> int:
        """See Delivery. That it was handed out before says only that one pod may have begun with it."""
        if self._lease.deliveries == 1:
            return 0
        state = await self._queue.state(self.metadata.run)
        # What is kept may be of an attempt that ended by itself since.
        is_this_one = state is not None and state[0].attempt == self.metadata.attempt
        return (state[0].interruptions if state and is_this_one else 0) + 1

    async def begins(self, interruptions: int) -> None:
        """See Delivery."""
        if interruptions:
            await self._queue.save_state(replace(self.metadata, interruptions=interruptions), 0)

    async def done(self) -> None:
        """See Delivery."""
        await self._lease.acknowledge()

    async def wait(self, metadata: EventMetadata, until: float) -> None:
        """See Delivery."""
        streams = self._queue.streams
        headers = {HEADER: metadata.header()}
        at = until + self._lease.engine_ahead
        await self._queue.store_until(
            streams.waiting(metadata.run), streams.due(metadata.run), self.payload, headers, at
        )
        await self._lease.acknowledge()

    async def bury(self, metadata: EventMetadata, error: str) -> None:
        """See Delivery."""
        await self._queue.bury(metadata, self.payload, error)
