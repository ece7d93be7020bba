"""What the engine has acknowledged is there after it was killed, and a full stream refuses instead of dropping."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import nats.js.errors
import pytest

from tests.harness.processes.nats_server import NatsServer, running_nats_server
from tieline_core.engine.streams import StreamLimits
from tieline_core.identity.ids import new_id
from tieline_protocol.event_streams import PODS, EventStreams

EVENTS = 300
LIMITS = StreamLimits(queue_bytes=1 << 24, runs_bytes=1 << 24)


async def test_all_that_was_acknowledged_is_there_after_kills_in_the_middle(tmp_path: Path) -> None:
    streams = EventStreams(new_id(), new_id())
    with running_nats_server(tmp_path) as engine:
        await engine.make_environment(streams, LIMITS)
        pod = await engine.pod(streams)
        jetstream = pod.jetstream(timeout=1)
        acknowledged: set[bytes] = set()
        kills = {int(EVENTS * share): asyncio.Event() for share in (0.3, 0.6)}

        async def publish(number: int) -> None:
            """Tries until the engine says that it has the event; the id makes a second try harmless."""
            content = f"event-{number}".encode()
            while content not in acknowledged:
                try:
                    await jetstream.publish(
                        streams.event("orders", f"run{number}"), content, headers={"Nats-Msg-Id": f"{number}"}
                    )
                    acknowledged.add(content)
                    if kill := kills.get(len(acknowledged)):
                        kill.set()
                except Exception:
                    await asyncio.sleep(0.05)

        async def kill_twice() -> None:
            for kill in kills.values():
                await kill.wait()
                await asyncio.to_thread(engine.kill)
                await asyncio.to_thread(engine.start)

        limit = asyncio.Semaphore(8)

        async def limited(number: int) -> None:
            async with limit:
                await publish(number)

        await asyncio.gather(kill_twice(), *(limited(number) for number in range(EVENTS)))
        await asyncio.to_thread(engine.kill)
        await asyncio.to_thread(engine.start)
        queue = await jetstream.pull_subscribe_bind(consumer=PODS, stream=streams.queue)
        found: list[bytes] = []
        while len(found) < EVENTS:
            for message in await queue.fetch(100, timeout=5):
                found.append(message.data)
                await message.ack_sync()
        assert sorted(found) == sorted(acknowledged)
        await pod.close()


def _begin_block(folder: Path, stream: str) -> None:
    """Leaves what a server leaves that is killed between making the file of its next block and that of its key."""
    (messages,) = folder.glob(f"data/**/streams/{stream}/msgs")
    newest = max(int(one.stem) for one in messages.glob("*.blk"))
    assert (messages / f"{newest}.key").exists()
    (messages / f"{newest + 1}.blk").touch()


async def test_a_kill_between_a_block_and_its_key_loses_no_event(tmp_path: Path) -> None:
    """nats-server 2.15 deletes such a stream, so the command of its container removes the block, which is empty."""
    streams = EventStreams(new_id(), new_id())
    with running_nats_server(tmp_path) as engine:
        await engine.make_environment(streams, LIMITS)
        pod = await engine.pod(streams)
        await pod.jetstream().publish(streams.event("orders", "run1"), b"waits")
        await asyncio.to_thread(engine.kill)
        _begin_block(tmp_path, streams.queue)
        await asyncio.to_thread(engine.start)
        queue = await pod.jetstream().pull_subscribe_bind(consumer=PODS, stream=streams.queue)
        (message,) = await queue.fetch(1, timeout=5)
        assert message.data == b"waits"
        await pod.close()


async def test_an_event_that_waits_outlives_a_kill(tmp_path: Path) -> None:
    streams = EventStreams(new_id(), new_id())
    with running_nats_server(tmp_path) as engine:
        await engine.make_environment(streams, LIMITS)
        pod = await engine.pod(streams)
        at = (datetime.now(UTC) + timedelta(seconds=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
        headers = {"Nats-Schedule": f"@at {at}", "Nats-Schedule-Target": streams.due("run1")}
        await pod.jetstream().publish(streams.waiting("run1"), b"waited", headers=headers)
        await asyncio.to_thread(engine.kill)
        await asyncio.sleep(2)  # its time comes while nobody is there
        await asyncio.to_thread(engine.start)
        due = await pod.jetstream().pull_subscribe_bind(consumer=PODS, stream=streams.later)
        (message,) = await due.fetch(1, timeout=10)
        assert message.data == b"waited"
        await pod.close()


async def test_a_full_stream_refuses_events_and_drops_none(engine: NatsServer) -> None:
    streams = EventStreams(new_id(), new_id())
    await engine.make_environment(streams, StreamLimits(queue_bytes=20_000))
    admin = await engine.environment(streams)
    pod = await engine.pod(streams)
    jetstream, accepted = pod.jetstream(), 15
    for _ in range(accepted):
        await jetstream.publish(streams.event("orders", new_id()), bytes(1000))
    for _ in range(3):
        with contextlib.suppress(nats.js.errors.APIError):
            await jetstream.publish(streams.event("orders", new_id()), bytes(1000))
            accepted += 1
    with pytest.raises(nats.js.errors.APIError, match="maximum bytes exceeded"):
        await jetstream.publish(streams.event("orders", new_id()), bytes(1000))
    assert (await admin.jetstream().stream_info(streams.queue)).state.messages == accepted
    queue = await jetstream.pull_subscribe_bind(consumer=PODS, stream=streams.queue)
    for message in await queue.fetch(1, timeout=2):
        await message.ack_sync()
    await jetstream.publish(streams.event("orders", new_id()), bytes(1000))
    await pod.close()
    await admin.close()
