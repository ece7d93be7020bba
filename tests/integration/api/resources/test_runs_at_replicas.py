"""Runs by REST are the same at every replica, and come back when the engine does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
from tests.unit.api.runs.run_records import NOW, life, record
from tieline_api.runs.fingerprints import issue_of
from tieline_core.identity.ids import new_id
from tieline_protocol.events import WebhookRequest
from tieline_protocol.run_records import RunError

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
            eventually("the runs are read", lambda client=client: client("GET", path).status == 200)
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


def test_runs_wait_while_the_engine_is_away(client: Client, api_kubeconfig: Path) -> None:
    with Server(api_kubeconfig) as server:
        here = Client(server.url, client.token, client.organisation)
        project = make_project(here)
        path = f"/projects/{project['id']}/runs"
        for method, asked in (("GET", "/runs"), ("GET", path), ("GET", f"{path}/{new_id()}")):
            answer = here(method, asked)
            assert (answer.status, answer.json["code"]) == (503, "unavailable")
            assert answer.headers["Retry-After"] == "2"
        assert here("GET", f"/projects/{new_id()}/runs").status == 404


def test_direct_runs_are_listed_with_any_store_of_traces_and_at_every_replica(
    deployed: Deployed, api_kubeconfig: Path, kubectl: Kubectl, org: Organisation, tmp_path: Path
) -> None:
    queued = new_id()
    deployed.report(record(queued, kind="webhook", task="orders"))
    failed = RunError(type="ValueError", message="ValueError: no")
    times = {"queued_at": NOW, "started_at": NOW, "ended_at": NOW + 1, "input": b"not kept"}
    run = record(
        "", "failed", 1, kind="webhook", task="orders", user="unknown", error=failed, trace_id=f"{1:032x}", **times
    )  # fmt: skip
    claimed = record(queued, "failed", 1, kind="webhook", task="orders", **times)
    for _ in range(2):
        assert deployed.did(kubectl, org, run, claimed, record(kind="event", status="dead")).status == 204
    deployed.until_there(run.id, queued)
    found = {one["id"]: one for one in deployed.client.ok("GET", deployed.path)["items"]}
    assert found.keys() == {run.id, queued}
    assert found[queued]["status"] == "queued"
    assert found[run.id] == {
        "id": run.id,
        "kind": "webhook",
        "task": "orders",
        "status": "failed",
        "environmentId": deployed.environment,
        "user": {"externalId": "unknown"},
        "attempt": 1,
        "attempts": 1,
        "queuedAt": "2025-11-24T16:00:00.000000Z",
        "startedAt": "2025-11-24T16:00:00.000000Z",
        "endedAt": "2025-11-24T16:00:01.000000Z",
        "error": {"type": "ValueError", "message": "ValueError: no"},
        "traceId": f"{1:032x}",
        "issueId": issue_of(deployed.environment, run),
        "tags": [],
    }
    assert deployed.ids("search=valueerror") == [run.id]
    assert deployed.ids(f"trace_id={1:032x}") == [run.id]
    assert deployed.ids(f"trace_id={1:032x}&key=ann") == []
    elsewhere: dict[str, Any] = {
        "traces_store": "tempo",
        "traces_otlp_url": "http://127.0.0.1:1",
        "traces_query_url": "http://127.0.0.1:1",
    }
    with Server(api_kubeconfig, **of_engine(deployed.engine, tmp_path), **elsewhere) as replica:
        other = Client(replica.url, deployed.client.token, deployed.client.organisation)
        same = deployed.client.ok("GET", deployed.path)
        eventually("the runs at the other replica", lambda: other.ok("GET", deployed.path) == same)
        shown = other.ok("GET", f"{deployed.path}/{run.id}")
        assert [one["status"] for one in shown["attemptHistory"]] == ["failed"]
        assert (shown["canReplay"], "inputBase64" in shown or "input" in shown) == (False, False)
    refused = deployed.client("POST", f"{deployed.path}/{run.id}/replay")
    assert (refused.status, "not kept" in refused.json["message"]) == (409, True)
    assert deployed.client("POST", f"{deployed.path}/{run.id}/cancel").status == 409
    counted = deployed.client.ok(
        "POST", f"{deployed.path}/replay", {"status": "failed", "dryRun": True}, status=202
    )
    assert counted == {"count": 0, "skipped": 0, "more": False}


def test_a_pod_reports_runs_of_its_own_environment_and_no_others(
    deployed: Deployed, neighbour: Client, kubectl: Kubectl, org: Organisation
) -> None:
    run = record("", "succeeded", 1, kind="schedule", task="nightly")
    hostile = record("", "succeeded", 1, kind="call", task="forged")
    assert deployed.did(kubectl, org, hostile).status == 400
    assert deployed.did(kubectl, org, run).status == 204
    deployed.until_there(run.id)
    assert deployed.ids() == [run.id]
    assert neighbour.ok("GET", "/runs")["items"] == []
    path = "/internal/v1/runs"
    assert deployed.client.at(path, method="POST", raw=b"[]", Content_Type="application/json").status == 401
    pod = Client(deployed.client.url, account_token(kubectl, org, deployed.project), org.id)
    for raw, status in ((b"[", 400), (b"x" * (4 * 1024 * 1024 + 1), 413)):
        assert pod.at(path, method="POST", raw=raw, Content_Type="application/json").status == status


def test_kept_inputs_of_direct_runs_are_shown_and_run_again(
    deployed: Deployed, kubectl: Kubectl, org: Organisation
) -> None:
    project = f"/projects/{deployed.project['id']}"
    deployed.client.ok("PUT", project, {"settings": {"keepInputs": True}})
    request = WebhookRequest(method="PUT", path="/orders?a=1", headers=[("X-Shop", "berlin")])
    run = record("", "failed", 1, kind="webhook", task="orders", input=b'{"id": 1}', request=request)

    def kept() -> bool:
        assert deployed.did(kubectl, org, run).status == 204
        return "input" in deployed.run(run.id)

    eventually("the setting, and the input", kept)
    assert deployed.run(run.id)["canReplay"] is True
    new = deployed.client.ok("POST", f"{deployed.path}/{run.id}/replay", status=202)
    assert (new["kind"], new["replayOf"]) == ("webhook", run.id)
    again = deployed.client.ok("POST", f"{deployed.path}/replay", {"status": "failed"}, status=202)
    assert again == {"count": 0, "skipped": 1, "more": False}
