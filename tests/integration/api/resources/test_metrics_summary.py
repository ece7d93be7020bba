"""The summary of runs in a window of time."""

from __future__ import annotations

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.integration.api.conftest import Client
from tests.integration.api.resources.deployed_runs import Deployed
from tests.unit.api.runs.run_records import record
from tieline_core.identity.ids import new_id

pytestmark = pytest.mark.cluster


def test_the_summary_has_each_run_once_and_both_paths_and_the_list_agree(
    deployed: Deployed, kubectl: Kubectl, org: Organisation
) -> None:
    """In a time when no other test here has runs."""
    at = 1_740_830_400.0  # 2025-03-01T12:00:00Z
    run, known = new_id(), new_id()
    deployed.report(
        *(record(queued_at=at + hour * 3600) for hour in range(3)),
        record(status="dead", attempt=3, queued_at=at + 60),
        record(known, "failed", attempt=1, kind="webhook", task="orders", queued_at=at + 90),
        record(status="dead", attempt=3, queued_at=at - 12 * 3600 - 1),
    )
    times = {"queued_at": at + 120, "started_at": at + 120, "ended_at": at + 121}
    direct = [record(one, "failed", 1, kind="webhook", task="orders", **times) for one in (run, known)]
    assert deployed.did(kubectl, org, *direct).status == 204
    deployed.until_there(run)
    window = "start=2025-03-01T00:00:00Z&end=2025-03-02T00:00:00Z"
    summary = deployed.client.ok("GET", f"/metricssummary?{window}&buckets=24")
    series = {one["start"][11:13]: (one["executions"], one["errors"]) for one in summary.pop("series")}
    assert summary.pop("deployedProjects").keys() == {"current", "past"}
    assert summary == {"totalExecutions": {"current": 6, "past": 1}, "totalErrors": {"current": 3, "past": 1}}
    assert len(series) == 24
    assert {hour: found for hour, found in series.items() if any(found)} == {
        "12": (4, 3), "13": (1, 0), "14": (1, 0),
    }  # fmt: skip
    assert deployed.client.ok("GET", f"/runs?{window}")["totalCount"] == 6
    same = deployed.client.ok("GET", f"/projects/metricssummary?{window}")
    assert {name: same[name] for name in summary} == summary
    own = same["items"].pop(deployed.project["id"])
    latency = own.pop("averageLatency")
    assert own == summary
    assert latency["current"] > 0
    assert all(one["totalExecutions"] == {"current": 0, "past": 0} for one in same["items"].values())
    assert "series" not in same


def test_a_summary_of_an_impossible_window_says_what_is_wrong(client: Client) -> None:
    for query, field in (
        ("start=2025-03-02T00:00:00Z&end=2025-03-01T00:00:00Z", "start"),
        ("start=2025-03-01T00:00:00Z&end=2025-03-01T00:00:00Z", "start"),
        ("start=yesterday", "start"),
        ("buckets=0", "buckets"),
        ("buckets=501", "buckets"),
    ):
        answer = client("GET", f"/metricssummary?{query}")
        assert (answer.status, answer.fields) == (422, [field]), query
    for query in (
        "start=0001-01-01T00:00:00Z&end=9999-12-31T23:59:59Z&buckets=500",
        "end=0001-01-01T00:00:00Z",
    ):
        assert client("GET", f"/metricssummary?{query}").status in (200, 422)
