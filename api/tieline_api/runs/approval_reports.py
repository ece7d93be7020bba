"""Which approvals of an environment are to be reported now: each once, while it is open. Pure.

What was reported is in a ledger, so any replica can go on with it. An approval that is closed is taken out of the
reports, so that a message about it that was not sent yet is not sent. Approvals that are
older than the notification are not reported: their ids begin with the time.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from tieline_core.engine.approval_reports import (
    MAX_APPROVERS,
    MAX_ASKED,
    MAX_NAMED,
    MAX_REPORTS,
    MAX_TEXT,
    ApprovalLedger,
    ApprovalReport,
    Asked,
    ReportedApproval,
)
from tieline_core.identity.ids import derived_id, time_of
from tieline_protocol.approvals import Approval

SETTLE_SECONDS = 15
"""How old the oldest new approval must be: those that are asked together are one report."""
INTERVAL_SECONDS = 120
"""Between two reports of an environment: what is asked meanwhile is in the next one."""
LOST_SECONDS = 120
"""Where nothing says what was reported, approvals that were asked so long before are old. One that cannot be read for
so long is left alone."""
REPORTED_SECONDS = 86_400
"""How long a report is kept at most."""
_FORGET_SECONDS = 3600
"""How long after its end an approval is remembered: the clocks of replicas differ."""


@dataclass(frozen=True, kw_only=True)
class Watch:
    """An environment with a notification about approvals. Times are seconds since 1970."""

    since: float
    now: float
    console: str
    """The console's URL; empty where none is configured."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """What there is in an environment."""

    unanswered: Collection[str]
    """The ids of approvals without an outcome."""
    known_from: str = ""
    """There may be others with ids below this one."""
    fresh: Sequence[Approval] = ()
    """Open ones that are new."""
    closed: Mapping[str, float] = field(default_factory=dict)
    """New ones that nobody can answer any more, with their ends."""
    withdrawn: Collection[str] = ()
    """Reported ones whose runs have ended."""

    def is_answered(self, identifier: str) -> bool:
        """Whether an approval has an outcome, or is gone."""
        return identifier not in self.unanswered and identifier >= self.known_from


def new_ids(ledger: ApprovalLedger, unanswered: Collection[str], watch: Watch) -> list[str]:
    """Those of which the ledger knows nothing."""
    before = max(ledger.before, _id_at(watch.since))
    return sorted(one for one in unanswered if one > before and one not in ledger.asked)


def is_unreadable(identifier: str, now: float) -> bool:
    """Whether an approval that cannot be read is left alone, rather than looked at again."""
    return now - time_of(identifier).timestamp() > LOST_SECONDS


def first_ledger(watch: Watch) -> ApprovalLedger:
    """A ledger for which all that was asked before counts as reported."""
    return ApprovalLedger(before=_id_at(max(watch.since, watch.now - LOST_SECONDS)))


def next_ledger(ledger: ApprovalLedger, look: Look, watch: Watch) -> ApprovalLedger | None:
    """The ledger after a look; None where nothing is to be written."""
    after = _without_closed(ledger, look, watch)
    if look.closed:
        known = {one: Asked(_seconds(until), 0) for one, until in look.closed.items()}
        after = after.model_copy(update={"asked": {**after.asked, **known}})
    after = _with_fresh(after, look.fresh, watch)
    return None if after == ledger else _bounded(after, look, watch)


def _without_closed(ledger: ApprovalLedger, look: Look, watch: Watch) -> ApprovalLedger:
    def is_open(identifier: str, until: float) -> bool:
        withdrawn = identifier in look.withdrawn
        return watch.now < until and not withdrawn and not look.is_answered(identifier)

    asked, reports = dict(ledger.asked), []
    for report in ledger.reports:
        named = tuple(one for one in report.approvals if is_open(one.id, one.until))
        for one in report.approvals:
            if one not in named and one.id in asked:
                asked[one.id] = asked[one.id]._replace(report=0)
        total = sum(one.report == report.at and is_open(name, one.until) for name, one in asked.items())
        if total >= max(len(named), 1) and watch.now - report.at < REPORTED_SECONDS:
            reports.append(report.model_copy(update={"approvals": named, "total": total}))
    return ledger.model_copy(update={"reports": tuple(reports), "asked": asked})


def _with_fresh(ledger: ApprovalLedger, fresh: Sequence[Approval], watch: Watch) -> ApprovalLedger:
    if not fresh or not _is_settled(fresh, watch.now) or 0 <= watch.now - ledger.last < INTERVAL_SECONDS:
        return ledger
    at = max(int(watch.now), ledger.last + 1)
    named = sorted(fresh, key=lambda one: (one.asked_at, one.id))[:MAX_NAMED]
    report = ApprovalReport(
        at=at, total=len(fresh), approvals=tuple(_named(one) for one in named), console=watch.console
    )
    reported = {one.id: Asked(_seconds(one.until), at) for one in fresh}
    return ledger.model_copy(
        update={
            "reports": (*ledger.reports, report)[-MAX_REPORTS:],
            "last": at,
            "asked": {**ledger.asked, **reported},
        }
    )


def _is_settled(fresh: Sequence[Approval], now: float) -> bool:
    """Pods write the times of approvals, so one in the future waits for nothing."""
    ages = [now - one.asked_at for one in fresh]
    return max(ages) >= SETTLE_SECONDS or min(ages) < 0


def _named(approval: Approval) -> ReportedApproval:
    return ReportedApproval(
        id=approval.id,
        run=approval.run,
        title=approval.title,
        until=_seconds(approval.until),
        by=tuple(_short(one) for one in approval.by[:MAX_APPROVERS]),
        more=len(approval.by[MAX_APPROVERS:]),
        other_than=_short(approval.other_than or ""),
    )


def _bounded(ledger: ApprovalLedger, look: Look, watch: Watch) -> ApprovalLedger:
    """What has ended is forgotten once it is gone. Of too many, the oldest count as old by their ids."""
    kept = sorted(
        (name, one)
        for name, one in ledger.asked.items()
        if watch.now < one.until + _FORGET_SECONDS or not look.is_answered(name)
    )
    dropped, kept = kept[:-MAX_ASKED], kept[-MAX_ASKED:]
    before = max([ledger.before, *(name for name, _ in dropped)])
    return ledger.model_copy(update={"asked": dict(kept), "before": before})


def _id_at(seconds: float) -> str:
    return derived_id(created=datetime.fromtimestamp(max(seconds, 0), UTC), seed="")


def _seconds(moment: float) -> int:
    return max(int(moment), 0)


def _short(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"
