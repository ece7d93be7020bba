"""The event engine's credentials on a real API server, and its streams on a real nats-server."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nats.errors
import pytest

import nats
from tests.harness.cluster.kubectl import Kubectl, an_organisation
from tests.harness.processes.nats_server import NatsServer, running_nats_server
from tests.harness.session.waiting import eventually
from tests.integration.operator.cluster_objects import NamespacedKubectl, project_spec
from tests.integration.operator.running_operator import RunningOperator
from tieline_core.engine.accounts import list_streams
from tieline_core.engine.trust import EngineTrust, new_encryption_key
from tieline_engine.credentials import Credentials
from tieline_protocol.event_streams import EventStreams, history_stream

pytestmark = pytest.mark.cluster

EXPIRES = "tieline.dev/expires"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with running_nats_server(tmp_path_factory.mktemp("engine")) as server:
        yield server


@pytest.fixture(scope="module")
def with_engine(
    kubectl: Kubectl,
    crds_installed: None,
    operator_kubeconfig: Path,
    engine: NatsServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[NamespacedKubectl, RunningOperator]]:
    """An organisation, and an operator whose engine an administrator runs: they filled the trust Secret."""
    with an_organisation(kubectl) as organisation:
        acting = NamespacedKubectl(kubectl=kubectl, namespace=organisation.namespace)
        put_trust(acting, engine.trust)
        running = RunningOperator(
            kubeconfig=operator_kubeconfig,
            namespaces=(organisation.namespace,),
            log=tmp_path_factory.mktemp("operator") / "log",
            variables={
                "TIELINE_ENGINE_URL": engine.url,
                "TIELINE_ENGINE_QUEUE_BYTES": str(16 << 20),
                "TIELINE_ENGINE_RUNS_BYTES": str(16 << 20),
                "TIELINE_ENGINE_HISTORY_BYTES": str(16 << 20),
            },
        )
        with running:
            yield acting, running


def put_trust(acting: NamespacedKubectl, trust: EngineTrust) -> None:
    values = trust.to_values() | {"encryption-key": new_encryption_key()}
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "tieline-engine-trust", "namespace": acting.namespace},
        "data": {name: base64.b64encode(value.encode()).decode() for name, value in values.items()},
    }
    acting.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(body))


def credentials(acting: NamespacedKubectl, project: str) -> dict[str, Any]:
    """The Secret of a project's environment, once it is there."""

    def probe() -> dict[str, Any] | None:
        found = [
            item
            for item in acting.workload("secrets", project)
            if item["type"] == "tieline.dev/engine-credentials"
        ]
        return found[0] if found else None

    return eventually("the environment has credentials", probe)


def deployment(acting: NamespacedKubectl, project: str) -> dict[str, Any]:
    return eventually("a Deployment", lambda: next(iter(acting.workload("deployment", project)), None))


def streams_of(acting: NamespacedKubectl, environment: str) -> EventStreams:
    label = "jsonpath={.metadata.labels.tieline\\.dev/organisation}"
    organisation = acting.kubectl("get", "namespace", acting.namespace, "-o", label).stdout.strip()
    return EventStreams(organisation, environment)


def streams_in(engine: NatsServer) -> set[str]:
    async def names() -> set[str]:
        client = await engine.client(None, signer=engine.trust.system_users)
        found = {stream.name for stream in await list_streams(client)}
        await client.close()
        return found

    return asyncio.run(names())


def streams_for_a_pod(engine: NatsServer, streams: EventStreams) -> None:
    """Returns once the environment has its streams, after a pod has connected as those do whose code has events."""

    async def connect() -> bool:
        try:
            pod = await engine.pod(streams, name=streams.environment, allow_reconnect=False)
        except nats.errors.Error:
            return False
        await pod.close()
        return True

    eventually("a pod is let in", lambda: asyncio.run(connect()), within=60)
    eventually("its streams", lambda: set(streams.names) <= streams_in(engine))


def test_a_deployed_environment_gets_credentials_that_its_pods_mount_and_streams_for_code_with_events(
    with_engine: tuple[NamespacedKubectl, RunningOperator], engine: NatsServer
) -> None:
    acting, _ = with_engine
    acting.apply("Project", "queued", project_spec())
    secret = credentials(acting, "queued")
    (volume,) = [
        item
        for item in deployment(acting, "queued")["spec"]["template"]["spec"]["volumes"]
        if item["name"] == "engine"
    ]
    assert volume["secret"]["secretName"] == secret["metadata"]["name"]
    environment = secret["metadata"]["labels"]["tieline.dev/environment-id"]
    streams = streams_of(acting, environment)
    eventually("the history", lambda: history_stream(streams.organisation) in streams_in(engine))
    assert not set(streams.names) & streams_in(engine)
    streams_for_a_pod(engine, streams)
    for name in ("tieline-engine-config", "tieline-engine-api"):
        assert acting.get("secret", name)["data"]


def test_renewed_credentials_replace_no_pod_and_then_nothing_more_is_written(
    with_engine: tuple[NamespacedKubectl, RunningOperator],
) -> None:
    acting, operator = with_engine
    acting.apply("Project", "renewed", project_spec())
    before, workload = credentials(acting, "renewed"), deployment(acting, "renewed")
    name = before["metadata"]["name"]
    operator.at_rest()
    acting.run("annotate", "--overwrite", "secret", name, f"{EXPIRES}=2026-01-01T00:00:00Z")

    def renewed() -> bool:
        found = acting.get("secret", name)
        return bool(found["data"] != before["data"] and found["metadata"]["annotations"][EXPIRES] > "2026-02")

    eventually("other credentials", renewed)
    after = deployment(acting, "renewed")
    assert after["metadata"]["generation"] == workload["metadata"]["generation"]
    # The node starts pods meanwhile, each step of which the operator reports.
    eventually("nothing more is written", lambda: operator.at_rest() == operator.at_rest())


def test_credentials_that_somebody_overwrote_or_deleted_are_made_again(
    with_engine: tuple[NamespacedKubectl, RunningOperator],
) -> None:
    acting, _ = with_engine
    acting.apply("Project", "repaired", project_spec())
    name = credentials(acting, "repaired")["metadata"]["name"]
    acting.run("patch", "secret", name, "-p", '{"data": {"engine.creds": "eA=="}}')
    eventually("they are usable", lambda: acting.get("secret", name)["data"]["engine.creds"] != "eA==")
    uid = acting.get("secret", name)["metadata"]["uid"]
    acting.run("delete", "secret", name)
    eventually("they are back", lambda: credentials(acting, "repaired")["metadata"]["uid"] != uid)


def test_credentials_go_with_the_project(with_engine: tuple[NamespacedKubectl, RunningOperator]) -> None:
    acting, _ = with_engine
    acting.apply("Project", "leaving", project_spec())
    credentials(acting, "leaving")
    acting.run("delete", "project", "leaving")
    eventually("no Secret is left", lambda: not acting.workload("secrets", "leaving"), within=60)


def test_an_administrator_gets_credentials_for_each_account_for_a_backup(
    with_engine: tuple[NamespacedKubectl, RunningOperator], engine: NatsServer, tmp_path: Path
) -> None:
    acting, operator = with_engine
    acting.apply("Project", "saved", project_spec())
    environment = credentials(acting, "saved")["metadata"]["labels"]["tieline.dev/environment-id"]
    streams = streams_of(acting, environment)
    streams_for_a_pod(engine, streams)
    start = "from tieline_operator.command import main; raise SystemExit(main())"
    arguments = ["engine-credentials", "--directory", str(tmp_path / "credentials")]
    done = subprocess.run(
        [sys.executable, "-c", start, *arguments],
        env={**os.environ, **operator.environment(), **operator.variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stdout
    assert "SEED" not in done.stderr

    async def stored(file: str, stream: str) -> str:
        user = Credentials.parse((tmp_path / "credentials" / file).read_text())
        client = await nats.connect(
            engine.url, user_jwt_cb=user.user_jwt_cb, signature_cb=user.signature_cb, allow_reconnect=False
        )
        info = await client.jetstream().stream_info(stream)
        await client.close()
        return str(info.config.name)

    index = [line.split("\t") for line in (tmp_path / "credentials" / "index.tsv").read_text().splitlines()]
    files = {tuple(line[2:]): line[0] for line in index}
    own = files[acting.namespace, "saved", "production"]
    for stream in streams.names:
        assert asyncio.run(stored(own, stream)) == stream
    history = history_stream(streams.organisation)
    assert asyncio.run(stored(files["-", "-", "-"], history)) == history


def test_a_dead_letter_is_seen_in_metrics_and_in_the_status_of_the_project(
    with_engine: tuple[NamespacedKubectl, RunningOperator], engine: NatsServer
) -> None:
    acting, operator = with_engine
    acting.apply("Project", "failing", project_spec())
    environment = credentials(acting, "failing")["metadata"]["labels"]["tieline.dev/environment-id"]
    streams = streams_of(acting, environment)
    streams_for_a_pod(engine, streams)

    async def bury() -> None:
        client = await engine.environment(streams)
        await client.jetstream().publish(streams.dead("run1"), b"why")
        await client.close()

    asyncio.run(bury())
    eventually("counted", lambda: "tieline_operator_engine_dead_letters 1.0" in operator.metrics())
    found = eventually(
        "in the status",
        lambda: next(
            (
                item
                for item in acting.get("project", "failing")["status"]["environments"]
                if item.get("deadLetters")
            ),
            None,
        ),
    )
    assert found["deadLetters"] == 1
    # The node starts pods meanwhile, each step of which the operator reports.
    eventually("nothing more is written", lambda: operator.at_rest() == operator.at_rest())


def test_an_engine_that_is_away_delays_no_deploy(
    with_engine: tuple[NamespacedKubectl, RunningOperator], engine: NatsServer
) -> None:
    acting, operator = with_engine
    engine.kill()
    try:
        eventually("noticed", lambda: "tieline_operator_engine_connected 0.0" in operator.metrics())
        acting.apply("Project", "unhindered", project_spec())
        secret = credentials(acting, "unhindered")
        deployment(acting, "unhindered")
        assert operator.healthy()
    finally:
        engine.start()
    environment = secret["metadata"]["labels"]["tieline.dev/environment-id"]
    streams_for_a_pod(engine, streams_of(acting, environment))
    assert "tieline_operator_engine_connected 1.0" in operator.metrics()


def test_another_signer_renews_credentials_and_the_log_has_no_secret(
    with_engine: tuple[NamespacedKubectl, RunningOperator], engine: NatsServer
) -> None:
    acting, operator = with_engine
    acting.apply("Project", "signed", project_spec())
    before = credentials(acting, "signed")
    other = EngineTrust(
        operator=engine.trust.operator, system=engine.trust.system, account=engine.trust.account
    )
    put_trust(acting, other)
    operator.stop()
    operator.start()
    eventually(
        "other credentials",
        lambda: (
            credentials(acting, "signed")["metadata"]["annotations"]["tieline.dev/engine-signer"]
            == other.signer.public_key
        ),
    )
    after = credentials(acting, "signed")
    text = operator.log.read_text() + operator.metrics()
    for secret in (before, after):
        for line in base64.b64decode(secret["data"]["engine.creds"]).decode().splitlines():
            assert line.startswith("--") or not line or line not in text
    assert not any(value in text for value in other.to_values().values())
