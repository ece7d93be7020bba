"""Which issues of an environment are to be reported now: each once when it opens, and once when it regresses. Pure.

What was reported is in a ledger, so any replica can go on with it. What was there before somebody wanted to know is not
reported.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tieline_api.runs.issues import Issue
from tieline_core.engine.issue_reports import (
    MAX_NAMED,
    MAX_REPORTED,
    MAX_REPORTS,
    MAX_TEXT,
    IssueLedger,
    IssueReport,
    ReportedIssue,
    ReportEvent,
)

_SECOND = 1_000_000_000
SETTLE_SECONDS = 15
"""How old the oldest new issue must be: issues that open together are one report."""
INTERVAL_SECONDS = 300
"""Between two reports of one event in an environment: what comes meanwhile is in the next one."""
FRESH_SECONDS = 86_400
"""Issues that failed first before that are not reported as new."""
_UNKNOWN_SECONDS = 120
"""Where nothing says what was reported, issues that were there so long before are old."""


@dataclass(frozen=True, kw_only=True)
class Watch:
    """An environment whose issues somebody wants to know."""

    since: int
    """Since when (nanoseconds)."""
    now: int
    """Nanoseconds, too."""
    console: str
    """The console's URL; empty where none is configured."""
    version_of: Callable[[Issue], str]
    """The name of the version in which an issue regressed."""

    @property
    def seconds(self) -> int:
        """The time in seconds."""
        return self.now // _SECOND


def next_ledger(ledger: IssueLedger | None, issues: Sequence[Issue], watch: Watch) -> IssueLedger | None:
    """The ledger with what is to be reported of ``issues`` now; None where nothing is to be written."""
    if ledger is None:
        return _first(issues, watch)
    after = _with_opened(ledger, issues, watch)
    after = _with_regressed(after, issues, watch)
    return None if after == ledger else after


def _first(issues: Sequence[Issue], watch: Watch) -> IssueLedger:
    """A ledger that has what was there before."""
    begin = max(watch.since, watch.now - _UNKNOWN_SECONDS * _SECOND)
    return _bounded(
        IssueLedger(
            opened={one.id: one.first for one in issues if one.first < begin},
            regressed={
                one.id: one.decision.at
                for one in issues
                if one.decision and one.state == "regressed" and one.last < begin
            },
        )
    )


def _with_opened(ledger: IssueLedger, issues: Sequence[Issue], watch: Watch) -> IssueLedger:
    unknown = [one for one in issues if one.id not in ledger.opened and one.first > ledger.opened_before]
    begin = max(watch.since, watch.now - FRESH_SECONDS * _SECOND)
    fresh = [one for one in unknown if one.first >= begin and _is_undecided(one)]
    ids = {one.id for one in fresh}
    # Who has decided about an issue knows it.
    known = {one.id: one.first for one in unknown if one.id not in ids}
    if fresh and _is_settled(fresh, watch) and _may_report(ledger, "issue_opened", watch):
        known |= {one.id: one.first for one in fresh}
        ledger = _reported(ledger, "issue_opened", sorted(fresh, key=lambda one: (one.first, one.id)), watch)
    return _bounded(ledger.model_copy(update={"opened": {**ledger.opened, **known}})) if known else ledger


def _with_regressed(ledger: IssueLedger, issues: Sequence[Issue], watch: Watch) -> IssueLedger:
    found: dict[str, int] = {}
    fresh = []
    for one in issues:
        decision = one.decision
        if decision is None or one.state != "regressed" or one.last < watch.since:
            continue
        if ledger.regressed.get(one.id) != decision.at and decision.at > ledger.regressed_before:
            found[one.id] = decision.at
            fresh.append(one)
    if not fresh or not _may_report(ledger, "issue_regressed", watch):
        return ledger
    kept = {name: at for name, at in ledger.regressed.items() if name not in found}
    ledger = _reported(ledger, "issue_regressed", sorted(fresh, key=lambda one: (one.last, one.id)), watch)
    return _bounded(ledger.model_copy(update={"regressed": {**kept, **found}}))


def _is_undecided(issue: Issue) -> bool:
    return issue.state == "open" and (issue.decision is None or not issue.decision.at)


def _is_settled(issues: Iterable[Issue], watch: Watch) -> bool:
    """Pods write the times of failures, so one in the future waits for nothing."""
    ages = [watch.now - one.first for one in issues]
    return max(ages) >= SETTLE_SECONDS * _SECOND or min(ages) < 0


def _may_report(ledger: IssueLedger, event: ReportEvent, watch: Watch) -> bool:
    last = max((one.at for one in ledger.reports if one.event == event), default=None)
    return last is None or not 0 <= watch.seconds - last < INTERVAL_SECONDS


def _reported(ledger: IssueLedger, event: ReportEvent, issues: Sequence[Issue], watch: Watch) -> IssueLedger:
    last = ledger.reports[-1].at if ledger.reports else 0
    report = IssueReport(
        event=event,
        at=max(watch.seconds, last + 1),
        total=len(issues),
        issues=tuple(_named(event, one, watch) for one in issues[:MAX_NAMED]),
        console=watch.console,
    )
    return ledger.model_copy(update={"reports": (*ledger.reports, report)[-MAX_REPORTS:]})


def _named(event: ReportEvent, issue: Issue, watch: Watch) -> ReportedIssue:
    version = watch.version_of(issue) if event == "issue_regressed" else ""
    return ReportedIssue(
        id=issue.id,
        task=issue.task[:MAX_TEXT],
        type=issue.type[:MAX_TEXT],
        system=issue.system[:MAX_TEXT],
        status=issue.status,
        runs=issue.runs,
        since=min(max(issue.first, 0) // _SECOND, watch.seconds),
        version=version[:MAX_TEXT],
    )


def _bounded(ledger: IssueLedger) -> IssueLedger:
    """What was reported longest ago is forgotten, and counts as old by its time."""
    opened, opened_before = _newest(ledger.opened, ledger.opened_before)
    regressed, regressed_before = _newest(ledger.regressed, ledger.regressed_before)
    return ledger.model_copy(
        update={
            "opened": opened,
            "opened_before": opened_before,
            "regressed": regressed,
            "regressed_before": regressed_before,
        }
    )


def _newest(times: Mapping[str, int], before: int) -> tuple[dict[str, int], int]:
    rows = [(name, max(at, 0)) for name, at in times.items()]
    dropped, kept = rows[:-MAX_REPORTED], rows[-MAX_REPORTED:]
    return dict(kept), max(before, *(at for _, at in dropped)) if dropped else before
