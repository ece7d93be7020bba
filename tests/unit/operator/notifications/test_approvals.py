"""What runs ask people is sent once, over restarts and failing channels, and never after it was answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import orjson
import pytest

from tests.unit.operator import objects as o
from tests.unit.operator.notifications.messages_made import PLACE
from tests.unit.operator.notifications.notified_cluster import NotifiedCluster
from tieline_core.engine.approval_reports import ApprovalReport, ReportedApproval
from tieline_core.identity.ids import new_id
from tieline_core.resources.notification_channels import EmailChannel
from tieline_operator.apply.plan import Key
from tieline_operator.notifications.errors import DeliveryError
from tieline_operator.notifications.slack import payload as slack_payload
from tieline_operator.notifications.smtp import email_of
from tieline_operator.reconcilers.notification.approval_messages import (
    ApprovalMessage,
    answerers,
    approval_message,
)
from tieline_operator.reconcilers.notification.reports import ReportDue

CONSOLE = "https://api.example/console"
HOSTILE = (
    "Pay\r\nBcc: all@example.com\r\n\r\n<script>alert(1)</script> <!channel> "
    "<https://evil.example|click> *bold* \u202egnp.exe\u2028end"
)


def approval(title: str = "Refund 480 EUR?", **fields: Any) -> ReportedApproval:
    values: dict[str, Any] = {
        "id": new_id(),
        "run": new_id(),
        "title": title,
        "until": int(o.NOW.timestamp()) + 7200,
    }
    return ReportedApproval(**values | fields)


class Reports:
    """What the API has reported; None while nothing is known."""

    def __init__(self) -> None:
        self.found: list[ApprovalReport] | None = []

    def reports(self, namespace: str, environment_id: str) -> Sequence[ApprovalReport] | None:
        return self.found

    def add(self, at: datetime, *asked: ReportedApproval, total: int = 0) -> ApprovalReport:
        made = report(*(asked or (approval(),)), at=int(at.timestamp()), total=total)
        assert self.found is not None
        self.found.append(made)
        return made


def report(
    *asked: ReportedApproval, at: int = int(o.NOW.timestamp()), total: int = 0, console: str = CONSOLE
) -> ApprovalReport:
    return ApprovalReport(at=at, total=total or len(asked), approvals=asked, console=console)


def message(*asked: ReportedApproval, **fields: Any) -> ApprovalMessage:
    due = ReportDue(id="msg_1", report=report(*asked, **fields))
    return approval_message(
        channel=Key("NotificationChannel", o.NAMESPACE, "ops"), uid="u", due=due, place=PLACE
    )


async def watching(reports: Reports, *events: str) -> NotifiedCluster:
    there = NotifiedCluster(o.notification(events=list(events)), approvals=reports)
    await there.settle()
    await there.settle(2)
    return there


async def test_an_approval_is_sent_once_over_restarts() -> None:
    reports = Reports()
    there = await watching(reports, "approval_requested")
    assert there.told == []
    reports.add(there.loop.now)
    await there.settle(60)
    for _ in range(2):
        there.restart()
        await there.settle(60)
    assert there.told == ["approval_requested.happened"]
    (posted,) = [one for one in there.cluster.posted if one["reason"] == "ApprovalRequested"]
    assert (posted["type"], "480" in str(posted)) == ("Normal", False)


async def test_only_notifications_that_name_it_are_told() -> None:
    reports = Reports()
    there = await watching(reports)
    reports.add(there.loop.now)
    await there.settle(60)
    assert there.told == []
    assert "approvalsUntil" not in there.notification()["status"]


async def test_what_is_answered_before_it_is_sent_is_not_sent() -> None:
    reports = Reports()
    there = await watching(reports, "approval_requested")
    there.failing = DeliveryError("Refused", "no")
    first = reports.add(there.loop.now, approval("answered"), approval("left"))
    reports.add(there.loop.now + timedelta(seconds=1), approval("withdrawn"))
    await there.settle(60)
    reports.found = [first.model_copy(update={"total": 1, "approvals": first.approvals[1:]})]
    await there.settle(60)
    there.failing = None
    await there.settle(700)
    (sent,) = there.sent
    assert sent.title == 'Approval requested "left": Order sync / production'


async def test_what_has_timed_out_is_not_sent() -> None:
    reports = Reports()
    there = await watching(reports, "approval_requested")
    there.failing = DeliveryError("Refused", "no")
    reports.add(there.loop.now)
    await there.settle(60)
    await there.settle(7200)
    there.failing = None
    await there.settle(700)
    assert there.told == []


async def test_an_approval_is_told_beside_issues() -> None:
    reports = Reports()
    there = await watching(reports, "issue_opened", "approval_requested")
    reports.add(there.loop.now)
    await there.settle(60)
    assert there.told == ["approval_requested.happened"]


def test_people_learn_what_is_asked_of_whom_and_where_to_answer() -> None:
    asked = approval(by=("role:tieline-admin", "group:finance", "user:ann@example.com"), other_than="bob")
    made = message(asked)
    who = "administrators or group finance or user ann@example.com, but not user bob"
    assert f'"Refund 480 EUR?", for {who}, until 2026-11-2' in made.text
    assert f"Project: {PLACE.project_title}" in made.text
    url = f"{CONSOLE}/{PLACE.organisation_id}/approvals/{PLACE.environment_id}/{asked.id}"
    assert f"  {url}\n" in made.text
    assert url in str(slack_payload(made)["text"])
    body = made.payload()
    assert orjson.loads(orjson.dumps(body)) == body
    assert (body["type"], body["data"]["count"]) == ("approval_requested", 1)
    path = f"/api/v2/o/{PLACE.organisation_id}/environments/{PLACE.environment_id}/approvals/{asked.id}"
    assert body["data"]["approvals"] == [
        {
            "id": asked.id,
            "runId": asked.run,
            "title": "Refund 480 EUR?",
            "by": list(asked.by),
            "otherThan": "bob",
            "until": body["data"]["approvals"][0]["until"],
            "url": url,
            "path": path,
        }
    ]
    assert body["data"]["path"] == path


def test_without_a_console_a_command_shows_it() -> None:
    asked = approval()
    made = message(asked, console="")
    assert f"  tieline approvals show {asked.id}\n" in made.text
    assert made.command == f"tieline approvals show {asked.id}"
    assert "url" not in made.payload()["data"]["approvals"][0]


def test_a_burst_names_five_and_says_how_many() -> None:
    made = message(*(approval(f"Refund {number}?") for number in range(5)), total=40)
    assert made.title == "40 approvals requested: Order sync / production"
    assert "Refund 4?" in made.text
    assert f"And 35 more:\n  {CONSOLE}/{PLACE.organisation_id}/approvals\n" in made.text
    assert made.command == f"tieline approvals list --project {PLACE.project_id} --environment production"
    assert message(total=3).title == "3 approvals requested: Order sync / production", (
        "those named are closed"
    )


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "editors"),
        ({"by": ("role:tieline-viewer",), "more": 2}, "viewers or 2 more"),
        ({"by": ("whoever",)}, "nobody"),
    ],
)
def test_who_may_answer_is_said_in_words(fields: dict[str, Any], words: str) -> None:
    assert answerers(approval(**fields)) == words


def test_a_hostile_title_is_only_text() -> None:
    asked = approval(HOSTILE, by=("user:x\nNext: pay",), other_than="<!here>\u202e")
    made = replace(message(asked), place=replace(PLACE, project_title="P\r\nBcc: x@y.z"))
    channel = EmailChannel(host="mail.example", **{"from": "a@example.com"}, to=["b@example.com"])
    email = email_of(channel, made)
    assert email["Bcc"] is None
    assert "\n" not in str(email["Subject"])
    for text in (made.title, made.text, made.sentence, email.get_content()):
        assert not set("\r\u2028\u202e") & set(text)
    (shown,) = [line for line in made.text.split("\n") if line.startswith('"Pay')]
    assert "Bcc: all@example.com" in shown, "one line"
    assert "for nobody, but not user <!here>" in shown
    slack = slack_payload(made)
    assert "<" not in str(slack["text"])
    assert slack["mrkdwn"] is False


async def test_a_notification_that_is_changed_later_gets_nothing_of_before() -> None:
    reports = Reports()
    reports.add(o.NOW - timedelta(days=1))
    there = await watching(reports, "approval_requested")
    await there.settle(60)
    assert there.told == []
