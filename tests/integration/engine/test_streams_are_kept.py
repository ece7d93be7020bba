"""The operator keeps the streams of environments on a real nats-server: made, healed, and deleted late."""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import nats.errors
import pytest
from nats.js.api import StreamConfig
from nats.js.errors import NoStreamResponseError

from tests.harness.processes.nats_server import NatsServer, running_nats_server
from tests.integration.engine.test_environment_engines import engines, publish
from tests.unit.operator.fake_cluster import FakeCluster
from tests.unit.operator.objects import NAMESPACE, ORGANISATION, namespace, project
from tieline_api.engine.new_streams import with_streams
from tieline_core.engine.accounts import account_claims_of, list_accounts, list_streams
from tieline_core.engine.streams import (
    LIMITS_STREAM,
    StreamLimits,
    StreamOwner,
    account_limits,
    connections_of,
)
from tieline_core.engine.trust import EngineTrust
from tieline_core.identity.ids import environment_id, new_id, object_id
from tieline_core.identity.names import ENVIRONMENT_ID_LABEL
from tieline_core.kubernetes import Change
from tieline_core.kubernetes.resources import ENGINE_SECRETS, NAMESPACES, PROJECTS
from tieline_core.resources.quotas import NO_QUOTAS, Quotas
from tieline_operator.engine.connection import EngineConnection
from tieline_operator.engine.desired_streams import StreamKey, organisation_stream_names
from tieline_operator.engine.keys import EngineKeys
from tieline_operator.engine.stream_collector import GONE_SECONDS
from tieline_operator.engine.stream_reconciler import StreamReconciler
from tieline_protocol.event_streams import API_CLIENT, PODS, EventStreams

LIMITS = StreamLimits(queue_bytes=16 << 20, runs_bytes=16 << 20, history_bytes=16 << 20)
LARGER = replace(LIMITS, queue_bytes=32 << 20)
PROJECT = "order-sync"
SECRET = StreamKey(NAMESPACE, f"{PROJECT}-production-engine")

# Without that of packages, which no version needs.
PLATFORM = organisation_stream_names(ORGANISATION)[:-1]


class Operator:
    """What keeps streams, with environments in memory and a clock that tests set."""

    def __init__(
        self,
        engine: NatsServer,
        *,
        release: str = "ours",
        namespaces: tuple[str, ...] = (),
        healthy: bool = True,
        limits: StreamLimits = LIMITS,
        quotas: Quotas = NO_QUOTAS,
    ) -> None:
        self.cluster = FakeCluster()
        self.cluster.put(NAMESPACES, namespace())
        self.now = 0.0
        self.trust: EngineTrust | None = engine.trust
        self.release = release
        self.healthy = healthy
        self.surveys: set[asyncio.Task[None]] = set()
        self.streams = StreamReconciler(
            self.cluster,
            limits,
            quotas=quotas,
            system=lambda: self.connection.client,
            keys=self._keys,
            namespaces=namespaces,
            healthy=lambda: self.healthy,
            now=lambda: self.now,
        )
        self.connection = EngineConnection(
            [engine.url],
            lambda: self.trust.system_users if self.trust else None,
            self._connected,
            client_connected=self.streams.client_connected,
            first_backoff=0.05,
            longest_backoff=0.2,
        )

    def _keys(self) -> EngineKeys | None:
        if self.trust is None:
            return None
        created = datetime(2026, 1, 1, tzinfo=UTC)
        return EngineKeys(trust=self.trust, encryption_key="", release=self.release, created=created)

    def _connected(self) -> None:
        self.surveys.add(asyncio.create_task(self.streams.survey()))

    def idle(self) -> bool:
        """Whether it has looked at the engine, and has nothing to do."""
        return all(survey.done() for survey in self.surveys) and self.streams.queue.idle

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

    def deploy(self, name: str = PROJECT, *, has_events: bool = True) -> EventStreams:
        """An environment gets its credentials, and as the engine tells it a pod connects if its code has events."""
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
        streams = EventStreams(ORGANISATION, environment)
        if has_events and self.trust is not None:
            self.streams.client_connected(self.trust.environment_account(streams), environment)
        return streams

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


async def names(engine: NatsServer) -> set[str]:
    """Streams of all accounts."""
    client = await engine.client(None, signer=engine.trust.system_users)
    try:
        return {stream.name for stream in await list_streams(client)}
    finally:
        await client.close()


@pytest.fixture
def engine(tmp_path: Path) -> Any:
    with running_nats_server(tmp_path) as server:
        yield server


async def test_a_new_environment_has_its_streams_within_a_second(engine: NatsServer) -> None:
    async with Operator(engine).at_work() as operator:
        await until("connected", lambda: operator.connection.client)
        streams = operator.deploy()

        async def there() -> bool:
            return {*streams.names, *PLATFORM} <= await names(engine)

        await until("its streams", there, within=1)
        await until("nothing to do", operator.idle)
        pod = await engine.pod(streams)
        await pod.jetstream().publish(streams.event("orders", "run1"), b"x")
        admin = await engine.environment(streams)
        info = await admin.jetstream().consumer_info(streams.queue, PODS)
        assert info.num_pending == 1
        await pod.close()
        await admin.close()


async def accounts(operator: Operator) -> set[str]:
    """What the engine has besides the system's and the platform's account."""
    assert operator.connection.client is not None
    assert operator.trust is not None
    fixed = {operator.trust.account.public_key, operator.trust.system.public_key}
    return set(await list_accounts(operator.connection.client)) - fixed


async def test_an_environment_to_which_no_pod_connects_has_an_account_and_no_streams(
    engine: NatsServer,
) -> None:
    async with Operator(engine).at_work() as operator:
        await until("connected", lambda: operator.connection.client)
        streams = operator.deploy(has_events=False)
        await until("its account", operator.idle)
        await operator.streams.survey()
        assert await accounts(operator) == {engine.trust.environment_account(streams)}
        assert await names(engine) == {*PLATFORM}
        assert operator.idle(), "nothing is made twice"
        survey = operator.streams.survey_result
        assert survey.missing == 0
        assert (survey.environments[SECRET].queued, survey.environments[SECRET].oldest) == (0, None)


async def test_the_first_pod_that_connects_gets_the_streams_at_once(engine: NatsServer) -> None:
    async with Operator(engine).at_work() as operator:
        await until("connected", lambda: operator.connection.client)
        streams = operator.deploy(has_events=False)
        await until("its account", operator.idle)
        pod = await engine.pod(streams, name=streams.environment)

        async def accepted() -> bool:
            try:
                await pod.jetstream().publish(streams.event("orders", "run1"), b"x")
            except NoStreamResponseError:
                return False
            return True

        await until("its queue", accepted)
        # What accepts events has all that an accepted event may need.
        assert set(streams.names) <= await names(engine)
        await pod.close()


async def test_a_pod_that_connected_while_no_operator_was_there_gets_streams_when_there_is_one(
    engine: NatsServer,
) -> None:
    async with Operator(engine).at_work() as operator:
        await until("connected", lambda: operator.connection.client)
        streams = operator.deploy(has_events=False)
        await until("its account", operator.idle)
    pod = await engine.pod(streams, name=streams.environment)
    async with Operator(engine).at_work() as successor:
        assert successor.deploy(has_events=False) == streams

        async def there() -> bool:
            return set(streams.names) <= await names(engine)

        await until("its streams", there)
    await pod.close()


async def test_streams_shrink_and_are_then_refused_at_the_quota(engine: NatsServer) -> None:
    own = LIMITS.divided(16).organisation_bytes(packages=False)
    quota = own + LIMITS.divided(16).environment_bytes
    async with Operator(engine, quotas=Quotas(engine_storage=quota)).at_work() as operator:
        await until("connected", lambda: operator.connection.client)
        first = operator.deploy("one")

        async def there() -> bool:
            return set(first.names) <= await names(engine)

        await until("its streams", there)
        second = operator.deploy("two")
        key = StreamKey(NAMESPACE, "two-production-engine")

        async def refused() -> bool:
            await operator.streams.survey()
            reading = operator.streams.survey_result.environments.get(key)
            return reading is not None and reading.refusal is not None

        await until("the refusal", refused)
        assert not set(second.names) & await names(engine)
        survey = operator.streams.survey_result
        assert survey.reserved <= quota
        assert survey.environments[StreamKey(NAMESPACE, "one-production-engine")].engine_bytes <= quota - own


async def test_the_api_gets_streams_for_what_it_publishes_and_other_clients_get_none(
    engine: NatsServer,
) -> None:
    async with Operator(engine).at_work() as operator:
        await until("connected", lambda: operator.connection.client)
        backed_up, published = (operator.deploy(name, has_events=False) for name in ("one", "two"))
        await until("the accounts", operator.idle)
        # Credentials for a backup are for each account, and a backup must not make all streams.
        backup = await engine.environment(backed_up, name="NATS CLI Version 0.5.1")
        api = await engine.environment(published, name=API_CLIENT)

        async def there() -> bool:
            return set(published.names) <= await names(engine)

        await until("the API's", there)
        await operator.streams.survey()
        await until("nothing to do", operator.idle)
        assert await names(engine) == {*published.names, *PLATFORM}
        await backup.close()
        await api.close()


async def test_the_first_event_by_rest_is_stored_although_no_pod_ever_connected(engine: NatsServer) -> None:
    async with Operator(engine).at_work() as operator, engines(engine) as api:
        await until("connected", lambda: operator.connection.client)
        streams = operator.deploy(has_events=False)
        await until("its account", operator.idle)
        run = await with_streams(api.of(streams), streams, lambda: publish(api, streams))
        assert await api.of(streams).first_at(streams.queue, streams.event("t", run)) is not None


async def test_streams_that_exist_are_kept_whole_although_nobody_is_connected(engine: NatsServer) -> None:
    """As those of a suspended environment."""
    async with Operator(engine).at_work() as operator:
        streams = operator.deploy()
        await until("connected", lambda: operator.connection.client)
        await until("made", operator.idle)
        admin = await engine.environment(streams)
        await admin.jetstream().publish(streams.event("orders", "run1"), b"x")
        await admin.jetstream().delete_stream(streams.dead_letters)
        await admin.close()
    async with Operator(engine).at_work() as successor:
        successor.deploy(has_events=False)

        async def there() -> bool:
            return set(streams.names) <= await names(engine)

        await until("all of them", there)
        await successor.streams.survey()
        assert successor.streams.survey_result.environments[SECRET].queued == 1


async def test_lost_accounts_of_environments_without_streams_are_given_to_the_engine_again(
    engine: NatsServer,
) -> None:
    async with Operator(engine).at_work() as operator:
        deployed = {operator.deploy(f"shop-{number}", has_events=False) for number in range(5)}
        expected = {engine.trust.environment_account(streams) for streams in deployed}
        await until("connected", lambda: operator.connection.client)
        await until("the accounts", operator.idle)
        await asyncio.to_thread(engine.kill)
        shutil.rmtree(engine.folder / "data")
        await until("it is away", lambda: operator.connection.client is None)
        await asyncio.to_thread(engine.start)

        async def there() -> bool:
            return operator.connection.client is not None and await accounts(operator) == expected

        await until("all accounts are back", there)


async def test_other_limits_are_given_to_accounts_without_streams(engine: NatsServer) -> None:
    async with Operator(engine).at_work() as operator:
        streams = operator.deploy(has_events=False)
        await until("connected", lambda: operator.connection.client)
        await until("its account", operator.idle)
    async with Operator(engine, limits=LARGER).at_work() as successor:
        assert successor.deploy(has_events=False) == streams
        await until("connected", lambda: successor.connection.client)
        await until("given", successor.idle)
        assert successor.connection.client is not None
        account = engine.trust.environment_account(streams)
        claims = await account_claims_of(successor.connection.client, account)
        assert claims is not None
        assert claims["nats"]["limits"]["disk_storage"] == account_limits(LARGER).disk_bytes


async def test_a_lost_volume_is_made_good_as_soon_as_the_engine_is_back(engine: NatsServer) -> None:
    async with Operator(engine).at_work() as operator:
        deployed = [operator.deploy(f"shop-{number}") for number in range(20)]
        await until("connected", lambda: operator.connection.client)
        await until("all are made", operator.idle)
        await asyncio.to_thread(engine.kill)
        shutil.rmtree(engine.folder / "data")
        await until("it is away", lambda: operator.connection.client is None)
        await asyncio.to_thread(engine.start)
        expected = {name for streams in deployed for name in streams.names}

        async def there() -> bool:
            return expected <= await names(engine)

        await until("all streams are back", there)


async def test_an_engine_that_is_away_is_waited_for_and_told_of(
    engine: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    await asyncio.to_thread(engine.kill)
    with caplog.at_level(logging.INFO):
        async with Operator(engine).at_work() as operator:
            streams = operator.deploy()
            await operator.streams.survey()
            await until("nothing waits for it", operator.idle, within=1)
            await until("told", lambda: "The event engine is away" in caplog.text, within=15)
            assert operator.streams.failed == 0
            await asyncio.to_thread(engine.start)

            async def there() -> bool:
                return set(streams.names) <= await names(engine)

            await until("its streams", there, within=15)
    warnings = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(warnings) == 1, "one warning, not one for each try"


async def test_without_keys_it_waits_and_with_them_it_works(engine: NatsServer) -> None:
    operator = Operator(engine)
    operator.trust = None
    async with operator.at_work():
        await asyncio.sleep(0.3)
        assert operator.connection.client is None
        operator.trust = engine.trust
        await until("connected", lambda: operator.connection.client)


async def test_keys_that_the_engine_does_not_trust_are_told(
    engine: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    operator = Operator(engine)
    stranger = EngineTrust()
    operator.trust = stranger
    async with operator.at_work():
        await until("told", lambda: "Authorization Violation" in caplog.text, within=15)
        assert operator.connection.client is None
        assert stranger.signer.seed not in caplog.text
        operator.trust = engine.trust
        await until("connected", lambda: operator.connection.client, within=15)


async def test_a_stream_that_somebody_deleted_is_back_after_the_next_survey(engine: NatsServer) -> None:
    async with Operator(engine).at_work() as operator:
        streams = operator.deploy()
        await until("connected", lambda: operator.connection.client)
        await until("made", operator.idle)
        admin = await engine.environment(streams)
        await admin.jetstream().delete_stream(streams.later)
        await admin.jetstream().delete_consumer(streams.queue, PODS)
        await operator.streams.survey()
        assert operator.streams.survey_result.missing == 1
        await until("made again", operator.idle)
        assert streams.later in await names(engine)
        assert await admin.jetstream().consumer_info(streams.queue, PODS)
        await admin.close()


async def test_streams_of_a_deleted_project_go_an_hour_later_and_no_earlier(engine: NatsServer) -> None:
    async with Operator(engine).at_work() as operator:
        gone, kept = operator.deploy("gone"), operator.deploy("kept")
        await until("connected", lambda: operator.connection.client)
        await until("made", operator.idle)
        operator.delete("gone")
        for later in (0.0, GONE_SECONDS - 1):
            operator.now = later
            await operator.streams.survey()
            assert set(gone.names) <= await names(engine)
        operator.now = GONE_SECONDS
        await operator.streams.survey()
        left = await names(engine)
        assert left == {*kept.names, *PLATFORM}
        accounts = await list_accounts(operator.connection.client)
        assert engine.trust.environment_account(kept) in accounts
        assert engine.trust.environment_account(gone) not in accounts
        # Its pods are not let in any more, until it is deployed again.
        with pytest.raises(nats.errors.Error):
            await engine.pod(gone, allow_reconnect=False)
        operator.deploy("gone")
        await until("made again", operator.idle)
        pod = await engine.pod(gone, allow_reconnect=False)
        await pod.jetstream().publish(gone.event("orders", "run1"), b"x")
        await pod.close()


async def test_pods_of_a_deleted_environment_cannot_keep_it_nor_stop_that_others_are_deleted(
    engine: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their credentials are valid for weeks, and an account takes a limited number of connections."""
    monkeypatch.setattr("tieline_operator.engine.stream_collector._JUST_SIGNED", timedelta(seconds=1))
    async with Operator(engine).at_work() as operator:
        hostile, gone = operator.deploy("hostile"), operator.deploy("gone")
        await until("connected", lambda: operator.connection.client)
        await until("made", operator.idle)
        pods = [await engine.pod(hostile, allow_reconnect=False) for _ in range(connections_of(0))]
        # Streams without an owner, as code with all rights could leave them.
        admin = await engine.environment(gone)
        for name in gone.names:
            config = (await admin.jetstream().stream_info(name)).config
            await admin.jetstream().update_stream(replace(config, metadata={}))
        await admin.close()
        operator.delete("hostile")
        operator.delete("gone")
        await asyncio.sleep(2.5)
        for later in (0.0, GONE_SECONDS):
            operator.now = later
            await operator.streams.survey()
        assert await names(engine) == set(PLATFORM)
        accounts = await list_accounts(operator.connection.client)
        assert set(accounts) == {engine.trust.account.public_key, engine.trust.system.public_key}
        await until("they are cut off", lambda: not any(pod.is_connected for pod in pods))


async def test_a_project_that_comes_back_within_the_hour_has_its_events(engine: NatsServer) -> None:
    async with Operator(engine).at_work() as operator:
        streams = operator.deploy()
        await until("connected", lambda: operator.connection.client)
        await until("made", operator.idle)
        admin = await engine.environment(streams)
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
    async with Operator(engine).at_work() as operator:
        streams = operator.deploy()
        await until("connected", lambda: operator.connection.client)
        await until("made", operator.idle)
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
            assert set(streams.names) <= await names(engine)


async def test_a_namespace_without_its_label_keeps_its_events(engine: NatsServer) -> None:
    async with Operator(engine).at_work() as operator:
        streams = operator.deploy()
        await until("connected", lambda: operator.connection.client)
        await until("made", operator.idle)
        operator.cluster.put(NAMESPACES, namespace(organisation=None))
        for later in (0.0, 2 * GONE_SECONDS):
            operator.now = later
            await operator.streams.survey()
        assert {*streams.names, *PLATFORM} <= await names(engine)


async def test_streams_of_others_in_the_account_are_never_touched(
    engine: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    admin = await engine.admin()
    await admin.jetstream().add_stream(StreamConfig(name="theirs", subjects=["theirs.>"]))
    # The API's own one is of this installation.
    await admin.jetstream().add_stream(StreamConfig(name=LIMITS_STREAM, subjects=[f"{LIMITS_STREAM}.>"]))
    async with Operator(engine).at_work() as operator:
        await until("connected", lambda: operator.connection.client)
        streams = EventStreams(ORGANISATION, operator.deploy().environment)
        await until("made", operator.idle)
        async with Operator(engine, release="another").at_work() as another:
            another.deploy()
            await until("refused", lambda: another.streams.failed == 2)
            assert "belongs to another installation" in caplog.text
        operator.delete()
        for later in (0.0, 2 * GONE_SECONDS):
            operator.now = later
            await operator.streams.survey()
        assert {"theirs", LIMITS_STREAM} <= await names(engine)
        assert not set(streams.names) & await names(engine)
        assert operator.streams.survey_result.foreign == 1
    await admin.close()


async def test_an_id_that_another_organisation_had_before_brings_none_of_its_events(
    engine: NatsServer,
) -> None:
    async with Operator(engine).at_work() as operator:
        await until("connected", lambda: operator.connection.client)
        made = project(name=PROJECT)
        before = EventStreams(new_id(), environment_id(object_id(made), "production"))
        await engine.make_environment(before, LIMITS)
        admin = await engine.environment(before)
        await admin.jetstream().publish(before.event("orders", "run1"), b"secret of the other")
        streams = operator.deploy()
        await until("made", operator.idle)
        own = await engine.environment(streams)
        info = await own.jetstream().stream_info(streams.queue)
        assert info.state.messages == 0
        assert StreamOwner.of(info.config.metadata) == StreamOwner(
            release="ours", organisation=ORGANISATION, namespace=NAMESPACE
        )
        await own.close()
        await admin.close()


async def test_a_pod_cannot_have_its_own_stream_taken_for_that_of_another_environment(
    engine: NatsServer,
) -> None:
    """By a reply subject, hostile code manages the streams of its own account as it likes."""
    async with Operator(engine).at_work() as operator:
        hostile, other = operator.deploy("hostile"), operator.deploy("other")
        await until("connected", lambda: operator.connection.client)
        await until("made", operator.idle)
        admin = await engine.environment(hostile)
        await admin.jetstream().delete_stream(hostile.dead_letters)
        owner = StreamOwner(release="ours", organisation=ORGANISATION, namespace=NAMESPACE)
        forged = StreamConfig(name=other.queue, subjects=["forged"], metadata=owner.to_metadata())
        await admin.jetstream().add_stream(forged)
        for _ in range(5):
            await admin.jetstream().publish("forged", b"x")
        await operator.streams.survey()
        key = StreamKey(NAMESPACE, "other-production-engine")
        assert operator.streams.survey_result.environments[key].queued == 0
        assert operator.streams.survey_result.foreign == 1
        await admin.close()


async def test_other_limits_are_given_to_environments_that_are_there(engine: NatsServer) -> None:
    async with Operator(engine).at_work() as operator:
        streams = operator.deploy()
        await until("connected", lambda: operator.connection.client)
        await until("made", operator.idle)
        await operator.streams.survey()
        assert operator.idle(), "nothing is made twice"
    async with Operator(engine, limits=LARGER).at_work() as successor:
        assert successor.deploy() == streams
        await until("connected", lambda: successor.connection.client)
        await until("made anew", successor.idle)
        admin = await engine.environment(streams)
        assert (await admin.jetstream().stream_info(streams.queue)).config.max_bytes == LARGER.queue_bytes
        account = await admin.jetstream().account_info()
        assert account.limits.max_storage == account_limits(LARGER).disk_bytes
        await admin.close()


async def test_the_survey_counts_what_waits_and_what_is_dead(engine: NatsServer) -> None:
    async with Operator(engine).at_work() as operator:
        streams = operator.deploy()
        await until("connected", lambda: operator.connection.client)
        await until("made", operator.idle)
        admin = await engine.environment(streams)
        jetstream = admin.jetstream()
        for number in range(3):
            await jetstream.publish(streams.event("orders", f"run{number}"), b"x")
        for number in range(2):
            await jetstream.publish(streams.dead(f"run{number}"), b"x")
        await jetstream.publish(streams.step("run1", "fetch", 0), b"x")
        await operator.streams.survey()
        reading = operator.streams.survey_result.environments[SECRET]
        assert (reading.queued, reading.waiting, reading.dead_letters) == (3, 0, 2)
        assert 0 < reading.fill < 0.1
        await jetstream.publish(streams.dead("large"), bytes(900_000))
        await operator.streams.survey()
        fullest = operator.streams.survey_result.environments[SECRET].fill
        assert fullest > reading.fill, "the fullest of the streams counts"
        assert reading.oldest is not None
        await jetstream.purge_stream(streams.dead_letters, subject=streams.dead("run0"))
        await operator.streams.survey()
        assert operator.streams.survey_result.environments[SECRET].dead_letters == 2
        await admin.close()


async def test_more_streams_than_fit_one_answer_are_all_seen(engine: NatsServer) -> None:
    small = StreamLimits(queue_bytes=1 << 20, runs_bytes=1 << 20, history_bytes=1 << 20)
    async with Operator(engine, limits=small).at_work() as operator:
        for number in range(130):
            operator.deploy(f"shop-{number}")
        await until("connected", lambda: operator.connection.client)
        await until("all are made", operator.idle, within=60)
        await operator.streams.survey()
        # Each environment has four, and the organisation history, direct runs, state, schedules, issues, two of audit.
        assert operator.streams.survey_result.streams == 4 * 130 + 7
        assert operator.streams.survey_result.missing == 0
