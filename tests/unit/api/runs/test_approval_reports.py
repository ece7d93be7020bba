"""Each approval is reported once while it is open, whoever asks again, and what is closed is taken back."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Any

import orjson

from tieline_api.runs.approval_reports import (
    INTERVAL_SECONDS,
    LOST_SECONDS,
    REPORTED_SECONDS,
    SETTLE_SECONDS,
    Look,
    Watch,
    first_ledger,
    is_unreadable,
    new_ids,
    next_ledger,
)
from tieline_api.use_cases.report_rounds import LIMITS
from tieline_core.engine.approval_reports import MAX_ASKED, MAX_NAMED, MAX_REPORTS, ApprovalLedger
from tieline_core.identity.ids import derived_id
from tieline_protocol.approvals import MAX_TITLE, Approval

NOW = 1_800_000_000.0


def approval(number: int = 1, *, asked: float = NOW - SETTLE_SECONDS, **fields: Any) -> Approval:
    identifier = derived_id(created=datetime.fromtimestamp(asked, UTC), seed=f"{number}")
    values: dict[str, Any] = {
        "id": identifier,
        "run": identifier,
        "task": "refund.requested",
        "title": f"Refund {number} EUR?",
        "asked_at": asked,
        "until": NOW + 3600,
        "details": {"customer": "what an event held"},
    }
    return Approval(**values | fields)


def watch(now: float = NOW, since: float = 0) -> Watch:
    return Watch(since=since, now=now, console="https://api.example/console")


def step(
    ledger: ApprovalLedger,
    asked: Sequence[Approval],
    *,
    now: float = NOW,
    answered: Collection[Approval] = (),
    **look: Any,
) -> ApprovalLedger:
    """The ledger after a look at all that was asked."""
    unanswered = {one.id for one in asked if one not in answered}
    new = set(new_ids(ledger, unanswered, watch(now)))
    fresh = [one for one in asked if one.id in new and one.id not in look.get("closed", {})]
    found = next_ledger(ledger, Look(**{"unanswered": unanswered, "fresh": fresh} | look), watch(now))
    # What a replica reads is what another one has written.
    return ApprovalLedger.parse(orjson.dumps((found or ledger).content()))


def totals(ledger: ApprovalLedger) -> list[int]:
    return [one.total for one in ledger.reports]


def test_an_approval_is_reported_once_over_restarts() -> None:
    one = approval(by=("role:tieline-admin",), other_than="ann")
    ledger = step(ApprovalLedger(), [one])
    (report,) = ledger.reports
    (named,) = report.approvals
    assert (named.id, named.run, named.title) == (one.id, one.run, "Refund 1 EUR?")
    assert (named.by, named.other_than, named.until) == (("role:tieline-admin",), "ann", NOW + 3600)
    assert b"what an event held" not in orjson.dumps(ledger.content())
    for later in (1, INTERVAL_SECONDS, 2 * INTERVAL_SECONDS):
        unanswered = {one.id}
        assert new_ids(ledger, unanswered, watch(NOW + later)) == []
        assert next_ledger(ledger, Look(unanswered=unanswered), watch(NOW + later)) is None


def test_a_burst_is_one_report_that_names_some() -> None:
    some = [approval(number) for number in range(40)]
    assert step(ApprovalLedger(), [approval(asked=NOW)]).reports == (), "others may come"
    ledger = step(ApprovalLedger(), some)
    (report,) = ledger.reports
    assert (report.total, len(report.approvals)) == (40, MAX_NAMED)
    more = [approval(50, asked=NOW + 1)]
    ledger = step(ledger, some + more, now=NOW + INTERVAL_SECONDS - 1)
    assert totals(ledger) == [40]
    ledger = step(ledger, some + more, now=NOW + INTERVAL_SECONDS)
    assert totals(ledger) == [40, 1]


def test_what_is_closed_before_is_not_reported() -> None:
    withdrawn, answered, open_ = approval(1), approval(2), approval(3)
    asked = [withdrawn, answered, open_]
    ledger = step(ApprovalLedger(), asked, answered=[answered], closed={withdrawn.id: NOW})
    (report,) = ledger.reports
    assert [one.id for one in report.approvals] == [open_.id]
    assert new_ids(ledger, {withdrawn.id}, watch()) == [], "it is not looked at again"


def test_what_is_closed_after_its_report_is_taken_back() -> None:
    some = [approval(number) for number in range(7)]
    ledger = step(ApprovalLedger(), some)
    first = [one.id for one in ledger.reports[0].approvals]
    ledger = step(ledger, some, answered=[one for one in some if one.id == first[0]], withdrawn={first[1]})
    assert [one.id for one in ledger.reports[0].approvals] == first[2:]
    assert totals(ledger) == [5]
    ledger = step(ledger, some, answered=[one for one in some if one.id == first[0]], withdrawn=())
    assert totals(ledger) == [5], "what ended stays so"
    assert totals(step(ledger, some, now=NOW + 3601)) == [], "they have timed out"
    assert totals(step(ledger, some, answered=some)) == []
    assert totals(step(ledger, some, now=NOW + REPORTED_SECONDS)) == []


def test_of_more_than_a_list_has_nothing_is_taken_back() -> None:
    old, new = approval(1, asked=NOW - 60), approval(2)
    ledger = step(ApprovalLedger(), [old, new])
    ledger = step(ledger, [new], known_from=new.id)
    assert totals(ledger) == [2]
    assert totals(step(ledger, [new])) == [1]


def test_what_was_asked_before_the_notification_is_not_reported() -> None:
    before, after = approval(1, asked=NOW - 100), approval(2)
    seen = watch(since=NOW - 50)
    assert new_ids(ApprovalLedger(), {before.id, after.id}, seen) == [after.id]
    ledger = first_ledger(seen)
    assert new_ids(ledger, {before.id, after.id}, seen) == [after.id]


def test_a_lost_memory_reports_only_the_newest_again() -> None:
    old, new = approval(1, asked=NOW - LOST_SECONDS - 1), approval(2, asked=NOW - LOST_SECONDS + 1)
    ledger = first_ledger(watch())
    assert new_ids(ledger, {old.id, new.id}, watch()) == [new.id]


def test_one_that_cannot_be_read_is_tried_again_for_a_while() -> None:
    one = approval(asked=NOW)
    assert not is_unreadable(one.id, NOW + LOST_SECONDS - 1)
    assert is_unreadable(one.id, NOW + LOST_SECONDS + 1)


def test_a_clock_that_is_ahead_hides_nothing() -> None:
    assert totals(step(ApprovalLedger(), [approval(asked=NOW + 200)])) == [1]


def test_the_memory_is_bounded_and_forgets_the_oldest() -> None:
    ledger, asked = ApprovalLedger(), []
    for number in range(MAX_REPORTS + 2):
        now = NOW + number * INTERVAL_SECONDS
        # The longest that hostile code can ask.
        wide = "\N{PILE OF POO}"
        some = [
            approval(
                number * 1000 + index,
                asked=now - SETTLE_SECONDS,
                title=wide * MAX_TITLE,
                by=(f"user:{wide * 200}",) * 20,
                other_than=wide * 256,
                until=253_402_300_799.0,
            )
            for index in range(500)
        ]
        asked = (asked + some)[-1000:]
        ledger = step(ledger, asked, now=now, known_from=min(one.id for one in asked))
    assert len(ledger.reports) <= MAX_REPORTS
    assert len(ledger.asked) == MAX_ASKED
    assert len(orjson.dumps(ledger.content())) < LIMITS.value_bytes
    assert new_ids(ledger, {approval(1).id}, watch()) == []
    later = step(ledger, [], now=253_402_300_799.0 + 4000, closed={})
    assert later.asked == {}, "what has ended long ago and is gone is forgotten"
