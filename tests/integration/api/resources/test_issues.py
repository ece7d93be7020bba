"""Issues by REST: listed, decided about, replayed, and nobody else's."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from tests.harness.processes.nats_server import NatsServer
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Client
from tests.integration.api.resources.deployed_runs import Deployed, bury, deploy
from tests.unit.api.runs.run_records import record
from tieline_core.identity.ids import new_id
from tieline_protocol.run_records import RunError, RunRecord, UpstreamAnswer

pytestmark = pytest.mark.cluster


def dead(**fields: Any) -> RunRecord:
    upstream = UpstreamAnswer(status=503, body="closed", system="Shop of the EU")
    error = RunError(type="UpstreamError", message="shop answered 503", upstream=upstream)
    now = time.time()
    return replace(
        record(status="dead", attempt=3, error=error, queued_at=now - 5, user="ann", version="v1"),
        at=now,
        ended_at=now,
        **fields,
    )


def path(deployed: Deployed, *parts: str) -> str:
    return "/".join((f"/projects/{deployed.project['id']}/issues", *parts))


def only(deployed: Deployed, query: str = "") -> dict[str, Any]:
    (found,) = deployed.client.ok("GET", f"{path(deployed)}?{query}")["items"]
    return dict(found)


def test_failures_of_one_system_are_one_issue_that_is_found_and_decided_about(deployed: Deployed) -> None:
    client, task = deployed.client, f"sync.{new_id()}"
    runs = [dead(task=task, key=f"N-{number}") for number in range(3)]
    deployed.report(*runs, dead(task=f"{task}.other"), replace(runs[0], id=new_id(), status="succeeded"))
    found = only(deployed, f"task={task}")
    assert (found["count"], found["users"], found["keys"], found["state"]) == (3, 1, 3, "open")
    assert (found["system"], found["upstreamStatus"], found["environmentId"]) == (
        "Shop of the EU", 503, deployed.environment,
    )  # fmt: skip
    assert found["projectId"] == deployed.project["id"]
    assert sum(found["hours"]) == 3
    issue = found["id"]
    everywhere = client.ok(
        "GET",
        f"/issues?task={task}&system=Shop+of+the+EU&since=2026-01-01T00:00:00Z&until=2100-01-01T00:00:00Z",
    )
    assert (everywhere["totalCount"], everywhere["items"][0]["id"]) == (1, issue)
    assert client.ok("GET", f"/issues?task={task}&project_env=nowhere")["items"] == []
    shown = client.ok("GET", path(deployed, issue.upper()))
    assert {run["id"] for run in shown["latestRuns"]} == {run.id for run in runs}
    assert {run["issueId"] for run in shown["latestRuns"]} == {issue}
    assert [one["count"] for one in shown["mostAffectedUsers"]] == [3]
    assert set(deployed.ids(f"issue={issue}")) == {run.id for run in runs}

    changed = client.ok("PATCH", path(deployed, issue), {"state": "resolved", "assignee": "ann"})
    assert (changed["state"], changed["assignee"]) == ("resolved", "ann")
    assert changed["changedBy"]
    assert client.ok("GET", f"{path(deployed)}?task={task}&state=open&state=regressed")["items"] == []
    assert only(deployed, f"task={task}&assignee=ann")["changedAt"] == changed["changedAt"]
    deployed.report(dead(task=task))
    assert only(deployed, f"task={task}")["state"] == "regressed"
    muted = client.ok("PATCH", path(deployed, issue), {"state": "muted", "reason": "known"})
    assert (muted["state"], muted["reason"], muted["assignee"]) == ("muted", "known", "ann")
    assert client.ok("PATCH", path(deployed, issue), {"state": "open"})["state"] == "open"


def test_what_the_next_version_resolves_comes_back_with_a_newer_one_alone(deployed: Deployed) -> None:
    client, task, project = deployed.client, f"next.{new_id()}", deployed.project["id"]

    def newest() -> dict[str, Any]:
        found: dict[str, Any] = client.ok("GET", f"/projects/{project}/versions")["items"][0]
        return found

    before = newest()
    deployed.report(dead(task=task, version=before["id"].lower()))
    issue = only(deployed, f"task={task}")["id"]
    changed = client.ok("PATCH", path(deployed, issue), {"state": "resolved", "nextVersion": True})
    assert (changed["nextVersion"], changed["resolvedAfter"]["id"]) == (True, before["id"])
    deployed.report(dead(task=task, version=before["id"].lower()))
    assert only(deployed, f"task={task}")["state"] == "resolved"
    # Versions have the seconds in which they were created.
    time.sleep(max(0.0, 1.1 - (time.time() % 1)))
    files = [{"filename": "main.py", "content": "print('mended')\n"}]
    client.ok("PUT", f"/projects/{project}/deploy", {"files": files, "versionName": "mended"})
    eventually("the version", lambda: newest()["id"] != before["id"])
    deployed.report(dead(task=task, version=newest()["id"].lower()))
    found = only(deployed, f"task={task}&state=regressed")
    assert found["regressedIn"]["id"] == newest()["id"]
    assert found["count"] == 3


def test_the_runs_of_an_issue_are_replayed_once(deployed: Deployed) -> None:
    runs = [dead(task="order.created") for _ in range(2)]
    bury(deployed, *runs)
    issue = only(deployed, "task=order.created")["id"]
    replay = path(deployed, issue, "replay")
    counted = deployed.client.ok("POST", replay, {"dryRun": True}, status=202)
    assert counted["count"] >= 2
    for start, count in (("2024-01-01T00:00:00Z", counted["count"]), ("2124-01-01T00:00:00Z", 0)):
        body = {"start": start, "dryRun": True}
        assert deployed.client.ok("POST", replay, body, status=202)["count"] == count
    assert deployed.client.ok("POST", replay, status=202)["count"] == counted["count"]
    assert deployed.client.ok("POST", replay, status=202)["count"] == 0
    assert all(deployed.run(run.id)["replayedBy"] for run in runs)
    selected = deployed.client.ok(
        "POST", f"{deployed.path}/replay", {"issue": issue, "dryRun": True}, status=202
    )
    assert selected["count"] == 0


def test_pages_hold_each_issue_once(deployed: Deployed) -> None:
    tasks = [f"page{number}" for number in range(5)]
    deployed.report(*(dead(task=task, kind="schedule") for task in tasks))
    seen, after = [], ""
    while True:
        page = deployed.client.ok("GET", f"{path(deployed)}?kind=schedule&first=2{after}")
        seen += [one["task"] for one in page["items"]]
        if "next" not in page:
            break
        after = f"&after={page['next']}"
    assert sorted(seen) == tasks
    assert page["totalCount"] == 5
    back = deployed.client.ok("GET", f"{path(deployed)}?kind=schedule&first=2&before={page['prev']}")
    assert [one["task"] for one in back["items"]] == seen[2:4]
    refused = deployed.client("GET", f"/issues?after={page['prev']}")
    assert (refused.status, refused.json["code"]) == (400, "malformed")


@pytest.mark.parametrize("issue", ["0" * 20, "no-issue", new_id(), "%2e%2e"])
def test_what_is_no_issue_is_not_found(deployed: Deployed, issue: str) -> None:
    for method, body in (("GET", None), ("PATCH", {"state": "open"})):
        assert deployed.client(method, path(deployed, issue), body).status == 404


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"state": "regressed"},
        {"state": "muted"},
        {"nextVersion": True},
        {"assignee": "x" * 300},
        {"state": 7},
    ],
)
def test_a_change_that_makes_no_sense_is_refused(deployed: Deployed, body: dict[str, Any]) -> None:
    deployed.report(dead(task="refused"))
    issue = only(deployed, "task=refused")["id"]
    answer = deployed.client("PATCH", path(deployed, issue), body)
    assert answer.status == 422
    assert only(deployed, "task=refused")["state"] == "open"


def test_another_organisation_sees_and_changes_nothing_of_it(
    deployed: Deployed, neighbour: Client, engine: NatsServer
) -> None:
    deployed.report(dead(task="private"))
    issue = only(deployed, "task=private")["id"]
    theirs = deploy(neighbour, engine)
    assert "private" not in {one["task"] for one in neighbour.ok("GET", "/issues?first=200")["items"]}
    for place in (path(deployed, issue), path(theirs, issue)):
        for method, body in (("GET", None), ("PATCH", {"state": "resolved"}), ("POST", None)):
            where = f"{place}/replay" if method == "POST" else place
            assert neighbour(method, where, body).status == 404
    assert neighbour.ok("GET", f"/runs?issue={issue}")["items"] == []
    assert only(deployed, "task=private")["state"] == "open"
