"""Each issue is reported once when it opens and once when it regresses, whoever asks again, and old ones never."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tieline_api.runs.issue_reports import (
    FRESH_SECONDS,
    INTERVAL_SECONDS,
    SETTLE_SECONDS,
    Watch,
    next_ledger,
)
from tieline_api.runs.issues import Decision, Issue
from tieline_core.engine.issue_reports import MAX_NAMED, MAX_REPORTED, MAX_REPORTS, IssueLedger

NS = 10**9
NOW = 1_800_000_000


def issue(number: int = 1, *, first: float = NOW - SETTLE_SECONDS, **fields: Any) -> Issue:
    values: dict[str, Any] = {
        "id": f"{number:020x}",
        "environment": "e",
        "kind": "event",
        "task": "order.created",
        "type": "UpstreamError",
        "system": "Shop",
        "status": 503,
        "message": "a secret that an event held",
        "runs": 10_000,
        "first": round(first * NS),
        "last": round(first * NS),
        "first_version": "v1",
        "last_version": "v2",
        "users": 1,
        "keys": 1,
        "versions": ("v1", "v2"),
    }
    return Issue(**values | fields)


def regressed(number: int = 1, *, at: float = NOW - 60, **fields: Any) -> Issue:
    decision = Decision(state="resolved", at=round(at * NS))
    return issue(number, first=NOW - 1e6, last=NOW * NS, decision=decision, state="regressed", **fields)


def step(
    ledger: IssueLedger | None, issues: Sequence[Issue], *, now: float = NOW, since: float = 0
) -> IssueLedger:
    """The ledger after a look at the issues."""
    watch = Watch(
        since=round(since * NS),
        now=round(now * NS),
        console="https://api.example/console",
        version_of=lambda one: one.last_version,
    )
    found = next_ledger(ledger, issues, watch)
    return found or ledger or IssueLedger()


def reported(ledger: IssueLedger) -> list[tuple[str, int]]:
    return [(one.event, one.total) for one in ledger.reports]


def test_ten_thousand_failed_runs_are_one_report_without_the_message() -> None:
    ledger = step(IssueLedger(), [issue()])
    assert reported(ledger) == [("issue_opened", 1)]
    (named,) = ledger.reports[0].issues
    assert (named.task, named.type, named.system, named.status) == (
        "order.created", "UpstreamError", "Shop", 503,
    )  # fmt: skip
    assert (named.runs, named.since) == (10_000, NOW - SETTLE_SECONDS)
    assert ledger.reports[0].console == "https://api.example/console"
    assert b"secret" not in ledger.model_dump_json().encode()
    assert step(ledger, [issue(runs=20_000)], now=NOW + 1e5) == ledger
    assert IssueLedger.parse(ledger.model_dump_json(exclude_defaults=True).encode()) == ledger


def test_a_burst_is_one_report_and_what_comes_meanwhile_the_next() -> None:
    burst = [issue(number, first=NOW - SETTLE_SECONDS + number / 2) for number in range(20)]
    assert reported(step(IssueLedger(), burst[1:])) == [], "they are still opening"
    ledger = step(IssueLedger(), burst)
    assert reported(ledger) == [("issue_opened", 20)]
    assert len(ledger.reports[0].issues) == MAX_NAMED
    late = [*burst, issue(21, first=NOW + 1), issue(22, first=NOW + 2)]
    assert step(ledger, late, now=NOW + INTERVAL_SECONDS - 1) == ledger
    ledger = step(ledger, late, now=NOW + INTERVAL_SECONDS)
    assert reported(ledger) == [("issue_opened", 20), ("issue_opened", 2)]


def test_what_was_there_before_anybody_wanted_to_know_is_never_reported() -> None:
    old, back = issue(1, first=NOW - 1e6), regressed(2, at=NOW - 1e5)
    there = step(None, [old, replace_last(back, NOW - 5000)])
    assert reported(there) == []
    # Its oldest runs are gone from the history.
    assert reported(step(there, [issue(1), replace_last(back, NOW)], now=NOW + 1e4)) == []
    # A ledger of earlier notifications: the new one wants nothing of before.
    assert reported(step(IssueLedger(), [issue(3)], since=NOW)) == []
    assert reported(step(IssueLedger(), [issue(3, first=NOW - FRESH_SECONDS - 1)])) == []


def replace_last(one: Issue, last: float) -> Issue:
    return Issue(**{**vars(one), "last": round(last * NS)})


def test_the_first_issue_of_a_new_notification_is_reported() -> None:
    ledger = step(None, [issue(first=NOW - 30)], since=NOW - 60)
    assert reported(step(ledger, [issue(first=NOW - 30)], since=NOW - 60)) == [("issue_opened", 1)]


@pytest.mark.parametrize(
    ("state", "decision"),
    [
        ("muted", Decision(state="muted", at=1)),
        ("resolved", Decision(state="resolved", at=1)),
        ("open", Decision(state="open", at=1)),
    ],
)
def test_what_somebody_has_decided_about_is_not_reported_later_either(state: Any, decision: Decision) -> None:
    ledger = step(IssueLedger(), [issue(state=state, decision=decision)])
    assert reported(ledger) == []
    assert reported(step(ledger, [issue()])) == []


def test_an_issue_that_is_only_assigned_is_reported() -> None:
    assert reported(step(IssueLedger(), [issue(decision=Decision(assignee="ann"))])) == [("issue_opened", 1)]


def test_a_regression_is_reported_once_for_each_decision_with_the_version() -> None:
    ledger = step(IssueLedger(), [regressed()])
    assert reported(ledger) == [("issue_regressed", 1)]
    assert ledger.reports[0].issues[0].version == "v2"
    assert step(ledger, [regressed()], now=NOW + 1e5) == ledger
    again = regressed(at=NOW + 100)
    assert reported(step(ledger, [again], now=NOW + 110)) == [("issue_regressed", 1)], "not so soon"
    ledger = step(ledger, [again], now=NOW + INTERVAL_SECONDS)
    assert reported(ledger) == [("issue_regressed", 1)] * 2


def test_reports_of_one_moment_have_times_of_their_own() -> None:
    ledger = step(IssueLedger(), [issue(1), regressed(2)])
    assert [one.event for one in ledger.reports] == ["issue_opened", "issue_regressed"]
    assert ledger.reports[0].at < ledger.reports[1].at


def test_the_ledger_is_bounded_and_what_it_forgets_stays_old() -> None:
    ledger = IssueLedger()
    many = [issue(number, first=NOW - 1000 + number / 1000) for number in range(MAX_REPORTED + 5)]
    ledger = step(ledger, many)
    assert len(ledger.opened) == MAX_REPORTED
    assert step(ledger, many, now=NOW + 1e4) == ledger
    for number in range(MAX_REPORTS + 3):
        now = NOW + (number + 1) * INTERVAL_SECONDS
        ledger = step(ledger, [issue(10**6 + number, first=now - SETTLE_SECONDS)], now=now)
    assert len(ledger.reports) == MAX_REPORTS


def test_times_and_texts_that_pods_make_up_do_no_harm() -> None:
    odd = issue(first=NOW + 1e6, task="t" * 5000, type="x" * 5000, system="s" * 5000)
    ledger = step(IssueLedger(), [odd])
    assert reported(ledger) == [("issue_opened", 1)]
    assert len(ledger.model_dump_json()) < 3000
