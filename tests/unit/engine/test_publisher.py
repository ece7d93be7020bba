"""Events are published where ``event_streams`` says, and what the engine refuses is told apart."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from nats.js.api import PubAck
from nats.js.errors import APIError, ServerError

from tieline_core.engine.publisher import Published, StreamFullError, is_full, is_task, publish_event
from tieline_core.identity.ids import new_id
from tieline_protocol.event_streams import EventStreams
from tieline_protocol.events import EventMetadata

STREAMS = EventStreams(new_id(), new_id())
FULL = APIError(code=503, err_code=10077, description="maximum bytes exceeded")
NO_ROLLUP = APIError(code=500, err_code=10111, description="rollup not permitted")
TAKEN = APIError(code=503, err_code=10077, description="maximum messages per subject exceeded")


class JetStream:
    """Takes messages, but for those at subjects with an answer of its own."""

    def __init__(
        self,
        refusals: dict[str, APIError] | None = None,
        *,
        duplicate: bool = False,
        known: tuple[str, str] | None = None,
    ) -> None:
        """``known`` is a stream and an id that it has."""
        self.published: list[tuple[str, bytes, dict[str, str]]] = []
        self._refusals = refusals or {}
        self._duplicate = duplicate
        self._known = known

    async def publish(self, subject: str, payload: bytes, **options: Any) -> PubAck:
        if (options["stream"], options["headers"].get("Nats-Msg-Id")) == self._known:
            return PubAck(stream=options["stream"], seq=77, duplicate=True)
        if "Nats-Rollup" in options["headers"]:
            raise NO_ROLLUP
        for part, error in self._refusals.items():
            if part in subject:
                raise error
        self.published.append((subject, payload, options["headers"]))
        return PubAck(stream=options["stream"], seq=len(self.published), duplicate=self._duplicate)


def metadata(**fields: Any) -> EventMetadata:
    return EventMetadata(**{"run": new_id(), "kind": "event", "task": "a.b", "queued_at": 1.0, **fields})


async def publish(jetstream: JetStream, event: EventMetadata, **options: Any) -> Published:
    return await publish_event(jetstream, STREAMS, event, b"1", seconds=1, **options)  # type: ignore[arg-type]


async def test_an_event_without_a_key_is_one_message() -> None:
    jetstream, event = JetStream(), metadata(event_id="7")
    assert await publish(jetstream, event) == Published(STREAMS.queue, 1, duplicate=False)
    ((subject, _, headers),) = jetstream.published
    assert subject == f"ev.{STREAMS.organisation}.{STREAMS.environment}.normal.a/b.{event.run}"
    assert headers["Nats-Msg-Id"] == event.message_id
    assert EventMetadata.parse(headers) == event


@pytest.mark.parametrize(
    ("at", "stream"), [(None, STREAMS.later), (datetime(2026, 11, 24, tzinfo=UTC), STREAMS.queue)]
)
async def test_an_id_is_looked_for_in_the_other_stream_too(at: datetime | None, stream: str) -> None:
    event = metadata(event_id="7", key="ann")
    jetstream = JetStream(known=(stream, event.message_id))
    assert await publish(jetstream, event, at=at) == Published(stream, 77, duplicate=True)
    assert jetstream.published == []


async def test_an_event_with_a_key_comes_before_its_token_which_may_be_there() -> None:
    for refusals in ({}, {"~key": TAKEN}):
        jetstream, event = JetStream(refusals), metadata(key="ann", event_id="7")
        await publish(jetstream, event)
        subjects = [subject for subject, _, _ in jetstream.published]
        expected = [
            STREAMS.keyed_event(event.key_hash, event.run),
            *([] if refusals else [STREAMS.key_token(event.key_hash)]),
        ]
        assert subjects == expected
        assert all("Nats-Msg-Id" not in headers for _, _, headers in jetstream.published[1:])


async def test_an_event_for_whose_token_there_is_no_room_is_accepted_as_pods_find_its_key() -> None:
    jetstream, event = JetStream({"~key": FULL}), metadata(key="ann")
    assert await publish(jetstream, event) == Published(STREAMS.queue, 1, duplicate=False)
    with pytest.raises(StreamFullError):
        await publish(JetStream({"key.": FULL}), event)


async def test_a_delayed_event_waits_for_its_time() -> None:
    jetstream, event = JetStream(), metadata(key="ann")
    await publish(jetstream, event, at=datetime(2026, 11, 24, 10, 0, 0, 123456, UTC))
    ((subject, _, headers),) = jetstream.published
    assert subject == STREAMS.waiting(event.run)
    assert headers["Nats-Schedule"] == "@at 2026-11-24T10:00:00.123Z"
    assert headers["Nats-Schedule-Target"] == STREAMS.due(event.run)


async def test_what_is_no_name_of_a_task_is_not_published() -> None:
    for task in ("", "a b", "*", ">", "a.>", "~key", "x" * 101, "a\n", "ä"):
        assert not is_task(task)
        jetstream = JetStream()
        with pytest.raises(ValueError, match="task"):
            await publish(jetstream, metadata(task=task))
        assert jetstream.published == []
    assert is_task("order.created-2_x")


async def test_a_webhook_with_path_parameters_can_be_run_again() -> None:
    assert not is_task("orders/{orderId}")
    jetstream = JetStream()
    await publish(jetstream, metadata(task="orders/{orderId}"))
    ((subject, _, _),) = jetstream.published
    assert ".orders/{orderId}." in subject
    for task in ("orders/*", "orders/>", "orders/{a b}", "orders/{orderId}/", "/orders"):
        with pytest.raises(ValueError, match="task"):
            await publish(jetstream, metadata(task=task))


def test_full_is_told_from_other_refusals() -> None:
    assert is_full(FULL)
    assert is_full(ServerError(code=500, err_code=10047, description="insufficient storage resources"))
    assert not is_full(TAKEN)
    assert not is_full(ServerError(code=500, err_code=10001, description="other"))
