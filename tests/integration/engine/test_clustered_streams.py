"""Three servers of an engine place streams on all of them, though they are managed through the system account."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import nats.errors
import nats.js.errors
import pytest

from tests.harness.processes.nats_server import NatsServer
from tests.harness.processes.ports import free_ports
from tests.harness.session.waiting import eventually_async
from tieline_core.engine.management import managed_account
from tieline_core.engine.streams import StreamLimits, ensure_environment, ensure_history
from tieline_core.engine.trust import EngineTrust
from tieline_core.identity.ids import new_id
from tieline_protocol.event_streams import EventStreams, history_stream

STREAMS = EventStreams(new_id(), new_id())
LIMITS = StreamLimits(replicas=3)


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[list[NatsServer]]:
    trust, ports = EngineTrust(), free_ports(9)
    routes = tuple(f"nats://127.0.0.1:{port}" for port in ports[6:])
    made = []
    for number in range(3):
        folder = tmp_path / str(number)
        folder.mkdir()
        server = NatsServer(
            folder=folder,
            port=ports[number],
            monitoring_port=ports[3 + number],
            cluster_port=ports[6 + number],
            routes=routes,
            name=f"engine-{number}",
            trust=trust,
        )
        server.spawn()
        made.append(server)

    async def ready() -> bool:
        return all(one.ready() for one in made)

    await eventually_async("three servers work", ready, within=60)
    yield made
    for server in made:
        server.kill()


async def test_streams_are_made_and_deleted_on_three_servers(servers: list[NatsServer]) -> None:
    first, *_, last = servers
    system = await first.client(None, signer=first.trust.system_users)
    environment = managed_account(system, first.trust.environment_account(STREAMS), seconds=5)
    platform = managed_account(system, first.trust.account.public_key, seconds=5)

    async def made() -> bool:
        try:
            await first.make_account(STREAMS, LIMITS)
            await ensure_environment(environment, STREAMS, LIMITS)
            await ensure_history(platform, STREAMS.organisation, LIMITS)
        except (nats.errors.Error, nats.js.errors.Error) as error:
            raise AssertionError(error) from error
        return True

    await eventually_async("streams are made", made)
    own = await last.client(None, signer=last.trust.users.of_environment(STREAMS))
    found = {one.config.name: one.config.num_replicas for one in await own.jetstream().streams_info()}
    assert found == dict.fromkeys(STREAMS.names, 3)
    assert await platform.delete_stream(history_stream(STREAMS.organisation))
    for client in (system, own):
        await client.close()
