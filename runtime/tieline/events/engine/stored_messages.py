"""Storing messages in the streams of an environment, as a pod may."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from tieline.events.engine.connection import EngineConnection, RefusedByEngineError, parsed
from tieline.events.queue import EventsUnavailableError, MessageTooLargeError, QueueFullError
from tieline_common.backoff import exponential, jitter
from tieline_engine.refusals import TOO_LARGE, is_taken
from tieline_protocol.events import EventMetadata, InvalidEventError

logger = logging.getLogger("tieline.events")

READ_ATTEMPTS = 12
"""How often servers are asked for what one of them must have."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 1.0
BEHIND = "A server of the event engine is behind; try again in a moment"
_ATTEMPTS = 3
_CUT_ERROR = 100


class StoredMessages:
    """Stores and removes messages. All of it raises EventsUnavailableError."""

    def __init__(self, connection: EngineConnection) -> None:
        self.connection = connection

    async def store(self, subject: str, payload: bytes, headers: Mapping[str, str]) -> bool:
        """Store a message; False when it is there already. Raises QueueFullError and MessageTooLargeError, too.

        After an attempt without an answer, a duplicate is this message or one that somebody else has stored.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                answer = parsed(await self.connection.request(subject, payload, headers=headers))
                if not answer.get("duplicate", False):
                    return True
                return attempt > 1 and await self._is_stored(answer, headers)
            except RefusedByEngineError as error:
                if is_taken(error.code, error.description):
                    return attempt > 1
                if error.code in TOO_LARGE:
                    raise MessageTooLargeError(
                        f"The event engine takes no such message: {error.description}"
                    ) from None
                raise QueueFullError(
                    f"The event engine accepts no more events of this environment now: {error.description}"
                ) from None
            except MessageTooLargeError:
                raise
            except EventsUnavailableError:
                if attempt == _ATTEMPTS:
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

    async def purge(self, stream: str, subjects: str, *, before: int | None = None) -> int:
        """Remove all messages of a stream at subjects; with ``before`` only those with lower numbers. Returns how many
        there were."""
        numbers = {} if before is None else {"seq": before}
        try:
            answer = await self.connection.api(f"STREAM.PURGE.{stream}", filter=subjects, **numbers)
        except RefusedByEngineError as error:
            raise EventsUnavailableError(error.description) from None
        return int(answer.get("purged", 0))

    async def subjects(self, stream: str, subjects: str) -> set[str]:
        """The subjects of a stream's messages, of those with wildcards."""
        found, _ = await self.subjects_and_last(stream, subjects)
        return found

    async def subjects_and_last(self, stream: str, subjects: str) -> tuple[set[str], int]:
        """See ``subjects``; and the number of the last message that the answering server has stored."""
        found: set[str] = set()
        last: int | None = None
        while True:
            # An answer has a part of them.
            try:
                info = await self.connection.api(
                    f"STREAM.INFO.{stream}", subjects_filter=subjects, offset=len(found)
                )
            except RefusedByEngineError as error:
                raise EventsUnavailableError(error.description) from None
            state = info.get("state", {})
            page = state.get("subjects") or {}
            found.update(page)
            last = int(state.get("last_seq", 0)) if last is None else last
            if not page or len(found) >= info.get("total", 0):
                return found, last

    async def subjects_since(self, stream: str, subjects: str, since: int) -> set[str]:
        """See ``subjects``; as a server knows them that has stored the message with the number ``since``."""
        for attempt in range(1, READ_ATTEMPTS + 1):
            # A server that was the leader until a moment ago may answer.
            found, last = await self.subjects_and_last(stream, subjects)
            if last >= since:
                return found
            await read_pause(attempt)
        raise EventsUnavailableError(BEHIND)


async def read_pause(attempt: int) -> None:
    """Wait before servers are asked again."""
    await asyncio.sleep(jitter(exponential(attempt, first=_FIRST_PAUSE, cap=_LONGEST_PAUSE)))


def _run_of(headers: Mapping[str, str] | None) -> str:
    """Raises InvalidEventError."""
    return EventMetadata.parse(headers).run


async def first_that_fits(
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
