"""What wakes an environment is read from a real engine: timers, schedules, and how far they are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import orjson

from tests.harness.processes.nats_server import NatsServer
from tests.unit.operator.fake_cluster import FakeCluster
from tests.unit.operator.objects import NAMESPACE, namespace, project
from tieline_core.engine.publisher import publish_event
from tieline_core.engine.state_streams import StatePlace, ensure_state
from tieline_core.engine.streams import StreamLimits
from tieline_core.identity.ids import environment_id, new_id, object_id
from tieline_core.identity.names import ENVIRONMENT_ID_LABEL, engine_credentials_name, workload_name
from tieline_core.kubernetes import resources as r
from tieline_operator.engine.connection import account_client
from tieline_operator.engine.desired_streams import StreamKey
from tieline_operator.engine.stream_readings import EnvironmentReading, Survey
from tieline_operator.engine.work_reader import WorkReader
from tieline_protocol.event_streams import EventStreams
from tieline_protocol.events import EventMetadata

LIMITS = StreamLimits(queue_bytes=1 << 24, runs_bytes=1 << 24, state_bytes=1 << 24)


async def test_the_next_timer_and_schedule_are_read_when_their_streams_change(engine: NatsServer) -> None:
    there = project(runtime={"scaling": {"min": 0}})
    streams = EventStreams(new_id(), environment_id(object_id(there), "production"))
    secret = engine_credentials_name(workload_name("order-sync", "production"))
    labels = {ENVIRONMENT_ID_LABEL: streams.environment}
    cluster = FakeCluster(there)
    cluster.put(r.NAMESPACES, namespace(organisation=streams.organisation))
    cluster.put(
        r.ENGINE_SECRETS, {"metadata": {"name": secret, "namespace": NAMESPACE, "labels": labels, "uid": "s"}}
    )
    await engine.make_environment(streams, LIMITS)
    platform = await engine.admin()
    await ensure_state(platform.jetstream(), streams.organisation, LIMITS)
    client = await engine.environment(streams)
    changed: list[StreamKey] = []
    reader = WorkReader(
        cluster,
        signer=lambda: engine.trust.users,
        open_account=lambda signer: account_client([engine.url], signer),
        changed=changed.append,
    )
    key = StreamKey(NAMESPACE, secret)

    now = datetime.now(UTC)

    async def read(number: int, *, waiting: int) -> None:
        reading = EnvironmentReading(queued=0, waiting=waiting, dead_letters=0, oldest=None)
        names = (streams.later, f"schedules_{streams.organisation}")
        revisions = dict.fromkeys(names, (number, waiting))
        reader.surveyed(Survey(began=now, environments={key: reading}, revisions=revisions))
        await reader.read()

    await read(1, waiting=0)
    work = reader.get(NAMESPACE, secret)
    assert work is not None
    assert not work.knows("v1"), "no pod has registered its schedules"
    assert changed == [key]

    due = now + timedelta(hours=2)
    for at in (due, due + timedelta(hours=1)):
        metadata = EventMetadata(run=new_id(), kind="event", task="order", queued_at=1)
        await publish_event(client.jetstream(), streams, metadata, b"1", at=at, seconds=5)
    hourly = {"name": "hourly", "cron": "0 * * * *", "timezone": "UTC", "activations": "static"}
    code = StatePlace.of_registered_schedules(streams.organisation, streams.environment)
    await platform.jetstream().publish(code.subject("versions"), orjson.dumps({"v1": [hourly], "v2": []}))
    records = StatePlace.of_schedules(streams.organisation, streams.environment)
    record = orjson.dumps({"settled": now.isoformat(), "times": "0 * * * * UTC"})
    await platform.jetstream().publish(records.subject("hourly"), record)
    await read(2, waiting=2)
    work = reader.get(NAMESPACE, secret)
    assert work is not None
    assert work.timer is not None
    assert abs(work.timer - due) < timedelta(seconds=1)
    assert work.knows("v1")
    assert work.next_due("v2", (), now) == work.timer
    following = (now + timedelta(hours=1)).replace(minute=0, second=0, microsecond=0)
    assert work.next_due("v1", (), now) == following
    assert changed == [key, key]

    await read(2, waiting=2)
    assert changed == [key, key], "nothing is read again, and nothing has changed"
    for one in (client, platform):
        await one.close()
