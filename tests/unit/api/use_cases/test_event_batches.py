"""Events that are sent together: one that is refused takes none with it, and the history has the others."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tieline_api import errors
from tieline_api.dependencies import Dependencies
from tieline_api.use_cases import run_actions
from tieline_api.use_cases.event_batches import BatchEvent, publish_all
from tieline_core.engine.publisher import Published
from tieline_core.identity.ids import new_id
from tieline_protocol.event_streams import EventStreams
from tieline_protocol.events import EventMetadata
from tieline_protocol.run_records import RunRecord

pytestmark = pytest.mark.fast

STREAMS = EventStreams(new_id(), new_id())
PLATFORM = cast(Dependencies, None)


def event(number: int, *, key: str | None = None) -> BatchEvent:
    metadata = EventMetadata(run=new_id(), kind="event", task="booked", queued_at=1.0, key=key)
    return BatchEvent(metadata=metadata, payload=str(number).encode(), at=None)


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The engine refuses the payload 13, and has 7 already; the records of each message of the history."""
    messages: list[list[str]] = []

    async def store(
        _: Any, streams: EventStreams, metadata: EventMetadata, payload: bytes, **options: Any
    ) -> tuple[Published, RunRecord]:
        if payload == b"13":
            raise errors.unavailable("The event engine is full")
        record = RunRecord(
            id=metadata.run, kind="event", task="booked", status="queued", attempt=0, queued_at=1.0, at=1.0
        )
        return Published("stream", 1, duplicate=payload == b"7"), record

    async def first_run(*_: Any) -> str:
        return "first"

    async def record_state(_: Any, __: Any, *records: RunRecord) -> None:
        messages.append([one.id for one in records])

    monkeypatch.setattr(run_actions, "store", store)
    monkeypatch.setattr(run_actions, "first_run", first_run)
    monkeypatch.setattr(run_actions, "record_state", record_state)
    return messages


async def test_each_event_has_its_own_answer(recorded: list[list[str]]) -> None:
    events = [event(number, key="ann" if number % 2 else None) for number in range(1, 15)]
    found = await publish_all(PLATFORM, STREAMS, events)
    refused = [number for number, one in enumerate(found, 1) if one.error is not None]
    again = [(number, one.run) for number, one in enumerate(found, 1) if one.duplicate]
    assert (refused, again) == ([13], [(7, "first")])
    (message,) = recorded
    expected = [one.metadata.run for number, one in enumerate(events, 1) if number not in (7, 13)]
    assert sorted(message) == sorted(expected)


async def test_if_all_are_refused_the_request_is(recorded: list[list[str]]) -> None:
    with pytest.raises(errors.ApiError, match="full"):
        await publish_all(PLATFORM, STREAMS, [event(13), event(13)])
    assert recorded == []


async def test_the_history_has_many_events_in_few_messages(recorded: list[list[str]]) -> None:
    await publish_all(PLATFORM, STREAMS, [event(number) for number in range(100, 1100)])
    assert [len(one) for one in recorded] == [500, 500]
