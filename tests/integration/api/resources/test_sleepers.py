"""Runs that wait, by REST: with what is recorded of them, for those who may deploy."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable

import pytest
from nats.aio.client import Client as Nats

from tests.harness.cluster.kubectl import Organisation
from tests.harness.processes.nats_server import NatsServer
from tests.integration.api.conftest import Client, Server
from tests.integration.api.engine_objects import with_engine
from tests.integration.api.resources.deployed_runs import Deployed, deploy
from tieline_core.identity.ids import new_id
from tieline_protocol.event_streams import STEP_HEADER
from tieline_protocol.events import HEADER, EventMetadata
from tieline_protocol.waits import TIMED_OUT

pytestmark = pytest.mark.cluster


@pytest.fixture
def deployed(client: Client, engine: NatsServer) -> Deployed:
    return deploy(client, engine)


def sleeps(deployed: Deployed, result: str = "7") -> str:
    """A run that has recorded a step, and sleeps."""
    metadata = EventMetadata(run=new_id(), kind="event", task="order", queued_at=1.0, has_steps=True)
    streams, run = deployed.streams, metadata.run
    about = json.dumps({"name": "reserve", "work": "w1", "version": "v1"})

    async def record(client: Nats) -> None:
        jetstream = client.jetstream()
        await jetstream.publish(streams.steps_claim(run), b"")
        await jetstream.publish(
            streams.step(run, "reserve", 1, place=1), result.encode(), headers={STEP_HEADER: about}
        )
        await jetstream.publish(streams.outcome(run, "a"), b"", headers={TIMED_OUT: "1"})
        await jetstream.publish(streams.waiting(run), b'{"id":"A"}', headers={HEADER: metadata.header()})

    with_engine(deployed.engine, record, streams, pod=True)
    return run


def test_sleepers_are_listed_with_their_records(deployed: Deployed) -> None:
    path = f"/environments/{deployed.environment}/sleepers"
    assert deployed.client.ok("GET", path) == {"totalCount": 0, "items": []}
    runs = [sleeps(deployed), sleeps(deployed)]
    found = deployed.client.ok("GET", path)
    assert found["totalCount"] == 2
    assert [one["metadata"]["run"] for one in found["items"]] == runs
    (item, _) = found["items"]
    assert base64.b64decode(item["payload"]) == b'{"id":"A"}'
    assert item["steps"] == [
        {"name": "reserve", "occurrence": 1, "place": 1, "work": "w1", "version": "v1", "result": "7"}
    ]
    assert item["outcomes"] == [{"wait": "a", "payload": ""}]
    found = deployed.client.ok("GET", f"{path}?first=1")
    assert (found["totalCount"], len(found["items"])) == (2, 1)


def test_a_viewer_and_others_do_not_see_them(
    deployed: Deployed, neighbour: Client, server: Server, org: Organisation, token_for: Callable[..., str]
) -> None:
    sleeps(deployed)
    path = f"/environments/{deployed.environment}/sleepers"
    viewer = Client(server.url, token_for(org.namespace, "sleepers-viewer", "tieline-viewer"), org.id)
    assert viewer("GET", path).status == 403
    assert neighbour("GET", path).status == 404
    assert deployed.client("GET", f"/environments/{new_id()}/sleepers").status == 404
