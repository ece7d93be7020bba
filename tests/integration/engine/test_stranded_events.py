"""An event that the engine keeps and never hands out is run, unless its run has ended. What works is left alone."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext

from tests.harness.processes.nats_server import NatsServer
from tieline_core.engine.publisher import publish_event
from tieline_core.engine.streams import StreamLimits, ensure_history
from tieline_core.identity.ids import new_id
from tieline_operator.engine.connection import account_client
from tieline_operator.engine.keys import EngineKeys
from tieline_operator.engine.stranded_events import OLD, StrandedEvents
from tieline_protocol import run_records
from tieline_protocol.event_streams import PODS, EventStreams
from tieline_protocol.events import HEADER, EventMetadata
from tieline_protocol.run_records import RunRecord

LIMITS = StreamLimits(queue_bytes=1 << 24, runs_bytes=1 << 24, history_bytes=1 << 24)


@dataclass
class Stage:
    """An environment, and the operator's look at it."""

    engine: NatsServer
    admin: Client
    platform: Client
    streams: EventStreams
    later: timedelta = 2 * OLD
    """How far the operator's clock is ahead."""
    stranded: StrandedEvents = field(init=False)

    def __post_init__(self) -> None:
        created = datetime(2026, 1, 1, tzinfo=UTC)
        keys = EngineKeys(trust=self.engine.trust, encryption_key="", release="ours", created=created)
        self.stranded = StrandedEvents(
            lambda: [self.streams],
            keys=lambda: keys,
            open_account=lambda signer: account_client([self.engine.url], signer),
            now=lambda: datetime.now(UTC) + self.later,
        )

    @property
    def jetstream(self) -> JetStreamContext:
        return self.admin.jetstream()

    async def publish(self, *, key: str | None = None, at: datetime | None = None) -> EventMetadata:
        metadata = EventMetadata(run=new_id(), kind="event", task="order", queued_at=1, key=key)
        await publish_event(self.jetstream, self.streams, metadata, b'"A-1"', at=at, seconds=5)
        return metadata

    async def strand(self) -> None:
        """Has the consumer count all that is there as acknowledged, as an engine that was killed may do."""
        info = await self.jetstream.stream_info(self.streams.queue)
        content = json.dumps({"seq": info.state.last_seq + 1}).encode()
        answer = await self.admin.request(f"$JS.API.CONSUMER.RESET.{self.streams.queue}.{PODS}", content)
        assert "error" not in json.loads(answer.data), answer.data
        consumer = await self.jetstream.consumer_info(self.streams.queue, PODS)
        assert (consumer.num_pending, consumer.num_ack_pending) == (0, 0)

    async def queued(self) -> int:
        return (await self.jetstream.stream_info(self.streams.queue)).state.messages

    async def waiting(self) -> int:
        return (await self.jetstream.stream_info(self.streams.later)).state.messages

    async def handed_out(self, stream: str) -> list[Msg]:
        """What a pod gets of a stream, and does not acknowledge yet."""
        # Messages do not come by the prefix by which consumers are managed.
        jetstream = JetStreamContext(self.admin)
        subscription = await jetstream.pull_subscribe_bind(consumer=PODS, stream=stream)
        return await subscription.fetch(1, timeout=5)


@pytest.fixture
async def stage(engine: NatsServer) -> AsyncIterator[Stage]:
    streams = EventStreams(new_id(), new_id())
    await engine.make_environment(streams, LIMITS)
    platform = await engine.admin()
    await ensure_history(platform.jetstream(), streams.organisation, LIMITS)
    admin = await engine.environment(streams)
    yield Stage(engine, admin, platform, streams)
    await admin.close()
    await platform.close()


async def _twice(stage: Stage) -> None:
    for _ in range(2):
        await stage.stranded.look()


async def test_an_event_that_never_ran_is_handed_out_again_with_its_run_and_payload(stage: Stage) -> None:
    metadata = await stage.publish()
    await stage.strand()
    await stage.stranded.look()
    assert (await stage.queued(), await stage.waiting()) == (1, 0), "one look is not enough"
    stage.later = timedelta()
    await stage.stranded.look()
    stage.later = 2 * OLD
    await stage.stranded.look()
    assert await stage.queued() == 1, "an event that may be on its way is left alone"
    stage.stranded._now = _clock(2 * OLD, timedelta())
    await stage.stranded.look()
    assert await stage.queued() == 0
    (message,) = await stage.handed_out(stage.streams.later)
    found = EventMetadata.parse(message.headers)
    assert (found.run, found.task, message.data) == (metadata.run, "order", b'"A-1"')
    await _twice(stage)
    assert await stage.waiting() == 1, "it is handed out once"


def _clock(*ahead: timedelta) -> Callable[[], datetime]:
    """Ahead for the first question, and right for when the event is to come."""
    times = iter(ahead)
    return lambda: datetime.now(UTC) + next(times, timedelta())


async def _in_history(stage: Stage, run: str, status: run_records.RunStatus) -> None:
    record = RunRecord(
        id=run, kind="event", task="order", status=status, attempt=1, attempts=2, queued_at=1, at=2
    )
    await stage.platform.jetstream().publish(stage.streams.history, run_records.encode([record]))


async def _succeeded(stage: Stage, run: str) -> None:
    await _in_history(stage, run, "running")
    await _in_history(stage, new_id(), "running")
    await _in_history(stage, run, "succeeded")


async def _marked(stage: Stage, run: str) -> None:
    await stage.jetstream.publish(stage.streams.ended(run), b"")


async def _dead(stage: Stage, run: str) -> None:
    await stage.jetstream.publish(stage.streams.dead(run), b"")


@pytest.mark.parametrize("end", [_succeeded, _marked, _dead])
async def test_an_event_whose_run_has_ended_is_not_run_again(
    stage: Stage, end: Callable[[Stage, str], Awaitable[None]]
) -> None:
    metadata = await stage.publish()
    await stage.strand()
    await end(stage, metadata.run)
    await _twice(stage)
    assert (await stage.queued(), await stage.waiting()) == (0, 0)


async def test_a_run_that_waits_for_its_next_attempt_keeps_it(stage: Stage) -> None:
    metadata = await stage.publish()
    await stage.strand()
    again = EventMetadata(run=metadata.run, kind="event", task="order", queued_at=1, attempt=2)
    at = datetime.now(UTC) + timedelta(hours=1)
    await publish_event(
        stage.jetstream, stage.streams, again, b"", at=at, deduplicated_by=f"{metadata.run}/2", seconds=5
    )
    await _twice(stage)
    assert (await stage.queued(), await stage.waiting()) == (0, 1)
    kept = await stage.jetstream.get_msg(stage.streams.later, subject=stage.streams.waiting(metadata.run))
    assert EventMetadata.parse(kept.headers).attempt == 2


async def test_a_run_that_is_under_way_by_the_history_is_run_again(stage: Stage) -> None:
    metadata = await stage.publish()
    await stage.strand()
    await _in_history(stage, metadata.run, "running")
    await _twice(stage)
    assert (await stage.queued(), await stage.waiting()) == (0, 1)


async def test_a_key_whose_token_is_stranded_goes_on(stage: Stage) -> None:
    await stage.publish(key="ann")
    await stage.strand()
    await _twice(stage)
    assert await stage.queued() == 2
    (token,) = await stage.handed_out(stage.streams.queue)
    assert HEADER not in (token.headers or {})


async def test_events_that_pods_have_or_will_get_are_left_alone(stage: Stage) -> None:
    await stage.publish()
    await stage.strand()
    await _twice(stage)
    assert await stage.queued() == 0
    for _ in range(3):
        await stage.publish()
    await stage.publish(key="ann")
    first, second = [(await stage.handed_out(stage.streams.queue))[0] for _ in range(2)]
    await second.ack_sync()
    await _twice(stage)
    assert await stage.queued() == 4
    await first.ack_sync()
    await _twice(stage)
    assert await stage.queued() == 3
