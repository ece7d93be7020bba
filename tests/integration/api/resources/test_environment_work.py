"""The number by which autoscalers scale an environment: what could run now, and what pods have taken."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.harness.processes.nats_server import NatsServer
from tests.integration.api.conftest import Client
from tests.integration.api.engine_objects import fetched
from tests.integration.api.objects import MAIN, make_project
from tests.integration.api.resources.deployed_runs import Deployed
from tieline_core.identity.ids import new_id
from tieline_protocol.events import EventMetadata

pytestmark = pytest.mark.cluster


def event(**fields: Any) -> EventMetadata:
    return EventMetadata(run=new_id(), kind="event", task="order.created", queued_at=time.time(), **fields)


def test_what_more_pods_could_run_is_counted(deployed: Deployed) -> None:
    def work() -> tuple[int, int, int]:
        found = deployed.client.ok("GET", f"/environments/{deployed.environment}/work")
        return found["waiting"], found["running"], found["total"]

    assert work() == (0, 0, 0)
    for metadata in (
        event(),
        event(priority=1),
        event(priority=-1),
        event(key="ann"),
        event(key="ann"),
        event(key="bob"),
    ):
        deployed.queue(metadata)
    deployed.queue(event(), delay=3600)
    # Of each key one can run at a time, and what waits for its time cannot run.
    assert work() == (5, 0, 5)
    taken = fetched(deployed.engine, deployed.streams, deployed.streams.queue)
    assert len(taken) == 3
    assert work() == (2, 3, 5)


def test_an_environment_that_never_had_a_pod_has_no_work(client: Client, engine: NatsServer) -> None:
    project = make_project(client)
    client.ok("PUT", f"/projects/{project['id']}/deploy", {"files": [MAIN]})
    path = f"/environments/{project['environments'][0]['id']}/work"
    assert client.ok("GET", path) == {"waiting": 0, "running": 0, "total": 0}
    assert client("GET", f"/environments/{new_id()}/work").status == 404
