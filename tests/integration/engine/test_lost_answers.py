"""A publisher that the engine does not answer is told the run that exists, and only that."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from nats.aio.msg import Msg

from tests.harness.processes.nats_server import NatsServer
from tieline.events.engine.connection import EngineConnection
from tieline.events.engine.queue import EngineQueue
from tieline.events.queue import EventsUnavailableError
from tieline_core.engine.streams import StreamLimits
from tieline_core.identity.ids import new_id
from tieline_protocol.event_streams import EventStreams
from tieline_protocol.events import MESSAGE_ID, EventMetadata

LIMITS = StreamLimits(queue_bytes=1 << 24, runs_bytes=1 << 24)
KINDS = {"free": (None, None), "keyed": ("ann", None), "delayed": (None, 3600.0)}


class Forgetful(EngineConnection):
    """Loses answers: of as many messages with an id as it is told to."""

    to_lose = 0

    async def request(
        self, subject: str, content: bytes = b"", *, headers: Mapping[str, str] | None = None
    ) -> Msg:
        answer = await super().request(subject, content, headers=headers)
        if MESSAGE_ID in (headers or {}) and "Nats-Rollup" not in (headers or {}) and self.to_lose:
            self.to_lose -= 1
            raise EventsUnavailableError("the answer is lost")
        return answer


@pytest.fixture
async def connection(engine: NatsServer, tmp_path: Path) -> AsyncIterator[Forgetful]:
    streams, now = EventStreams(new_id(), new_id()), datetime.now(UTC)
    await engine.make_environment(streams, LIMITS)
    credentials = tmp_path / "engine.creds"
    credentials.write_text(engine.trust.pod_credentials(streams, at=now, expires=now + timedelta(hours=1)))
    made = Forgetful(urls=[engine.url], credentials_file=credentials, streams=streams)
    running = asyncio.create_task(made.run())
    await made.connected.wait()
    yield made
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await made.close()


def _order(kind: str) -> tuple[EventMetadata, float | None]:
    key, delay = KINDS[kind]
    metadata = EventMetadata(
        run=new_id(),
        kind="webhook" if kind == "free" else "event",
        task="order",
        queued_at=1,
        key=key,
        event_id="A-1",
    )
    return metadata, time.time() + delay if delay else None


@pytest.mark.parametrize("kind", KINDS)
async def test_an_event_whose_first_answer_is_lost_is_its_publishers(
    connection: Forgetful, kind: str
) -> None:
    queue = EngineQueue(connection)
    metadata, until = _order(kind)
    connection.to_lose = 2
    assert await queue.publish(metadata, b"{}", until=until)
    assert await _stored(queue) == {metadata.run}


@pytest.mark.parametrize("kind", KINDS)
async def test_a_repeated_event_whose_first_answer_is_lost_is_a_duplicate(
    connection: Forgetful, kind: str
) -> None:
    queue = EngineQueue(connection)
    first, until = _order(kind)
    connection.to_lose = 3
    with pytest.raises(EventsUnavailableError):
        await queue.publish(first, b"{}", until=until)
    connection.to_lose = 1
    assert not await queue.publish(replace(first, run=new_id(), queued_at=2), b"{}", until=until)
    assert await _stored(queue) == {first.run}


async def test_a_repeated_event_is_a_duplicate_also_when_the_first_one_has_run(connection: Forgetful) -> None:
    queue = EngineQueue(connection)
    first, _ = _order("free")
    assert await queue.publish(first, b"{}")
    stream = await connection.api(f"STREAM.INFO.{queue.streams.queue}")
    await queue.delete(stream["state"]["last_seq"])
    connection.to_lose = 1
    assert not await queue.publish(replace(first, run=new_id(), queued_at=2), b"{}")
    assert await _stored(queue) == set()


async def _stored(queue: EngineQueue) -> set[str]:
    """The runs of the events that the engine has."""
    streams = queue.streams
    found = [
        *await queue.subjects(streams.queue, streams.event("*", "*")),
        *await queue.subjects(streams.queue, streams.keyed_event("*", "*")),
        *await queue.subjects(streams.later, streams.waiting("*")),
    ]
    return {one.rsplit(".", 1)[1] for one in found if "~key" not in one}
