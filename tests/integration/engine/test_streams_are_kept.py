"""The operator keeps the streams of environments on a real nats-server: made, healed, and deleted late."""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client
from nats.js.api import StreamConfig

from tests.harness.processes.nats_server import NatsServer, running_nats_server
from tests.unit.operator.fake_cluster import FakeCluster
from tests.unit.operator.objects import NAMESPACE, ORGANISATION, namespace, project
from tieline_core.engine.streams import StreamLimits, StreamOwner, ensure_environment
from tieline_core.engine.trust import AccountSigner, EngineTrust
from tieline_core.identity.ids import environment_id, new_id, object_id
from tieline_core.identity.names import ENVIRONMENT_ID_LABEL
from tieline_core.kubernetes import Change
from tieline_core.kubernetes.resources import ENGINE_SECRETS, NAMESPACES, PROJECTS
from tieline_operator.engine.connection import EngineConnection
from tieline_operator.engine.desired_streams import StreamKey
from tieline_operator.engine.stream_reconciler import GONE_SECONDS, StreamReconciler
from tieline_protocol.event_streams import PODS, EventStreams, history_stream

LIMITS = StreamLimits(queue_bytes=16 << 20, runs_bytes=16 << 20, history_bytes=16 << 20)
PROJECT = "order-sync"
SECRET = StreamKey(NAMESPACE, f"{PROJECT}-production-engine")


class Operator:
    """What keeps streams, with environments in memory and a clock that tests set."""

    def __init__(
        self,
        engine: NatsServer,
        *,
        release: str = "ours",
        namespaces: tuple[str, ...] = (),
        healthy: bool = True,
    ) -> None:
        self.cluster = FakeCluster()
        self.cluster.put(NAMESPACES, namespace())
        self.now = 0.0
        self.signer: AccountSigner | None = engine.trust.users
        self.healthy = healthy
        self.connection = EngineConnection(
            [engine.url], lambda: self.signer, self._connected, first_backoff=0.05, longest_backoff=0.2
        )
        self.streams = StreamReconciler(
            self.cluster,
            LIMITS,
            client=lambda: self.connection.client,
            release=lambda: release,
            namespaces=namespaces,
            healthy=lambda: self.healthy,
            now=lambda: self.now,
        )

    def _connected(self) -> None:
        self.streams.verify_all()

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[Operator]:
        self.streams.queue.start()
        running = asyncio.create_task(self.connection.run())
        try:
            yield self
        finally:
            await self.streams.queue.stop(1)
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running

    def deploy(self, name: str = PROJECT) -> EventStreams:
        """An environment gets its credentials."""
        made = project(name=name)
        self.cluster.put(PROJECTS, made)
        environment = environment_id(object_id(made), "production")
        metadata = {
            "name": f"{name}-production-engine",
            "namespace": NAMESPACE,
            "uid": name,
            "resourceVersion": "1",
            "labels": {
                ENVIRONMENT_ID_LABEL: environment,
                "tieline.dev/project": name,
                "tieline.dev/environment": "production",
            },
        }
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
        self.cluster.put(ENGINE_SECRETS, secret)
        self.streams.changed(Change(old=None, new=secret))
        return EventStreams(ORGANISATION, environment)

    def delete(self, name: str = PROJECT) -> None:
        self.cluster.remove(PROJECTS, name)
        self.cluster.remove(ENGINE_SECRETS, f"{name}-production-engine")


async def until(what: str, probe: Callable[[], Any], within: float = 10.0) -> None:
    end = time.monotonic() + within
    while True:
        found = probe()
        if asyncio.iscoroutine(found):
            found = await found
        if found:
            return
        assert time.monotonic() < end, what
        await asyncio.sleep(0.05)


async def names(client: Client) -> set[str]:
    return {str(info.config.name) for info in await client.jetstream().streams_info()}


@pytest.fixture
def engine(tmp_path: Path) -> Any:
    with running_nats_server(tmp_path) as server:
        yield server


async def test_a_new_environment_has_its_streams_within_a_second(engine: NatsServer) -> None:
    admin = await engine.admin()
    async with Operator(engine).at_work() as operator:
        await until("connected", lambda: operator.connection.client)
        streams = operator.deploy()

        async def there() -> bool:
            return {*streams.names, history_stream(ORGANISATION)} <= await names(admin)

        await until("its streams", there, within=1)
        await until("nothing to do", lambda: operator.streams.queue.idle)
        pod = await engine.pod(streams)
        await pod.jetstream().publish(streams.event("orders", "run1"), b"x")
        info = await admin.jetstream().consumer_info(streams.queue, PODS)
        assert info.num_pending == 1
        await pod.close()
    await admin.close()


async def test_a_lost_volume_is_made_good_as_soon_as_the_engine_is_back(engine: NatsServer) -> None:
    async with Operator(engine).at_work() as operator:
        deployed = [operator.deploy(f"shop-{number}") for number in range(20)]
        await until("connected", lambda: operator.connection.client)
        await until("all are made", lambda: operator.streams.queue.idle)
        await asyncio.to_thread(engine.kill)
        shutil.rmtree(engine.folder / "data")
        await until("it is away", lambda: operator.connection.client is None)
        await asyncio.to_thread(engine.start)
        admin = await engine.admin()
        expected = {name for streams in deployed for name in streams.names}

        async def there() -> bool:
            return expected <= await names(admin)

        await until("all streams are back", there)
        await admin.close()


async def test_an_engine_that_is_away_is_waited_for_and_told_of(
    engine: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    await asyncio.to_thread(engine.kill)
    with caplog.at_level(logging.INFO):
        async with Operator(engine).at_work() as operator:
            streams = operator.deploy()
            await operator.streams.survey()
            await until("nothing waits for it", lambda: operator.streams.queue.idle, within=1)
            await until("told", lambda: "The event engine is away" in caplog.text, within=15)
            assert operator.streams.failed == 0
            await asyncio.to_thread(engine.start)
            admin = await engine.admin()

            async def there() -> bool:
                return set(streams.names) <= await names(admin)

            await until("its streams", there, within=15)
            await admin.close()
    warnings = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(warnings) == 1, "one warning, not one for each try"


async def test_without_keys_it_waits_and_with_them_it_works(engine: NatsServer) -> None:
    operator = Operator(engine)
    operator.signer = None
    async with operator.at_work():
        await asyncio.sleep(0.3)
        assert operator.connection.client is None
        operator.signer = engine.trust.users
        await until("connected", lambda: operator.connection.client)


async def test_keys_that_the_engine_does_not_trust_are_told(
    engine: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    operator = Operator(engine)
    stranger = EngineTrust()
    operator.signer = stranger.users
    async with operator.at_work():
        await until("told", lambda: "Authorization Violation" in caplog.text, within=15)
        assert operator.connection.client is None
        assert stranger.signer.seed not in caplog.text
        operator.signer = engine.trust.users
        await until("connected", lambda: operator.connection.client, within=15)


async def test_a_stream_that_somebody_deleted_is_back_after_the_next_survey(engine: NatsServer) -> None:
    admin = await engine.admin()
    async with Operator(engine).at_work() as operator:
        streams = operator.deploy()
        await until("connected", lambda: operator.connection.client)
        await until("made", lambda: operator.streams.queue.idle)
        await admin.jetstream().delete_stream(streams.later)
        await admin.jetstream().delete_consumer(streams.queue, PODS)
        await operator.streams.survey()
        assert operator.streams.survey_result.missing == 1
        await until("made again", lambda: operator.streams.queue.idle)
        assert streams.later in await names(admin)
        assert await admin.jetstream().consumer_info(streams.queue, PODS)
    await admin.close()


async def test_streams_of_a_deleted_project_go_an_hour_later_and_no_earlier(engine: NatsServer) -> None:
    admin = await engine.admin()
    async with Operator(engine).at_work() as operator:
        gone, kept = operator.deploy("gone"), operator.deploy("kept")
        await until("connected", lambda: operator.connection.client)
        await until("made", lambda: operator.streams.queue.idle)
        operator.delete("gone")
        for later in (0.0, GONE_SECONDS - 1):
            operator.now = later
            await operator.streams.survey()
            assert set(gone.names) <= await names(admin)
        operator.now = GONE_SECONDS
        await operator.streams.survey()
        left = await names(admin)
        assert left == {*kept.names, history_stream(ORGANISATION)}
    await admin.close()


async def test_a_project_that_comes_back_within_the_hour_has_its_events(engine: NatsServer) -> None:
    admin = await engine.admin()
    async with Operator(engine).at_work() as operator:
        streams = operator.deploy()
        await until("connected", lambda: operator.connection.client)
        await until("made", lambda: operator.streams.queue.idle)
        await admin.jetstream().publish(streams.event("orders", "run1"), b"x")
        operator.delete()
        await operator.streams.survey()
        operator.now = GONE_SECONDS / 2
        operator.deploy()
        await operator.streams.survey()
        operator.delete()
        operator.now = GONE_SECONDS + 1
        await operator.streams.survey()
        assert (await admin.jetstream().stream_info(streams.queue)).state.messages == 1
    await admin.close()


async def test_nothing_is_deleted_while_the_cache_is_blind_nor_in_namespaces_of_others(
    engine: NatsServer,
) -> None:
    admin = await engine.admin()
    async with Operator(engine).at_work() as operator:
        streams = operator.deploy()
        await until("connected", lambda: operator.connection.client)
        await until("made", lambda: operator.streams.queue.idle)
    for other in (
        Operator(engine, healthy=False),
        Operator(engine, namespaces=("elsewhere",)),
        Operator(engine, release="theirs"),
    ):
        async with other.at_work():
            await until("connected", lambda other=other: other.connection.client)
            for later in (0.0, 2 * GONE_SECONDS):
                other.now = later
                await other.streams.survey()
            assert set(streams.names) <= await names(admin)
    await admin.close()


async def test_a_namespace_without_its_label_keeps_its_events(engine: NatsServer) -> None:
    admin = await engine.admin()
    async with Operator(engine).at_work() as operator:
        streams = operator.deploy()
        await until("connected", lambda: operator.connection.client)
        await until("made", lambda: operator.streams.queue.idle)
        operator.cluster.put(NAMESPACES, namespace(organisation=None))
        for later in (0.0, 2 * GONE_SECONDS):
            operator.now = later
            await operator.streams.survey()
        assert {*streams.names, history_stream(ORGANISATION)} <= await names(admin)
    await admin.close()


async def test_streams_of_others_in_the_account_are_never_touched(
    engine: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    admin = await engine.admin()
    await admin.jetstream().add_stream(StreamConfig(name="theirs", subjects=["theirs.>"]))
    async with Operator(engine).at_work() as operator:
        await until("connected", lambda: operator.connection.client)
        streams = EventStreams(ORGANISATION, operator.deploy().environment)
        await until("made", lambda: operator.streams.queue.idle)
        async with Operator(engine, release="another").at_work() as another:
            another.deploy()
            await until("refused", lambda: another.streams.failed == 2)
            assert "belongs to another installation" in caplog.text
        operator.delete()
        for later in (0.0, 2 * GONE_SECONDS):
            operator.now = later
            await operator.streams.survey()
        assert "theirs" in await names(admin)
        assert not set(streams.names) & await names(admin)
        assert operator.streams.survey_result.foreign == 1
    await admin.close()


async def test_an_id_that_another_organisation_had_before_brings_none_of_its_events(
    engine: NatsServer,
) -> None:
    admin = await engine.admin()
    async with Operator(engine).at_work() as operator:
        await until("connected", lambda: operator.connection.client)
        made = project(name=PROJECT)
        before = EventStreams(new_id(), environment_id(object_id(made), "production"))
        owner = StreamOwner(release="ours", organisation=before.organisation, namespace="other")
        await ensure_environment(admin.jetstream(), before, LIMITS, owner)
        await admin.jetstream().publish(before.event("orders", "run1"), b"secret of the other")
        streams = operator.deploy()
        await until("made", lambda: operator.streams.queue.idle)
        info = await admin.jetstream().stream_info(streams.queue)
        assert info.state.messages == 0
        assert StreamOwner.of(info.config.metadata) == StreamOwner(
            release="ours", organisation=ORGANISATION, namespace=NAMESPACE
        )
    await admin.close()


async def test_the_survey_counts_what_waits_and_what_is_dead(engine: NatsServer) -> None:
    admin = await engine.admin()
    jetstream = admin.jetstream()
    async with Operator(engine).at_work() as operator:
        streams = operator.deploy()
        await until("connected", lambda: operator.connection.client)
        await until("made", lambda: operator.streams.queue.idle)
        for number in range(3):
            await jetstream.publish(streams.event("orders", f"run{number}"), b"x")
        for number in range(2):
            await jetstream.publish(streams.dead(f"run{number}"), b"x")
        await jetstream.publish(streams.step("run1", "fetch", 0), b"x")
        await operator.streams.survey()
        reading = operator.streams.survey_result.environments[SECRET]
        assert (reading.queued, reading.waiting, reading.dead_letters) == (3, 0, 2)
        assert reading.oldest is not None
        await jetstream.purge_stream(streams.runs, subject=streams.dead("run0"))
        await operator.streams.survey()
        assert operator.streams.survey_result.environments[SECRET].dead_letters == 1
    await admin.close()


async def test_more_streams_than_fit_one_answer_are_all_seen(engine: NatsServer) -> None:
    async with Operator(engine).at_work() as operator:
        operator.streams._limits = StreamLimits(
            queue_bytes=1 << 20, runs_bytes=1 << 20, history_bytes=1 << 20
        )
        for number in range(100):
            operator.deploy(f"shop-{number}")
        await until("connected", lambda: operator.connection.client)
        await until("all are made", lambda: operator.streams.queue.idle, within=60)
        await operator.streams.survey()
        assert operator.streams.survey_result.streams == 301
        assert operator.streams.survey_result.missing == 0
