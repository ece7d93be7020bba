"""Events that are sent together: each is stored for itself, and the history has them in a few messages."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tieline_api.dependencies import Dependencies
from tieline_api.errors import ApiError
from tieline_api.use_cases import run_actions
from tieline_common.chains import in_chains
from tieline_protocol.event_streams import EventStreams
from tieline_protocol.events import EventMetadata
from tieline_protocol.run_records import RunRecord

_AT_ONCE = 16
_RECORDS = 500
"""Of a message of the history, as pods write it."""


@dataclass(frozen=True, kw_only=True)
class BatchEvent:
    """An event that was checked."""

    metadata: EventMetadata
    payload: bytes
    at: datetime | None


@dataclass(frozen=True, kw_only=True)
class Stored:
    """What became of an event. It is refused if there is an error."""

    run: str | None
    duplicate: bool = False
    error: ApiError | None = None


async def publish_all(
    platform: Dependencies, streams: EventStreams, events: Sequence[BatchEvent]
) -> list[Stored]:
    """Stores events, those of a key in their order. Raises ApiError if none could be stored."""
    records: list[RunRecord] = []

    async def store(event: BatchEvent) -> Stored:
        try:
            stored, record = await run_actions.store(
                platform, streams, event.metadata, event.payload, at=event.at
            )
            if stored.duplicate:
                run = await run_actions.first_run(platform, streams, event.metadata, stored)
                return Stored(run=run, duplicate=True)
        except ApiError as error:
            return Stored(run=None, error=error)
        records.append(record)
        return Stored(run=record.id)

    def key_of(event: BatchEvent) -> str | None:
        # Whatever the task: keys may be shared, which the code alone knows.
        return event.metadata.key

    found = await in_chains(events, store, chain=key_of, at_once=_AT_ONCE)
    refusals = [one.error for one in found if one.error is not None]
    if len(refusals) == len(found):
        raise refusals[0]
    for start in range(0, len(records), _RECORDS):
        await run_actions.record_state(platform, streams, *records[start : start + _RECORDS])
    return found
