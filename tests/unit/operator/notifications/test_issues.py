"""What the API reports about issues is sent once, in order, over restarts and failing channels."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import orjson

from tests.unit.operator import objects as o
from tests.unit.operator.notifications.notified_cluster import NotifiedCluster
from tieline_core.engine.issue_reports import IssueReport, ReportedIssue
from tieline_core.kubernetes import resources as r
from tieline_operator.notifications.errors import DeliveryError
from tieline_operator.notifications.slack import payload as slack_payload
from tieline_operator.reconcilers.notification.incidents import GIVE_UP_SECONDS

ISSUE = "0123456789abcdef0123"


class Reports:
    """What the API has reported; None while nothing is known."""

    def __init__(self) -> None:
        self.found: list[IssueReport] | None = []

    def reports(self, namespace: str, environment_id: str) -> Sequence[IssueReport] | None:
        return self.found

    def add(self, at: datetime, event: Any = "issue_opened", total: int = 1, **fields: Any) -> None:
        named: dict[str, Any] = {
            "id": ISSUE,
            "task": "order.created",
            "type": "UpstreamError",
            "system": "Shop",
            "status": 503,
            "runs": 12,
            "since": int(o.NOW.timestamp()),
        }
        issue = ReportedIssue(**named | fields)
        report = IssueReport(
            event=event,
            at=int(at.timestamp()),
            total=total,
            issues=(issue,) * min(total, 5),
            console="https://api.example/console",
        )
        assert self.found is not None
        self.found.append(report)


async def watching(reports: Reports, *events: str) -> NotifiedCluster:
    there = NotifiedCluster(o.notification(events=list(events)), issues=reports)
    await there.settle()
    await there.settle(2)
    return there


async def test_a_new_issue_is_sent_once_over_restarts() -> None:
    reports = Reports()
    there = await watching(reports)
    assert there.told == []
    reports.add(there.loop.now)
    await there.settle(60)
    assert there.told == ["issue_opened.happened"]
    for _ in range(2):
        there.restart()
        await there.settle(60)
    assert there.told == ["issue_opened.happened"]
    assert there.incidents() == []


async def test_people_learn_what_fails_where_and_since_when() -> None:
    reports = Reports()
    there = await watching(reports)
    reports.add(there.loop.now)
    reports.add(there.loop.now + timedelta(seconds=1), "issue_regressed", version="1.4.0")
    await there.settle(60)
    opened, back = there.sent
    assert opened.title == "New issue: Order sync / production"
    assert "UpstreamError in order.created, Shop answered with 503: 12 runs since 2026-11-2" in opened.text
    project = opened.place.project_id
    url = f"https://api.example/console/{o.ORGANISATION}/projects/{project}/issues/{ISSUE}"
    assert url in opened.text
    assert url in str(slack_payload(opened)["text"])
    assert opened.path == f"/api/v2/o/{o.ORGANISATION}/projects/{project}/issues/{ISSUE}"
    body = opened.payload()
    assert (body["type"], body["data"]["count"]) == ("issue_opened", 1)
    assert body["data"]["issues"][0] == {
        "id": ISSUE,
        "task": "order.created",
        "errorType": "UpstreamError",
        "system": "Shop",
        "url": url,
        "upstreamStatus": 503,
        "runs": 12,
        "since": body["data"]["issues"][0]["since"],
        "path": opened.path,
    }
    assert orjson.dumps(body)
    assert back.title == "Issue is back: Order sync / production"
    assert "back in version 1.4.0" in back.text
    reasons = {one["reason"] for one in there.cluster.posted}
    assert {"IssueOpened", "IssueRegressed"} <= reasons


async def test_a_burst_is_one_message_that_says_how_many() -> None:
    reports = Reports()
    there = await watching(reports)
    reports.add(there.loop.now, total=40)
    await there.settle(60)
    (message,) = there.sent
    assert message.title == "40 new issues: Order sync / production"
    assert "And 35 more" in message.text
    assert "state=open" in message.path
    assert message.payload()["data"]["count"] == 40


async def test_only_events_that_are_named_are_sent() -> None:
    reports = Reports()
    there = await watching(reports, "issue_regressed")
    reports.add(there.loop.now)
    reports.add(there.loop.now + timedelta(seconds=1), "issue_regressed")
    await there.settle(60)
    assert there.told == ["issue_regressed.happened"]
    other = await watching(reports, "deploy_failed")
    await other.settle(60)
    assert other.told == []
    assert "issuesUntil" not in other.notification()["status"]


async def test_what_was_reported_before_the_notification_is_not_sent() -> None:
    reports = Reports()
    reports.add(o.NOW - timedelta(days=1))
    there = await watching(reports)
    await there.settle(60)
    assert there.told == []
    # Another one that is changed later wants nothing of before that.
    there.edit(r.NOTIFICATIONS, "tell-ops", events=["deploy_failed"])
    await there.settle(60)
    reports.add(there.loop.now)
    await there.settle(60)
    there.edit(r.NOTIFICATIONS, "tell-ops", events=["issue_opened"])
    await there.settle(60)
    await there.settle(60)
    assert there.told == []


async def test_a_failing_channel_gets_them_in_order_when_it_works_again() -> None:
    reports = Reports()
    there = await watching(reports)
    there.failing = DeliveryError("Refused", "no")
    reports.add(there.loop.now)
    await there.settle(60)
    there.restart()
    reports.add(there.loop.now, "issue_regressed")
    await there.settle(60)
    assert there.told == []
    there.failing = None
    await there.settle(700)
    assert sorted(there.told) == ["issue_opened.happened", "issue_regressed.happened"]
    await there.settle(60)
    there.restart()
    await there.settle(60)
    assert len(there.told) == 2


async def test_what_nobody_took_for_a_day_is_given_up() -> None:
    reports = Reports()
    there = await watching(reports)
    there.failing = DeliveryError("Refused", "no")
    reports.add(there.loop.now)
    await there.settle(60)
    await there.settle(GIVE_UP_SECONDS)
    there.failing = None
    there.restart()
    await there.settle(700)
    assert there.told == []


async def test_while_nothing_is_known_nothing_changes() -> None:
    reports = Reports()
    there = await watching(reports)
    reports.add(there.loop.now)
    await there.settle(60)
    stored = there.notification()["status"]["issuesUntil"]
    found, reports.found = reports.found, None
    await there.settle(600)
    assert there.notification()["status"]["issuesUntil"] == stored
    reports.found = found
    await there.settle(60)
    assert there.told == ["issue_opened.happened"]
