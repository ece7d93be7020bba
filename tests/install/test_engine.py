"""The event engine that a release brings, without the platform: what is queued outlives pods."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import nats.errors
import pytest
import yaml
from nats.aio.client import Client
from nats.js import JetStreamContext

from tests.harness.cluster.engine_secrets import make_engine_secrets
from tests.harness.cluster.kubectl import Kubectl
from tests.harness.cluster.releases import PLATFORM_NAMESPACE, Helm, Release
from tests.harness.processes.nats_server import ManagingClient
from tests.harness.session.waiting import eventually, eventually_async
from tieline_cluster.providers import Cluster
from tieline_core.engine.accounts import push_account
from tieline_core.engine.streams import StreamLimits, account_limits, ensure_environment
from tieline_core.engine.trust import AccountSigner, EngineTrust
from tieline_engine.credentials import Credentials
from tieline_protocol.event_streams import EventStreams

pytestmark = pytest.mark.e2e

STREAMS = EventStreams("01J9ZQ4Y7M2K8V3T5XWB6CDEFG", "01J9ZQ4Y7M2K8V3T5XWB6CDEFH")
ROUTES = tuple(
    f"nats://tieline-engine-{number}.tieline-engine-headless.{PLATFORM_NAMESPACE}.svc:6222"
    for number in range(3)
)
USER = 65532
PLAIN = {"mode": "disabled"}
"""No operator makes certificates here."""


@pytest.fixture(autouse=True)
def reachable(empty_cluster: Cluster) -> None:
    if not empty_cluster.host_reachable:
        pytest.skip("connects to a Service from this machine")


def _install(
    helm: Helm, kubectl: Kubectl, this: Release, routes: Sequence[str] = (), **engine: Any
) -> EngineTrust:
    """The release without operator and API, once its engine is ready."""
    kubectl("create", "namespace", PLATFORM_NAMESPACE)
    kubectl("label", "namespace", PLATFORM_NAMESPACE, "pod-security.kubernetes.io/enforce=restricted")
    trust = make_engine_secrets(kubectl, PLATFORM_NAMESPACE, routes=routes)
    values = {
        "operator": {"replicas": 0},
        "api": {"replicas": 0},
        "engine": {"image": this.images["engine"], **engine},
        "tls": PLAIN,
    }
    place = ("-n", PLATFORM_NAMESPACE, "--wait", "--timeout", "120s")
    helm("install", "tieline", this.chart, *place, values=values)
    return trust


@asynccontextmanager
async def _client(
    kubectl: Kubectl, trust: EngineTrust, limits: StreamLimits | None = None
) -> AsyncIterator[JetStreamContext]:
    """A client in the environment's account, which is made first, as the operator does it, if there are limits."""
    service = ("get", "service", "tieline-engine", "-o", "jsonpath={.spec.clusterIP}")
    address = kubectl(*service, namespace=PLATFORM_NAMESPACE).stdout

    async def connect(signer: AccountSigner, client: Client | None = None) -> Client:
        user = Credentials.parse(signer.credentials("test", at=datetime.now(UTC)))
        client = client or Client()
        await client.connect(
            f"nats://{address}:4222",
            user_jwt_cb=user.user_jwt_cb,
            signature_cb=user.signature_cb,
            max_reconnect_attempts=-1,
            reconnect_time_wait=0.2,
        )
        return client

    system = await connect(trust.system_users)
    if limits is not None:
        jwt = trust.environment_jwt(STREAMS, account_limits(limits), at=datetime.now(UTC))
        await _until_accepted(lambda: push_account(system, jwt))
    client = ManagingClient(system, trust.environment_account(STREAMS))
    await connect(trust.users.of_environment(STREAMS), client)
    try:
        yield client.jetstream(timeout=5)
    finally:
        await client.close()


async def _until_accepted(request: Callable[[], Awaitable[object]]) -> None:
    """As clients do while servers restart, and elect who leads their streams."""

    async def accepted() -> bool:
        try:
            await request()
        except (nats.errors.Error, nats.js.errors.Error) as error:
            raise AssertionError(error) from error
        return True

    await eventually_async("the engine accepts it", accepted)


async def _publish(jetstream: JetStreamContext, run: int) -> None:
    subject, headers = STREAMS.event("orders", f"run{run}"), {"Nats-Msg-Id": f"run{run}"}
    await _until_accepted(lambda: jetstream.publish(subject, b"order", headers=headers))


async def _queued(jetstream: JetStreamContext) -> int:
    """How many events are queued, once somebody leads the stream who knows."""
    found: list[int] = []

    async def ask() -> None:
        found.append((await jetstream.stream_info(STREAMS.queue)).state.messages)

    await _until_accepted(ask)
    return found[-1]


def _ready(kubectl: Kubectl) -> None:
    rollout = ("rollout", "status", "statefulset/tieline-engine", "--timeout=120s")
    kubectl(*rollout, namespace=PLATFORM_NAMESPACE, timeout=140)


def _volume(kubectl: Kubectl, folder: Path) -> None:
    """A volume on this machine for the first claim that asks for one, in a cluster without a storage class."""
    folder.mkdir()
    os.chown(folder, USER, USER)
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "tieline-engine-test"},
        "spec": {
            "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": str(folder)},
        },
    }
    kubectl("apply", "-f", "-", stdin=yaml.safe_dump(volume))


async def test_what_is_queued_outlives_the_engines_pod_and_the_release(
    helm: Helm, kubectl: Kubectl, this: Release, tmp_path: Path
) -> None:
    _volume(kubectl, tmp_path / "volume")
    try:
        trust = _install(helm, kubectl, this)
        async with _client(kubectl, trust, StreamLimits()) as jetstream:
            await ensure_environment(jetstream, STREAMS, StreamLimits())
            for run in range(20):
                await _publish(jetstream, run)
        kubectl(
            "delete", "pod", "tieline-engine-0", "--grace-period=0", "--force", namespace=PLATFORM_NAMESPACE
        )
        _ready(kubectl)
        async with _client(kubectl, trust) as jetstream:
            assert await _queued(jetstream) == 20

        # As docs/install.md says, the volume stays, and another release takes it up.
        helm("uninstall", "tieline", "-n", PLATFORM_NAMESPACE, "--wait")
        place = ("-n", PLATFORM_NAMESPACE, "--wait", "--timeout", "120s")
        engine = {"engine": {"image": this.images["engine"]}}
        helm(
            "install",
            "tieline",
            this.chart,
            *place,
            values={**engine, "operator": {"replicas": 0}, "api": {"replicas": 0}, "tls": PLAIN},
        )
        async with _client(kubectl, trust) as jetstream:
            assert await _queued(jetstream) == 20
            await _publish(jetstream, 20)
        assert not [file for file in (tmp_path / "volume").rglob("*.blk") if b"order" in file.read_bytes()]
    finally:
        kubectl("delete", "namespace", PLATFORM_NAMESPACE, "--wait=true", timeout=120)
        kubectl("delete", "persistentvolume", "tieline-engine-test")


async def test_three_engines_accept_events_while_one_of_them_is_away(
    helm: Helm, kubectl: Kubectl, this: Release
) -> None:
    trust = _install(helm, kubectl, this, ROUTES, replicas=3, persistence={"enabled": False})
    limits = StreamLimits(replicas=3)
    async with _client(kubectl, trust, limits) as jetstream:
        await _until_accepted(lambda: ensure_environment(jetstream, STREAMS, limits))
        for run in range(10):
            await _publish(jetstream, run)
        kubectl(
            "delete", "pod", "tieline-engine-0", "--grace-period=0", "--force", namespace=PLATFORM_NAMESPACE
        )
        for run in range(10, 20):
            await _publish(jetstream, run)
        _ready(kubectl)
        # The pod that came back lost its emptyDir, and has all from the others.
        assert await _queued(jetstream) == 20

    # The configuration of a single server, which would start without what the others have, is not taken.
    make_engine_secrets(kubectl, PLATFORM_NAMESPACE)
    kubectl("delete", "pod", "tieline-engine-1", namespace=PLATFORM_NAMESPACE)
    eventually(
        "the server says why it does not start",
        lambda: "TIELINE_SERVER_NAME" in _log(kubectl, "tieline-engine-1"),
    )


def _log(kubectl: Kubectl, pod: str) -> str:
    return kubectl("logs", pod, "--tail=5", namespace=PLATFORM_NAMESPACE, check=False).stdout
