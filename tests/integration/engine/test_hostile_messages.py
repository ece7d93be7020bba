"""A pod that writes arbitrary messages into its streams stops no reader: neither of others' streams nor of its own."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from nats.aio.client import Client

from tests.harness.processes.event_pods import EventEnvironment, event_environment
from tests.harness.processes.nats_server import NatsServer, running_nats_server
from tests.harness.session.waiting import eventually_async
from tests.integration.engine.running_history import Replica, replica
from tests.unit.api.runs.run_records import life, record
from tests.unit.operator import objects as o
from tests.unit.operator.fake_cluster import FakeCluster
from tieline_api.engine.errors import EngineUnavailableError
from tieline_api.runs.model import PageRequest, RunFilter
from tieline_core.engine.publisher import publish_event
from tieline_core.engine.state_streams import StatePlace, ensure_state
from tieline_core.engine.streams import StreamLimits, ensure_history
from tieline_core.identity.ids import environment_id, new_id, object_id
from tieline_core.kubernetes import resources as r
from tieline_operator.engine.connection import account_client
from tieline_operator.notifications.run_counts import RunHistoryCounts
from tieline_operator.notifications.schedule_records import ScheduleRecords
from tieline_operator.reconcilers.notification.detection import RunCounts
from tieline_protocol.event_streams import KEY_TOKEN, MAX_HISTORY_BYTES, EventStreams, hashed
from tieline_protocol.events import EventMetadata
from tieline_protocol.run_records import RunRecord, encode

LIMITS = StreamLimits(queue_bytes=1 << 26, runs_bytes=1 << 26, history_bytes=1 << 27)
BAD, GOOD = "bad", "good"
ORGANISATIONS = {BAD: "01ARZ3NDEKTSV4RRFFQ69G5FAW", GOOD: "01ARZ3NDEKTSV4RRFFQ69G5FAX"}
ENVIRONMENT = environment_id(object_id(o.project()), "production")
STREAMS = {name: EventStreams(organisation, ENVIRONMENT) for name, organisation in ORGANISATIONS.items()}
CODE = """
import os
from tieline import Integration

integration = Integration()


@integration.event("order")
async def order(ctx, event):
    with open(os.environ["DONE"], "a") as done:
        print(event.payload["id"], file=done)
"""
STATUSES = (b"100", b"204", b"400", b"404", b"408", b"409", b"500", b"503", b"\xff\xfe\xfd", b"")
DESCRIPTIONS = (b"Consumer Deleted", b"Leadership Change", b"Idle Heartbeat", b"EOB", b"\xff")
NAMES = (
    b"Status", b"Description", b"Nats-Sequence", b"Nats-Subject", b"Nats-Stream", b"Nats-Time-Stamp",
    b"Nats-Pending-Messages",
    b"Nats-Num-Pending", b"Nats-Last-Sequence", b"Nats-Request-Info", b"Tieline-Event", b"\xc3\xa4", b"a b", b"",
)  # fmt: skip
VALUES = (
    b"1",
    b"-1",
    b"",
    b"x" * 5000,
    b"\xff\xfe",
    b"{}",
    b"[1]",
    b"null",
    b"2026-11-26T00:00:00Z",
    b"9" * 400,
)


def hostile_headers() -> Iterator[bytes]:
    """Blocks of headers as a client may send them, valid or not."""
    for status in STATUSES:
        yield b"NATS/1.0 " + status + b"\r\n\r\n"
        yield b"NATS/1.0\r\nStatus: " + status + b"\r\n\r\n"
    for description in DESCRIPTIONS:
        yield b"NATS/1.0 409 " + description + b"\r\n\r\n"
        yield b"NATS/1.0\r\nStatus: 409\r\nDescription: " + description + b"\r\n\r\n"
    yield from (
        b"x",
        b"\r\n",
        b"NATS/1.0",
        b"NATS/1.0\r\n",
        b"NATS/1.0 ",
        b"NATS/9.9 503\r\n\r\n",
        b"\x00" * 20,
    )
    yield from (b"xxxxxxxx 503 y\r\n\r\n", b"xxxxxxxx \xff\xff\xff\r\n\r\n", b"NATS/1.0\r\nno colon\r\n\r\n")
    chance = random.Random(20261126)
    for _ in range(60):
        lines = [chance.choice(NAMES) + b": " + chance.choice(VALUES) for _ in range(chance.randrange(1, 6))]
        first = chance.choice((b"NATS/1.0", b"NATS/1.0 " + chance.choice(STATUSES)))
        yield b"\r\n".join([first, *lines, b"", b""])[: chance.choice((10_000, 10_000, 30))]


def hostile_bodies() -> Iterator[bytes]:
    """Contents that are no records of runs, or more than readers should take."""
    run = encode([record(new_id())])
    yield from (b"", b"{}", b"[]", b"null", b"[null]", b"[[[[", b"[" * 100_000, b"\xff\xfe", run[:-3])
    for field, value in (
        (b"id", b"[]"), (b"id", b"1"), (b"attempt", b'"x"'), (b"attempt", b"null"), (b"status", b"[]"),
        (b"queued_at", b"1e308"), (b"queued_at", b'"x"'), (b"steps", b"[1]"), (b"steps", b"null"), (b"error", b"1"),
        (b"kind", b"{}"), (b"task", b"0"),
    ):  # fmt: skip
        yield (
            b'[{"id":"01ARZ3NDEKTSV4RRFFQ69G5FAV","kind":"event","task":"t","status":"failed","attempt":1,'
            + (b'"queued_at":1,"at":1,"' + field + b'":' + value + b"}]")
        )
    yield b"[" + b",".join([b"{}"] * (MAX_HISTORY_BYTES // 4)) + b"]"
    yield b"[" + b",".join([run[1:-1]] * (MAX_HISTORY_BYTES // len(run))) + b"]"
    yield b"x" * MAX_HISTORY_BYTES


async def store(client: Client, subject: str, headers: bytes, body: bytes) -> None:
    """Publishes bytes that no library would send."""
    size = len(headers) + len(body)
    line = f"HPUB {subject} {len(headers)} {size}" if headers else f"PUB {subject} {size}"
    await client._send_command(line.encode() + b"\r\n" + headers + body + b"\r\n")
    await client._flush_pending()


async def write_all(client: Client, streams: EventStreams) -> None:
    """Every hostile message, at each kind of subject at which a pod may store some."""
    run, key = new_id(), hashed("key")

    def subjects() -> tuple[str, ...]:
        return (
            streams.history,
            streams.event("orders", new_id()),
            streams.event(KEY_TOKEN, hashed(new_id())),
            streams.key_token("").removesuffix("."),
            streams.keyed_event(key, new_id()),
            streams.waiting(new_id()),
            streams.step(run, "fetch", random.Random(run).randrange(9)),
            streams.run_state(new_id()),
            streams.ended(new_id()),
            streams.dead(new_id()),
        )

    bodies = list(hostile_bodies())
    for number, headers in enumerate(hostile_headers()):
        for subject in subjects():
            await store(client, subject, headers, b"")
        await store(client, streams.history, headers, bodies[number % 9])
    for body in bodies:
        for subject in subjects() if len(body) < 1_000_000 else (streams.history,):
            await store(client, subject, b"", body)
    await client.flush(30)


@dataclass
class Platform:
    """The API and the operator, as far as they read streams."""

    replica: Replica
    counts: RunHistoryCounts
    schedules: ScheduleRecords

    async def knows(self, name: str, run: str) -> bool:
        """Whether the API lists a run, without a warning."""
        organisation = ORGANISATIONS[name]
        try:
            page = await self.replica.history.page(
                RunFilter(organisation=organisation), PageRequest(first=1000)
            )
        except EngineUnavailableError:
            return False
        there = any(found.id == run for found in page.runs)
        return there and not self.replica.history.warnings(organisation)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """A server that syncs to the disk now and then: thousands of messages are stored here."""
    with running_nats_server(
        tmp_path_factory.mktemp("engine"), sync_interval="30s", ping_interval="30s"
    ) as server:
        yield server


@pytest.fixture
async def platform(engine: NatsServer, tmp_path: Path) -> AsyncIterator[Platform]:
    admin = await engine.admin()
    cluster = FakeCluster()
    for name, organisation in ORGANISATIONS.items():
        await ensure_history(admin.jetstream(), organisation, LIMITS)
        await ensure_state(admin.jetstream(), organisation, LIMITS)
        await engine.make_environment(STREAMS[name], LIMITS)
        place = StatePlace.of_schedules(organisation, ENVIRONMENT)
        await admin.jetstream().publish(place.subject("daily"), b"{}")
        cluster.put(r.NAMESPACES, o.namespace(name, organisation=organisation))
        for resource, one in ((r.PROJECTS, o.project()), (r.NOTIFICATIONS, o.notification())):
            cluster.put(resource, {**one, "metadata": {**one["metadata"], "namespace": name}})
    await admin.close()
    counts = RunHistoryCounts(
        cluster, trust=lambda: engine.trust, open_account=lambda signer: account_client([engine.url], signer)
    )
    schedules = ScheduleRecords(
        cluster,
        signer=lambda: engine.trust.users,
        open_account=lambda signer: account_client([engine.url], signer),
    )
    async with replica(engine, tmp_path) as one:
        yield Platform(one, counts, schedules)


async def report(pod: Client, streams: EventStreams, *records: RunRecord) -> None:
    await pod.jetstream(timeout=5).publish(streams.history, encode(records))


async def test_no_message_of_a_pod_stops_a_reader(engine: NatsServer, platform: Platform) -> None:
    pods = {name: await engine.pod(STREAMS[name]) for name in ORGANISATIONS}
    before, after = {name: new_id() for name in pods}, {name: new_id() for name in pods}
    for name, pod in pods.items():
        await report(pod, STREAMS[name], *life(before[name]))
        await eventually_async(f"{name}: the first run", lambda name=name: platform.knows(name, before[name]))
    await platform.counts.poll()
    await write_all(pods[BAD], STREAMS[BAD])
    stored = (await pods[BAD].jetstream().publish(STREAMS[BAD].history, b"")).seq
    assert stored > 100, "hostile messages are in the history"
    for name in (GOOD, BAD):
        await report(pods[name], STREAMS[name], *life(after[name]))
        await eventually_async(f"{name}: the next run", lambda name=name: platform.knows(name, after[name]))
    await platform.counts.poll()
    await platform.schedules.poll()
    for name in (GOOD, BAD):
        assert platform.schedules.records(name, ENVIRONMENT) == {"daily": b"{}"}
        found = platform.counts.counts(name, ENVIRONMENT)
        assert found is not None, f"{name}: counts are known"
        assert found.ended >= 2
    assert platform.counts.counts(GOOD, ENVIRONMENT) == RunCounts(ended=2)
    assert (platform.counts.stalled, platform.schedules.stalled, platform.replica.followers.stalled) == (
        0,
        0,
        0,
    )
    for pod in pods.values():
        await pod.close()


async def test_a_pod_runs_events_behind_messages_that_are_none(engine: NatsServer, tmp_path: Path) -> None:
    admin = await engine.admin()
    there = await event_environment(engine, admin, tmp_path, CODE)
    hostile = await engine.pod(there.streams)
    await write_all(hostile, there.streams)
    there.pod()
    try:
        await publish(there, "first")
        await there.until_written("first")
        await write_all(hostile, there.streams)
        await publish(there, "second")
        await there.until_written("second")
    finally:
        await asyncio.to_thread(there.stop)
        for client in (hostile, there.admin, admin):
            await client.close()


async def publish(there: EventEnvironment, order: str) -> None:
    metadata = EventMetadata(run=new_id(), kind="event", task="order", queued_at=1)
    content = json.dumps({"id": order}).encode()
    await publish_event(there.admin.jetstream(), there.streams, metadata, content, seconds=5)
