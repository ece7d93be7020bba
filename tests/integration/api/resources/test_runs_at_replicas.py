"""Runs by REST are the same at every replica, and come back when the engine does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.processes.nats_server import NatsServer, running_nats_server
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Client, Server, of_engine
from tests.integration.api.engine_objects import (
    report,
)
from tests.integration.api.objects import make_project
from tests.integration.api.pods import account_token
from tests.integration.api.resources.deployed_runs import Deployed, deploy
from tests.unit.api.runs.run_records import life, record
from tests.unit.api.traces.otlp_requests import attribute, body_json, span_json
from tieline_core.identity.ids import new_id

pytestmark = pytest.mark.cluster


@pytest.fixture
def other_engine(tmp_path: Path) -> Iterator[NatsServer]:
    folder = tmp_path / "engine"
    folder.mkdir()
    with running_nats_server(folder) as running:
        yield running


def test_every_replica_and_one_that_lost_its_disk_answer_the_same(
    deployed: Deployed, api_kubeconfig: Path, engine: NatsServer, tmp_path: Path
) -> None:
    runs = [new_id() for _ in range(30)]
    for run in runs:
        report(engine, deployed.streams.organisation, deployed.environment, *life(run))
    deployed.until_there(*runs)
    path = f"{deployed.path}?first=200"
    expected = deployed.client.ok("GET", path)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        with Server(api_kubeconfig, **of_engine(engine, tmp_path / name)) as replica:
            client = Client(replica.url, deployed.client.token, deployed.client.organisation)
            assert client.ok("GET", path) == expected
            assert client.ok("GET", f"{deployed.path}/{runs[0]}")["input"] == {"id": 1}


def test_an_engine_that_is_away_is_503_and_heals(
    client: Client, api_kubeconfig: Path, other_engine: NatsServer, tmp_path: Path
) -> None:
    with Server(api_kubeconfig, **of_engine(other_engine, tmp_path)) as server:
        here = Client(server.url, client.token, client.organisation)
        deployed = deploy(here, other_engine)
        run = new_id()
        deployed.report(*life(run))
        metrics = here.at("/metrics").raw.decode()
        assert "tieline_engine_connected 1.0" in metrics
        other_engine.kill()
        event = {"task": "t", "payload": 1}
        events = f"/environments/{deployed.environment}/events"
        eventually(
            "it to be noticed", lambda: "tieline_engine_connected 0.0" in here.at("/metrics").raw.decode()
        )
        for path, body in (
            (f"{deployed.path}/{run}/replay", None),
            (f"{deployed.path}/replay", {"status": "succeeded"}),
            (events, event),
        ):
            answer = here("POST", path, body)
            assert (answer.status, answer.json["code"]) == (503, "unavailable"), answer.raw
            assert answer.headers["Retry-After"]
        listed = here("GET", deployed.path)
        assert (listed.status, [one["id"] for one in listed.json["items"]]) == (200, [run])
        assert "engine cannot be reached" in listed.headers["Warning"]
        other_engine.start()
        eventually("the engine again", lambda: here("POST", events, event).status == 202)
        accepted = here.ok("POST", events, event, status=202)
        deployed.until_there(accepted["runId"])
        assert "Warning" not in here("GET", deployed.path).headers


def test_without_an_engine_operations_say_what_to_configure(client: Client, api_kubeconfig: Path) -> None:
    with Server(api_kubeconfig) as server:
        here = Client(server.url, client.token, client.organisation)
        project = make_project(here)
        path = f"/projects/{project['id']}/runs"
        for method, asked in (("GET", "/runs"), ("GET", path), ("GET", f"{path}/{new_id()}")):
            answer = here(method, asked)
            assert (answer.status, answer.json["code"]) == (503, "not_configured")
            assert "TIELINE_ENGINE_URL" in answer.json["message"]
        assert here("GET", f"/projects/{new_id()}/runs").status == 404


def test_direct_runs_and_traces_are_the_same_at_every_replica(
    deployed: Deployed,
    server: Server,
    api_kubeconfig: Path,
    kubectl: Kubectl,
    org: Organisation,
    tmp_path: Path,
) -> None:
    run, queued = new_id(), new_id()
    deployed.report(record(queued, kind="webhook", task="orders"))
    spans = [
        span_json(
            number,
            attributes=[
                attribute("executionId", identifier),
                attribute("task", "orders"),
                attribute("user", "ann"),
                attribute("http.request.method", "POST"),
                attribute("exception.type", "ValueError"),
            ],
            status={"code": 2, "message": "ValueError: no"},
        )
        for number, identifier in ((1, run), (2, queued))
    ]
    sender = Client(deployed.client.url, account_token(kubectl, org, deployed.project), org.id)
    sent = sender.at(
        "/internal/v1/traces", method="POST", raw=body_json(*spans), Content_Type="application/json"
    )
    assert sent.status == 200
    deployed.until_there(run, queued)
    found = {one["id"]: one for one in deployed.client.ok("GET", deployed.path)["items"]}
    assert found.keys() == {run, queued}
    assert found[queued]["status"] == "queued"
    assert found[run] == {
        "id": run,
        "kind": "webhook",
        "task": "orders",
        "status": "failed",
        "environmentId": deployed.environment,
        "user": {"externalId": "ann"},
        "attempt": 1,
        "queuedAt": "2025-11-21T10:00:00.000000Z",
        "startedAt": "2025-11-21T10:00:00.000000Z",
        "endedAt": "2025-11-21T10:00:00.000001Z",
        "error": {"type": "ValueError", "message": "ValueError: no"},
        "traceId": f"{1:032x}",
    }
    assert deployed.ids("search=valueerror") == [run]
    assert deployed.ids(f"trace_id={1:032x}") == [run]
    assert deployed.ids(f"trace_id={1:032x}&key=ann") == []
    settings = {**of_engine(deployed.engine, tmp_path), "traces_file": str(tmp_path / "traces.db")}
    with Server(api_kubeconfig, **settings) as replica:
        other = Client(replica.url, deployed.client.token, deployed.client.organisation)
        same = deployed.client.ok("GET", deployed.path)
        eventually("the runs at the other replica", lambda: other.ok("GET", deployed.path) == same)
        assert other.ok("GET", f"/projects/{deployed.project['id']}/traces/{1:032x}")["spans"]
        assert other.ok("GET", f"{deployed.path}/{run}")["attemptHistory"][0]["status"] == "failed"
    refused = deployed.client("POST", f"{deployed.path}/{run}/replay")
    assert (refused.status, "not kept" in refused.json["message"]) == (409, True)
    assert deployed.client("POST", f"{deployed.path}/{run}/cancel").status == 409
