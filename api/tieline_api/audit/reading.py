"""Audit records from the event engine, newest first. Nothing is indexed: a page reads a bounded part of the stream."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import orjson

from tieline_api.engine.requests import EngineRequests
from tieline_api.engine.stream_reader import stream_state
from tieline_core.engine.audit_streams import AuditPart, audit_stream, audit_subject
from tieline_core.engine.stored_messages import StoredMessage

logger = logging.getLogger("tieline.audit")

T = TypeVar("T")

MOST_READ = 5_000
"""Records that are looked through for a page."""
_BATCH = 500


@dataclass(frozen=True)
class AuditPage(Generic[T]):
    """A part of the records."""

    found: Sequence[T]
    """Records, newest first."""
    next: int | None
    """The number before which the next page begins; None where the oldest record was reached."""


async def read_newest(
    engine: EngineRequests,
    organisation: str,
    part: AuditPart = AuditPart.CHANGES,
    *,
    before: int | None,
    first: int,
    select: Callable[[int, Mapping[str, Any]], T | None],
) -> AuditPage[T]:
    """At most ``first`` records of a stream, of those with numbers below ``before``, as ``select`` returns them.

    Records for which it returns None are left out. There can be fewer than ``first``, and even none, where many are;
    ``next`` then says where to go on. Raises EngineUnavailableError.
    """
    stream, subject = audit_stream(organisation, part), audit_subject(organisation, part)
    state = await stream_state(engine, stream)
    if state is None:
        return AuditPage([], None)
    end = state.last + 1 if before is None else min(before, state.last + 1)
    oldest_read = max(state.first, end - MOST_READ)
    found: list[T] = []
    while end > oldest_read:
        start = max(oldest_read, end - _BATCH)
        for message in reversed(await _between(engine, stream, subject, start, end)):
            record = _decoded(message)
            selected = None if record is None else select(message.sequence, record)
            if selected is None:
                continue
            found.append(selected)
            if len(found) == first:
                return AuditPage(found, message.sequence if message.sequence > state.first else None)
        end = start
    return AuditPage(found, end if end > state.first else None)


async def _between(
    engine: EngineRequests, stream: str, subject: str, start: int, end: int
) -> Sequence[StoredMessage]:
    """The messages from one number up to before another. The engine may answer with a part of them at a time."""
    found: list[StoredMessage] = []
    while start < end:
        page = await engine.page(stream, subject, start, min(_BATCH, end - start))
        if not page:
            break
        found += [message for message in page if message.sequence < end]
        start = page[-1].sequence + 1
    return found


def _decoded(message: StoredMessage) -> Mapping[str, Any] | None:
    try:
        record = orjson.loads(message.data)
    except ValueError:
        record = None
    if not isinstance(record, dict):
        logger.warning("An audit record cannot be read", extra={"sequence": message.sequence})
        return None
    return record
