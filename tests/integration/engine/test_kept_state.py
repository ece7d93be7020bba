"""State and schedules on a real nats-server: what the operator deletes of them, and what it reads."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from nats.aio.client import Client

from tests.harness.processes.nats_server import NatsServer
from tests.unit.operator import objects as o
from tests.unit.operator.fake_cluster import FakeCluster
from tieline_core.engine.state_reading import subjects_of, values_at
from tieline_core.engine.state_streams import StatePlace, ensure_state, schedules_stream, state_stream
from tieline_core.engine.streams import StreamLimits
from tieline_core.identity.ids import environment_id, object_id
from tieline_core.kubernetes.resources import ACTIVATIONS, NAMESPACES, NOTIFICATIONS, PROJECTS
from tieline_operator.engine.connection import account_client
from tieline_operator.engine.state_sweep import GRACE_SECONDS, StateSweep
from tieline_operator.notifications.place_reader import STALE_SECONDS
from tieline_operator.notifications.schedule_records import ScheduleRecords

LIMITS = StreamLimits(state_bytes=16 << 20, schedules_bytes=16 << 20)
ANN = o.activation()
PROJECT = o.project()
ENVIRONMENT = environment_id(object_id(PROJECT), "production")
OWN = StatePlace.of_activation(o.ORGANISATION, ENVIRONMENT, None)
OF_ANN = StatePlace.of_activation(o.ORGANISATION, ENVIRONMENT, object_id(ANN))
SCHEDULES = StatePlace.of_schedules(o.ORGANISATION, ENVIRONMENT)


class Operator:
    """Sweeps at a time that tests set."""

    def __init__(self, engine: NatsServer) -> None:
        self.cluster = FakeCluster(PROJECT, ANN)
        self.cluster.put(NAMESPACES, o.namespace())
        self.now = 0.0
        self.healthy = True
        self.url = engine.url
        self.sweeping = StateSweep(
            self.cluster,
            signer=lambda: engine.trust.users,
            open_account=lambda signer: account_client([self.url], signer),
            architecture="amd64",
            healthy=lambda: self.healthy,
            clock=lambda: self.now,
        )

    async def sweep(self, at: float) -> None:
        self.now = at
        await self.sweeping.sweep()


@pytest.fixture
async def admin(engine: NatsServer) -> AsyncIterator[Client]:
    client = await engine.admin()
    jetstream = client.jetstream()
    await ensure_state(jetstream, o.ORGANISATION, LIMITS)
    for stream in (state_stream(o.ORGANISATION), schedules_stream(o.ORGANISATION)):
        await jetstream.purge_stream(stream)
    for place in (OWN, OF_ANN, SCHEDULES):
        for key in ("one", "two/2.5"):
            await jetstream.publish(place.subject(key), b"1")
    yield client
    await client.close()


async def kept(admin: Client) -> set[str]:
    streams = (state_stream(o.ORGANISATION), schedules_stream(o.ORGANISATION))
    subjects = [subject for stream in streams for subject in await subjects_of(admin, stream)]
    return {subject.rpartition(".")[0] for subject in subjects}


ALL = {OWN.prefix, OF_ANN.prefix, SCHEDULES.prefix}


async def test_what_a_deleted_activation_had_goes_an_hour_later_and_no_earlier(
    engine: NatsServer, admin: Client
) -> None:
    operator = Operator(engine)
    await operator.sweep(0)
    operator.cluster.remove(ACTIVATIONS, ANN["metadata"]["name"])
    await operator.sweep(10)
    await operator.sweep(9 + GRACE_SECONDS)
    assert await kept(admin) == ALL
    await operator.sweep(10 + GRACE_SECONDS)
    assert await kept(admin) == ALL - {OF_ANN.prefix}


async def test_what_a_deleted_project_had_goes_and_what_others_have_stays(
    engine: NatsServer, admin: Client
) -> None:
    operator = Operator(engine)
    other = o.project("other")
    theirs = StatePlace.of_activation(o.ORGANISATION, environment_id(object_id(other), "production"), None)
    await admin.jetstream().publish(theirs.subject("one"), b"1")
    operator.cluster.put(PROJECTS, other)
    operator.cluster.remove(PROJECTS, PROJECT["metadata"]["name"])
    for now in (0, GRACE_SECONDS):
        await operator.sweep(now)
    assert await kept(admin) == {theirs.prefix}


async def test_who_comes_back_within_the_hour_has_its_state(engine: NatsServer, admin: Client) -> None:
    operator = Operator(engine)
    operator.cluster.remove(ACTIVATIONS, ANN["metadata"]["name"])
    await operator.sweep(0)
    operator.cluster.put(ACTIVATIONS, ANN)
    await operator.sweep(GRACE_SECONDS - 1)
    operator.cluster.remove(ACTIVATIONS, ANN["metadata"]["name"])
    await operator.sweep(GRACE_SECONDS + 1)
    assert await kept(admin) == ALL


async def test_nothing_is_deleted_while_the_caches_are_blind_or_the_namespace_has_lost_its_label(
    engine: NatsServer, admin: Client
) -> None:
    operator = Operator(engine)
    operator.cluster.remove(PROJECTS, PROJECT["metadata"]["name"])
    operator.healthy = False
    for now in (0, GRACE_SECONDS):
        await operator.sweep(now)
    operator.healthy = True
    unlabelled = o.namespace()
    unlabelled["metadata"]["labels"] = {}
    operator.cluster.put(NAMESPACES, unlabelled)
    for now in (0, GRACE_SECONDS):
        await operator.sweep(now)
    assert await kept(admin) == ALL


async def test_an_engine_that_is_away_is_asked_again_later(engine: NatsServer, admin: Client) -> None:
    operator = Operator(engine)
    operator.cluster.remove(PROJECTS, PROJECT["metadata"]["name"])
    await operator.sweep(0)
    operator.url = "nats://127.0.0.1:9"
    await operator.sweep(GRACE_SECONDS)
    assert await kept(admin) == ALL
    operator.url = engine.url
    await operator.sweep(GRACE_SECONDS + 1)
    assert await kept(admin) == set()


async def test_records_of_schedules_are_read_for_environments_with_notifications(
    engine: NatsServer, admin: Client
) -> None:
    cluster = FakeCluster(PROJECT)
    cluster.put(NAMESPACES, o.namespace())
    now, url = 0.0, engine.url
    records = ScheduleRecords(
        cluster,
        signer=lambda: engine.trust.users,
        open_account=lambda signer: account_client([url], signer),
        clock=lambda: now,
    )
    await admin.jetstream().publish(SCHEDULES.subject("one"), b'{"settled": "x"}')
    await records.poll()
    assert records.records(o.NAMESPACE, ENVIRONMENT) is None, "nobody wants to know"
    cluster.put(NOTIFICATIONS, o.notification(events=["schedule_missed"]))
    await records.poll()
    found = {"one": b'{"settled": "x"}', "two/2.5": b"1"}
    assert records.records(o.NAMESPACE, ENVIRONMENT) == found
    url = "nats://127.0.0.1:9"
    now = STALE_SECONDS
    await records.poll()
    assert records.records(o.NAMESPACE, ENVIRONMENT) == found
    now = STALE_SECONDS + 1
    assert records.records(o.NAMESPACE, ENVIRONMENT) is None, "too old to count"
    assert await values_at(admin, StatePlace.of_schedules("NOBODY", "E"), limit=5) == {}
