"""What a pod keeps in its environment's streams, and what it reads there (see ``tieline_protocol.event_streams``)."""

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from nats.aio.msg import Msg

from tieline.events.engine.connection import EngineConnection, RefusedByEngineError, parsed
from tieline.events.engine.delivery_room import DeliveryRoom
from tieline.events.queue import (
    EventsUnavailableError,
    MessageTooLargeError,
    QueueFullError,
    RunTakenOver,
    StepsClaim,
)
from tieline_common.backoff import exponential, jitter
from tieline_protocol.event_streams import EXPECTED_SEQUENCE, TTL, WRONG_SEQUENCE, EventStreams
from tieline_protocol.events import (
    HEADER,
    MESSAGE_ID,
    NO_ROLLUP,
    ROLLUP,
    SCHEDULE,
    SCHEDULE_TARGET,
    EventMetadata,
    InvalidEventError,
)

logger = logging.getLogger("tieline.events")

_PUBLISH_ATTEMPTS = 3
_READ_ATTEMPTS = 12
_FIRST_PAUSE = 0.005
_LONGEST_PAUSE = 1.0
_TAKEN = "maximum messages per subject exceeded"
_EXPECTED_SUBJECT = "Nats-Expected-Last-Subject-Sequence-Subject"
"""The header with another subject than the message's own, which may have wildcards."""
_TOO_LARGE = (10054, 10097)
"""JetStream's codes: of a message, and of its headers (64 KiB)."""
_NOT_FOUND = 10043
_GONE = ("not found", "no message found")
"""What JetStream says of a message that is not there, which for most has no code of its own."""
_UNTIL_HEADER = "Tieline-Until"
_STEPS_TTL = "1440h"
"""Longer than most runs sleep; what a pod that was paused adds to a run that has ended goes by itself."""
_ENDED_TTL = "1h"
ERROR_HEADER = "Tieline-Error"
_MAX_ERROR = 1000
_CUT_ERROR = 100
RELEASED = -1
"""In the place of the number of interruptions: whoever had the event let go of it alive, so that the next one counts
none."""


class EngineStorage:
    """Stores and reads messages. All of it raises EventsUnavailableError."""

    def __init__(self, connection: EngineConnection, *, clock: Callable[[], float] = time.time) -> None:
        self.connection = connection
        self.clock = clock
        self.streams: EventStreams = connection.streams
        self._delivery_room = DeliveryRoom(connection)

    async def store(self, subject: str, payload: bytes, headers: Mapping[str, str]) -> bool:
        """Store a message; False when it is there already. Raises QueueFullError and MessageTooLargeError, too.

        After an attempt without an answer, a duplicate is this message or one that somebody else has stored.
        """
        for attempt in range(1, _PUBLISH_ATTEMPTS + 1):
            try:
                answer = parsed(await self.connection.request(subject, payload, headers=headers))
                if not answer.get("duplicate", False):
                    return True
                return attempt > 1 and await self._is_stored(answer, headers)
            except RefusedByEngineError as error:
                if _TAKEN in error.description:
                    return attempt > 1
                if error.code in _TOO_LARGE:
                    raise MessageTooLargeError(
                        f"The event engine takes no such message: {error.description}"
                    ) from None
                raise QueueFullError(
                    f"The event engine accepts no more events of this environment now: {error.description}"
                ) from None
            except MessageTooLargeError:
                raise
            except EventsUnavailableError:
                if attempt == _PUBLISH_ATTEMPTS:
                    raise
                await asyncio.sleep(0.2 * attempt)
        raise AssertionError("unreachable")

    async def _is_stored(self, answer: Mapping[str, Any], headers: Mapping[str, str]) -> bool:
        """Whether it is an event's own message that JetStream took it for a duplicate of.

        False as well where that message has run already, so that nobody can tell.
        """
        found = await self.connection.get(answer["stream"], seq=answer["seq"])
        try:
            return found is not None and _run_of(found.headers) == _run_of(headers)
        except InvalidEventError:
            return False

    async def store_until(
        self, subject: str, target: str, payload: bytes, headers: Mapping[str, str], until: float
    ) -> bool:
        """Keep a message that comes to ``target`` at a time."""
        at = datetime.fromtimestamp(until, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return await self.store(subject, payload, {**headers, SCHEDULE: f"@at {at}", SCHEDULE_TARGET: target})

    async def store_waiting(self, metadata: EventMetadata, payload: bytes, until: float) -> None:
        """Keep an accepted event until a time."""
        waiting, due = self.streams.waiting(metadata.run), self.streams.due(metadata.run)
        await _first_that_fits(
            metadata, lambda one: self.store_until(waiting, due, payload, {HEADER: one.header()}, until)
        )

    async def accepted_before(self, subject: str, message_id: str) -> bool:
        """Whether the stream of ``subject`` knows an event's id, which then is in its window.

        It is asked to store a message that it refuses, and says before that if it has one of this id.
        """
        headers = {MESSAGE_ID: message_id, ROLLUP: NO_ROLLUP}
        try:
            answer = parsed(await self.connection.request(subject, headers=headers))
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
        streams = self.streams
        if await self.connection.get(f"{streams.runs}.{streams.cancelled(run)}") is None:
            return False
        await self._purge(streams.later, subject)
        return True

    async def _purge(self, stream: str, subjects: str) -> None:
        try:
            await self.connection.api(f"STREAM.PURGE.{stream}", filter=subjects)
        except RefusedByEngineError as error:
            raise EventsUnavailableError(error.description) from None

    async def delete(self, sequence: int) -> None:
        """Delete a message of the queue's stream."""
        try:
            await self.connection.api(f"STREAM.MSG.DELETE.{self.streams.queue}", seq=sequence, no_erase=True)
        except RefusedByEngineError as error:
            if error.code != _NOT_FOUND and not any(text in error.description for text in _GONE):
                raise EventsUnavailableError(error.description) from None

    async def subjects(self, stream: str, subjects: str) -> set[str]:
        """The subjects of a stream's messages, of those with wildcards. An answer has a part of them."""
        found: set[str] = set()
        offset = 0
        while True:
            try:
                info = await self.connection.api(
                    f"STREAM.INFO.{stream}", subjects_filter=subjects, offset=offset
                )
            except RefusedByEngineError as error:
                raise EventsUnavailableError(error.description) from None
            page = info.get("state", {}).get("subjects") or {}
            found.update(page)
            offset += len(page)
            if not page or offset >= info.get("total", 0):
                return found

    async def step_result(self, run: str, name: str, occurrence: int, *, claim: StepsClaim) -> bytes | None:
        """See EventQueue.

        Any server of a cluster answers, and may be behind. So it is asked for the claim as well, which is younger than
        what is looked for: an answer is the oldest of what is asked for.
        """
        streams = self.streams
        step, ended = streams.step(run, name, occurrence), streams.ended(run)
        wanted = [step, ended, streams.steps_claim(run)]
        for number in range(1, _READ_ATTEMPTS + 1):
            found = await self.connection.get(streams.runs, multi_last=wanted)
            headers = (found and found.headers) or {}
            subject = headers.get("Nats-Subject")
            if found is not None and subject == step:
                return found.data
            if subject == ended:
                # Another pod has run it to its end meanwhile, and let go of the results.
                raise RunTakenOver
            if int(headers.get("Nats-Sequence", 0)) >= claim.number:
                return None
            await asyncio.sleep(jitter(exponential(number, first=_FIRST_PAUSE, cap=_LONGEST_PAUSE)))
        raise EventsUnavailableError("A server of the event engine is behind; try again in a moment")

    async def claim_steps(self, run: str, *, any_kept: bool) -> StepsClaim:
        """See EventQueue. A claim is a message; whoever saves a step says that its own is the last one."""
        subject = self.streams.steps_claim(run)
        if not any_kept:
            nothing = {_EXPECTED_SUBJECT: self.streams.all_of_run(run), EXPECTED_SEQUENCE: "0"}
            number = await self._save_of_step(subject, b"", nothing)
            if number is not None:
                return StepsClaim(number, any_kept=False)
        number = await self._save_of_step(subject, b"", {})
        if number is None:
            raise AssertionError("nothing is expected")
        return StepsClaim(number, any_kept=True)

    async def save_step(
        self, run: str, name: str, occurrence: int, content: bytes, *, claim: StepsClaim
    ) -> None:
        """See EventQueue."""
        subject = self.streams.step(run, name, occurrence)
        claimed = {_EXPECTED_SUBJECT: self.streams.steps_claim(run), EXPECTED_SEQUENCE: str(claim.number)}
        if await self._save_of_step(subject, content, claimed) is None:
            raise RunTakenOver

    async def _save_of_step(self, subject: str, content: bytes, expected: Mapping[str, str]) -> int | None:
        """The message's number; None where what it expects is not so."""
        try:
            answer = parsed(
                await self.connection.request(subject, content, headers={**expected, TTL: _STEPS_TTL})
            )
        except RefusedByEngineError as error:
            if error.code in WRONG_SEQUENCE:
                return None
            raise EventsUnavailableError(
                f"The event engine keeps no more steps of this environment now: {error.description}"
            ) from None
        return int(answer["seq"])

    async def forget_steps(self, run: str) -> None:
        """See EventQueue."""
        marked = await self._mark_ended(run, b"") is not None
        for subjects in (self.streams.steps(run), self.streams.run_state(run)):
            await self._purge(self.streams.runs, subjects)
        # A full stream must not keep runs from ending, as that is what makes room in it.
        if not marked and await self._mark_ended(run, b"") is None:
            logger.warning("There is no room to note that the run %s has ended", run)

    async def _mark_ended(self, run: str, content: bytes) -> bool | None:
        """Whether this is the run's first end; None where there is no room to note it."""
        headers = {EXPECTED_SEQUENCE: "0", TTL: _ENDED_TTL}
        try:
            parsed(await self.connection.request(self.streams.ended(run), content, headers=headers))
        except RefusedByEngineError as error:
            return False if error.code in WRONG_SEQUENCE else None
        return True

    async def claim_end(self, run: str, content: bytes) -> bytes | None:
        """See EventQueue. Where there is no room to note it, it counts as the first."""
        if await self._mark_ended(run, content) is not False:
            return None
        first = await self.end_of(run)
        # This one, where its answer got lost.
        return None if first == content else first

    async def end_of(self, run: str) -> bytes | None:
        """See EventQueue."""
        found = await self.connection.get(f"{self.streams.runs}.{self.streams.ended(run)}")
        return None if found is None else found.data

    async def knows_delivery(self, key_hash: str) -> bool:
        """See EventQueue."""
        return await self.connection.get(f"{self.streams.runs}.{self.streams.delivery(key_hash)}") is not None

    async def remember_delivery(self, key_hash: str, seconds: float) -> None:
        """See EventQueue. Nothing is stored while runs take much of the room."""
        if await self._delivery_room.left():
            await self.store(self.streams.delivery(key_hash), b"", {TTL: f"{max(round(seconds), 1)}s"})

    async def state(self, run: str) -> tuple[EventMetadata, float] | None:
        """What ``save_state`` kept. Raises InvalidEventError, too."""
        found = await self.connection.get(f"{self.streams.runs}.{self.streams.run_state(run)}")
        if found is None:
            return None
        headers = found.headers or {}
        return EventMetadata.parse(headers), float(headers.get(_UNTIL_HEADER, 0))

    async def save_state(self, metadata: EventMetadata, until: float) -> None:
        """Keep what the next attempt of a run has to know."""
        more = {_UNTIL_HEADER: f"{until:.3f}", TTL: _STEPS_TTL}
        subject = self.streams.run_state(metadata.run)
        await _first_that_fits(metadata, lambda one: self.store(subject, b"", {HEADER: one.header(), **more}))

    async def save_released(self, metadata: EventMetadata) -> None:
        """Keep that the pod which lets go of an event did not die with it, if there is room. Raises nothing."""
        with contextlib.suppress(EventsUnavailableError):
            await self.save_state(replace(metadata, interruptions=RELEASED), 0)

    async def add_history(self, content: bytes) -> None:
        """See EventQueue."""
        try:
            parsed(await self.connection.request(self.streams.history, content))
        except RefusedByEngineError as error:
            raise EventsUnavailableError(error.description) from None

    async def bury(self, metadata: EventMetadata, payload: bytes, error: str) -> None:
        """Keep a dead letter, with as much of its error as its headers have room for."""
        subject = self.streams.dead(metadata.run)
        text = error[:_MAX_ERROR]
        clean = replace(metadata, failure=None, failure_type=None, refusals=0)
        for length in (_MAX_ERROR, _CUT_ERROR):
            headers = {ERROR_HEADER: json.dumps(text[:length])}
            try:
                await self.store(subject, payload, {HEADER: clean.header(), **headers})
            except MessageTooLargeError:
                continue
            return
        await _first_that_fits(
            clean, lambda one: self.store(subject, payload, {HEADER: one.header(), **headers})
        )


def _run_of(headers: Mapping[str, str] | None) -> str:
    """Raises InvalidEventError."""
    return EventMetadata.parse(headers).run


async def _first_that_fits(
    metadata: EventMetadata, store: Callable[[EventMetadata], Awaitable[object]]
) -> None:
    """Store the metadata of an accepted event. Where it is too large for a header, some of it is left out.

    Raises MessageTooLargeError where even the rest is too large.
    """
    for one in _shorter(metadata):
        try:
            await store(one)
        except MessageTooLargeError as error:
            refused = error
        else:
            if one is not metadata:
                logger.warning("The metadata of run %s was cut: %s", metadata.run, refused)
            return
    raise refused


def _shorter(metadata: EventMetadata) -> Iterator[EventMetadata]:
    """The metadata, and with less and less of what a run can do without: first of all of the reason for its end."""
    yield metadata
    failure = metadata.failure and metadata.failure[:_CUT_ERROR]
    shorter = replace(metadata, failure=failure, published=(), traceparent=None)
    yield shorter
    if metadata.request is not None:
        yield replace(shorter, request=replace(metadata.request, headers=[]))
