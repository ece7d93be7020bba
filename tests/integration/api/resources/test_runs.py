"""Runs by REST: shown, found, filtered and paged."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Client
from tests.integration.api.objects import make_project
from tests.integration.api.resources.deployed_runs import Deployed, deploy
from tests.unit.api.runs.run_records import NOW, life, record
from tieline_core.identity.ids import new_id
from tieline_protocol.run_records import StepRecord

pytestmark = pytest.mark.cluster


def test_a_run_that_a_pod_reports_is_shown_with_its_attempts_and_its_input(deployed: Deployed) -> None:
    run = new_id()
    deployed.report(*life(run))
    shown = deployed.client.ok("GET", f"{deployed.path}/{run.lower()}")
    history, steps, given = (shown.pop(name) for name in ("attemptHistory", "steps", "input"))
    assert shown.pop("canReplay") is True
    # Another test may have made the user, who then has an id as well.
    assert shown["user"]["externalId"] == "ann"
    assert shown == {
        "id": run,
        "kind": "event",
        "task": "order.created",
        "status": "succeeded",
        "environmentId": deployed.environment,
        "user": shown["user"],
        "version": {"name": "v1"},
        "attempt": 2,
        "attempts": 10,
        "queuedAt": "2025-11-24T16:00:00.000000Z",
        "startedAt": "2025-11-24T16:00:09.000000Z",
        "endedAt": "2025-11-24T16:00:10.000000Z",
        "traceId": "b" * 32,
        "tags": [],
    }
    assert given == {"id": 1}
    assert [step["name"] for step in steps] == ["fetch"]
    assert [(one["attempt"], one["status"]) for one in history] == [(1, "failed"), (2, "succeeded")]
    assert history[0]["error"]["upstream"] == {"status": 503, "body": "closed"}
    page = deployed.client.ok("GET", deployed.path)
    assert page == {"totalCount": 1, "items": [shown]}
    everywhere = deployed.client.ok("GET", "/runs?first=200&version=v1&end=2025-11-24T16:00:01Z")["items"]
    assert shown in everywhere


def test_lists_have_filters_and_pages(deployed: Deployed) -> None:
    more: dict[int, dict[str, Any]] = {1: {"key": "ann"}, 2: {"event_id": "order-2"}}
    runs = [record(queued_at=NOW + number, **more.get(number, {})) for number in range(5)]
    dead = record(
        status="dead", attempt=3, kind="webhook", task="orders", user="ben", queued_at=NOW + 9, trace_id="d" * 32,
        tags={"order": "N-1101", "note": "a:b"},
    )  # fmt: skip
    deployed.report(*runs, dead)
    newest_first = [dead.id, *(one.id for one in reversed(runs))]
    assert deployed.ids() == newest_first
    found: list[str] = []
    page = deployed.client.ok("GET", f"{deployed.path}?first=2")
    assert page["totalCount"] == 6
    assert "prev" not in page
    while True:
        found += [run["id"] for run in page["items"]]
        if "next" not in page:
            break
        last, page = page, deployed.client.ok("GET", f"{deployed.path}?first=2&after={page['next']}")
    assert found == newest_first
    back = deployed.client.ok("GET", f"{deployed.path}?first=2&before={page['prev']}")
    assert back["items"] == last["items"]
    assert (deployed.run(runs[1].id)["key"], deployed.run(runs[2].id)["eventId"]) == ("ann", "order-2")
    for query, expected in {
        "status=dead": [dead.id],
        "kind=webhook": [dead.id],
        "task=orders&user=ben": [dead.id],
        "user=nobody": [],
        "end=2025-11-24T16:00:01Z": [runs[0].id],
        "start=2025-11-24T16:00:09Z": [dead.id],
        "project_env=production": newest_first,
        "project_env=other": [],
        "search=nothing": [],
        "key=ann": [runs[1].id],
        "event_id=order-2": [runs[2].id],
        f"trace_id={'D' * 32}": [dead.id],
        f"trace_id={'e' * 32}": [],
        "status=dead&status=failed": [dead.id],
        "tag=order:N-1101": [dead.id],
        "tag=order:N-1101&tag=note:a:b": [dead.id],
        "tag=order:N-1101&tag=note:a": [],
        "find=N-1101": [dead.id],
        "find=order-2": [runs[2].id],
        f"find={dead.id.lower()}&kind=webhook": [dead.id],
    }.items():
        assert deployed.ids(query) == expected, query
    assert deployed.run(dead.id)["tags"] == [
        {"name": "note", "value": "a:b"},
        {"name": "order", "value": "N-1101"},
    ]
    by_organisation = deployed.client.ok("GET", "/runs?tag=order:N-1101&find=ben")
    assert ([run["id"] for run in by_organisation["items"]], by_organisation["totalCount"]) == ([dead.id], 1)
    other = deploy(deployed.client, deployed.engine)
    for path in (
        f"{other.path}?after={last['next']}",
        f"{deployed.path}?after=abc",
        "/runs?status=great",
        "/runs?trace_id=abc",
        "/runs?tag=order",
    ):
        assert deployed.client("GET", path).status in (400, 422), path


def test_runs_of_another_project_or_organisation_are_not_there(deployed: Deployed, neighbour: Client) -> None:
    run = new_id()
    deployed.report(*life(run))
    other = make_project(deployed.client)
    for client, path in (
        (deployed.client, f"/projects/{other['id']}/runs/{run}"),
        (deployed.client, f"{deployed.path}/{new_id()}"),
        (deployed.client, f"{deployed.path}/no-id"),
        (neighbour, f"{deployed.path}/{run}"),
        (neighbour, f"/projects/{make_project(neighbour)['id']}/runs/{run}"),
    ):
        for method, suffix in (("GET", ""), ("POST", "/replay"), ("POST", "/cancel")):
            assert client(method, path + suffix).status == 404
    assert neighbour.ok("GET", "/runs")["items"] == []


def test_a_run_of_many_steps_and_a_large_number_is_shown_in_parts_and_exactly(deployed: Deployed) -> None:
    run, given = new_id(), b'{"id": 123456789012345678901234567890, "amount": 1.10}'
    steps = [StepRecord(name="s", occurrence=n, started_at=NOW, ended_at=NOW) for n in range(500)]
    for first in range(1, 121, 10):
        deployed.report(
            *(record(run, "waiting", attempt, steps=steps) for attempt in range(first, first + 10)),
            record(run, "succeeded", 121, input=given),
        )
    eventually("all attempts", lambda: deployed.run(run).get("attemptsLeftOut") == 21)
    answer = deployed.client("GET", f"{deployed.path}/{run}")
    shown = answer.json
    assert (shown["attemptsLeftOut"], shown["attemptHistory"][0]["attempt"]) == (21, 22)
    assert sum(len(one["steps"]) for one in shown["attemptHistory"]) == 1000
    assert shown["attemptHistory"][0]["stepsLeftOut"] == 500
    assert b'"input":%b' % given in answer.raw


def test_a_large_input_is_shown_in_part(deployed: Deployed) -> None:
    run = record(status="succeeded", attempt=1, input=b"x" * 2_000_000)
    deployed.report(run)
    shown = deployed.client.ok("GET", f"{deployed.path}/{run.id}")
    assert shown["inputTruncated"] is True
    assert base64.b64decode(shown["inputBase64"]) == b"x" * 1024 * 1024
