"""Schedules of a whole organisation that did not run: read from a real engine, in pages."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from nats.aio.client import Client as Nats

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.processes.nats_server import NatsServer
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Client
from tests.integration.api.engine_objects import make_state_streams, with_engine
from tests.integration.api.objects import MAIN, make_project
from tieline_core.engine.state_streams import StatePlace
from tieline_core.identity.names import workload_name

pytestmark = pytest.mark.cluster

MANY = 1_203


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _running(client: Client, kubectl: Kubectl, org: Organisation) -> dict[str, Any]:
    """A project that has been running for three days."""
    project = make_project(client)
    client.ok("PUT", f"/projects/{project['id']}/deploy", {"files": [MAIN]})
    environment = project["environments"][0]
    now = datetime.now(UTC)
    item = {
        "name": environment["name"],
        "id": environment["id"],
        "workload": workload_name(project["id"].lower(), environment["name"]),
        "status": "running",
        "createdAt": _text(now),
        "updatedAt": _text(now),
        "deployedAt": _text(now - timedelta(days=3)),
    }
    patch = json.dumps({"status": {"observedGeneration": 1000, "environments": [item]}})
    kubectl(
        *("patch", "project", project["id"].lower(), "--subresource=status", "--type=merge", "-p", patch),
        namespace=org.namespace,
    )
    return project


def _write(engine: NatsServer, org: Organisation, environment: str, records: dict[str, Any]) -> None:
    place = StatePlace.of_schedules(org.id, environment)

    async def publish(client: Nats) -> None:
        for name, record in records.items():
            await client.publish(place.subject(name), json.dumps(record).encode())
        await client.flush(timeout=30)

    with_engine(engine, publish)


def _late(client: Client, query: str = "") -> dict[str, Any]:
    found: dict[str, Any] = client.ok("GET", f"/schedulers/late{query}")
    return found


def test_what_did_not_run_is_found_among_more_records_than_the_engine_sends_at_once(
    client: Client, kubectl: Kubectl, org: Organisation, engine: NatsServer
) -> None:
    assert _late(client) == {"items": [], "totalCount": 0}, "before there is a stream"
    make_state_streams(engine, org.id)
    project = _running(client, kubectl, org)
    environment = project["environments"][0]["id"]
    now = datetime.now(UTC)
    fine = {"settled": _text(now), "times": "0 3 * * * UTC"}
    late = {"settled": _text(now - timedelta(days=2)), "times": "0 3 * * * UTC"}
    later = {"settled": _text(now - timedelta(hours=6)), "times": "0 * * * * UTC"}
    _write(engine, org, environment, {f"fine-{number}": fine for number in range(MANY)})
    odd = {"<b>odd</b>": late, "list": [], "text": {"settled": "soon", "times": 7, "sweep": "x"}}
    _write(engine, org, environment, {"hourly": later, "nightly": late, **odd})

    def both() -> dict[str, Any] | None:
        found = _late(client)
        return found if found["totalCount"] == 2 else None

    found = eventually("both", both, seen=lambda: _late(client))
    assert [one["name"] for one in found["items"]] == ["nightly", "hourly"]
    first = found["items"][0]
    assert (first["projectId"], first["projectName"]) == (project["id"], project["name"])
    assert (first["environmentId"], first["environmentName"]) == (environment, "production")
    assert first["missed"].endswith("T03:00:00Z")
    assert _late(client, "?first=1") == {"items": [first], "totalCount": 2}

    _write(engine, org, environment, {"nightly": fine})
    eventually("it has run", lambda: [one["name"] for one in _late(client)["items"]] == ["hourly"])
    path = f"/projects/{project['id']}/suspend?environment=production"
    client.ok("POST", path)
    eventually("a stopped environment misses nothing", lambda: _late(client)["totalCount"] == 0)
