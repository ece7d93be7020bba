"""An environment's account takes as many clients as its pods, the API and a backup need, and not many more."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import nats.errors
import pytest
from nats.aio.client import Client

from tests.harness.processes.nats_server import NatsServer
from tests.integration.engine.test_environment_engines import engines
from tests.integration.engine.test_streams_are_kept import LIMITS, Operator, until
from tests.unit.operator.objects import NAMESPACE
from tieline_core.engine.streams import connections_of
from tieline_core.identity.ids import new_id
from tieline_core.identity.names import ENVIRONMENT_ID_LABEL, PROJECT_LABEL
from tieline_core.kubernetes import Change
from tieline_core.kubernetes.resources import DEPLOYMENTS, PODS
from tieline_protocol.event_streams import EventStreams

API_REPLICAS = 3


def _child(streams: EventStreams, project: str, name: str, **content: Any) -> dict[str, Any]:
    labels = {ENVIRONMENT_ID_LABEL: streams.environment, PROJECT_LABEL: project}
    metadata = {"name": name, "namespace": NAMESPACE, "uid": name, "labels": labels}
    return {"metadata": metadata, **content}


class _Scaled:
    """An environment whose Deployment and pods a test decides, and clients that stay connected to its account."""

    def __init__(self, engine: NatsServer, operator: Operator, project: str) -> None:
        self.engine, self.operator, self.project = engine, operator, project
        self.streams = operator.deploy(project)
        self.clients: list[Client] = []

    async def to(self, replicas: int) -> None:
        """The Deployment is scaled, and its pods are there."""
        deployment = _child(
            self.streams, self.project, f"{self.project}-production", spec={"replicas": replicas}
        )
        self.operator.cluster.put(DEPLOYMENTS, deployment)
        self.operator.streams.scaled(Change(old=None, new=deployment))
        await until("the account to be told", self.operator.idle)

    def has_pods(self, number: int) -> None:
        """So many are there, those among them that are ending."""
        pods: dict[tuple[str, str], Any] = self.operator.cluster.objects[PODS]
        pods.clear()
        for index in range(number):
            self.operator.cluster.put(PODS, _child(self.streams, self.project, f"pod-{index}"))

    async def survey(self) -> None:
        await self.operator.streams.survey()
        await until("what was found to be mended", self.operator.idle)

    async def connect(self, number: int) -> None:
        for _ in range(number):
            self.clients.append(await self.engine.pod(self.streams, allow_reconnect=False))

    async def refuses(self) -> bool:
        """Whether the account takes no client more."""
        try:
            client = await self.engine.pod(self.streams, allow_reconnect=False, connect_timeout=2)
        except (nats.errors.Error, TimeoutError, OSError):
            return True
        await client.close()
        return False

    @property
    def connected(self) -> int:
        return sum(client.is_connected for client in self.clients)


@pytest.fixture
async def scaled(engine: NatsServer) -> AsyncIterator[_Scaled]:
    async with AsyncExitStack() as stack:
        operator = await stack.enter_async_context(Operator(engine).at_work())
        found = _Scaled(engine, operator, f"shop-{new_id().lower()}")
        await until("connected", lambda: operator.connection.client)
        await until("made", operator.idle)
        yield found
        for client in found.clients:
            await client.close()


async def test_a_rollout_with_surge_the_api_and_a_backup_find_room(
    engine: NatsServer, scaled: _Scaled
) -> None:
    await scaled.to(2)
    # Those that are to end, those that take their place, and one of the next rollout.
    await scaled.connect(2 + 2 + 1)
    async with AsyncExitStack() as stack:
        for _ in range(API_REPLICAS):
            environments = await stack.enter_async_context(engines(engine))
            assert await environments.of(scaled.streams).stream_info(scaled.streams.queue) is not None
        backup = await engine.environment(scaled.streams)
        assert await backup.jetstream().stream_info(scaled.streams.queue)
        await backup.close()
    assert scaled.connected == 5


async def test_code_that_opens_connections_finds_an_end_that_follows_the_number_of_pods(
    scaled: _Scaled,
) -> None:
    await scaled.to(1)
    await scaled.connect(connections_of(1))
    assert await scaled.refuses()
    await scaled.to(3)
    assert not await scaled.refuses()
    assert scaled.connected == connections_of(1)


async def test_pods_that_end_keep_their_connections_when_an_environment_gets_fewer(scaled: _Scaled) -> None:
    await scaled.to(20)
    scaled.has_pods(20)
    await scaled.connect(connections_of(20))
    await scaled.to(1)
    await scaled.survey()
    assert scaled.connected == connections_of(20)
    for client in scaled.clients:
        await client.close()
    scaled.has_pods(1)
    await scaled.survey()
    await scaled.connect(connections_of(1))
    assert await scaled.refuses()


async def test_streams_stay_as_they_are_when_the_number_of_pods_changes(scaled: _Scaled) -> None:
    keys = scaled.operator.streams._keys()
    assert keys is not None
    before = keys.environment_settings(scaled.streams, LIMITS)
    await scaled.to(5)
    await scaled.survey()
    assert keys.environment_settings(scaled.streams, LIMITS) == before
    # With nothing more to do, surveys change nothing.
    assert scaled.operator.streams.survey_result.missing == 0
    assert scaled.operator.idle()
