"""What notifications say about approvals: what is asked, of whom, until when, and where to answer. Pure.

A link leads to a page of the console, where whoever opens it signs in and answers with their own rights. So a message
holds nothing that answers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tieline_core.engine.approval_reports import ApprovalReport, ReportedApproval
from tieline_core.identity.ids import format_time
from tieline_core.resources.notifications import NotificationEvent
from tieline_operator.apply.plan import Key
from tieline_operator.reconcilers.notification.messages import Phase, Place
from tieline_operator.reconcilers.notification.report_messages import Listed, ReportMessage, one_line
from tieline_operator.reconcilers.notification.reports import ReportDue, moment_of
from tieline_protocol.approvals import approver

_ROLES = {"tieline-viewer": "viewers", "tieline-editor": "editors", "tieline-admin": "administrators"}
_LATEST = datetime.max.replace(tzinfo=UTC).timestamp() - 1


@dataclass(frozen=True, kw_only=True)
class ApprovalMessage(ReportMessage):
    """A message about what runs ask people."""

    report: ApprovalReport

    @property
    def headline(self) -> str:
        """What is asked; of several, how many there are."""
        report = self.report
        if report.total > 1:
            return headline(report)
        return " ".join([headline(report), *(f'"{one.title}"' for one in report.approvals)])

    @property
    def listed(self) -> Sequence[Listed]:
        """The first approvals."""
        return [Listed(described(one), self._link(one)) for one in self.report.approvals]

    @property
    def omitted(self) -> Listed | None:
        """How many more there are."""
        report = self.report
        more = report.total - len(report.approvals)
        place = f"{report.console}/{self.place.organisation_id}/approvals" if report.console else self._list
        return Listed(f"And {more} more:", place) if more else None

    @property
    def next_step(self) -> str:
        """What to do."""
        if self.report.console:
            return "Open the link and sign in. The page shows what is asked, and takes your answer."
        return "See what is asked, and answer with tieline approvals approve or tieline approvals reject."

    @property
    def path(self) -> str:
        """The path in the REST API that shows more: the approval, or the list where there are several."""
        report, place = self.report, self.place
        if report.total == 1 and report.approvals:
            return self._path_of(report.approvals[0])
        which = f"project={place.project_id}&project_env={place.environment}&state=open"
        return f"/api/v2/o/{place.organisation_id}/approvals?{which}"

    @property
    def command(self) -> str:
        """A command that shows more."""
        report = self.report
        return _command(report.approvals[0]) if report.total == 1 and report.approvals else self._list

    def details(self) -> dict[str, Any]:
        """The approvals."""
        return {
            "count": self.report.total,
            "approvals": [self._approval(one) for one in self.report.approvals],
        }

    @property
    def _list(self) -> str:
        return (
            f"tieline approvals list --project {self.place.project_id} --environment {self.place.environment}"
        )

    def _path_of(self, approval: ReportedApproval) -> str:
        place = self.place
        return (
            f"/api/v2/o/{place.organisation_id}/environments/{place.environment_id}/approvals/{approval.id}"
        )

    def _url_of(self, approval: ReportedApproval) -> str:
        """The approval's page in the console; empty where no console has a URL."""
        place, console = self.place, self.report.console
        page = f"{place.organisation_id}/approvals/{place.environment_id}/{approval.id}"
        return f"{console}/{page}" if console else ""

    def _link(self, approval: ReportedApproval) -> str:
        return self._url_of(approval) or _command(approval)

    def _approval(self, approval: ReportedApproval) -> dict[str, Any]:
        shown: dict[str, Any] = {
            "id": approval.id,
            "runId": approval.run,
            "title": approval.title,
            "by": list(approval.by),
            "until": _time(approval.until),
            "path": self._path_of(approval),
        }
        if approval.more:
            shown["moreApprovers"] = approval.more
        if approval.other_than:
            shown["otherThan"] = approval.other_than
        if url := self._url_of(approval):
            shown["url"] = url
        return shown


def approval_message(
    *, channel: Key, uid: str, due: ReportDue[ApprovalReport], place: Place
) -> ApprovalMessage:
    """The message about a report."""
    report = due.report
    return ApprovalMessage(
        id=due.id,
        thread=due.id,
        channel=channel,
        uid=uid,
        phase=Phase.HAPPENED,
        event=NotificationEvent(report.event),
        subject=report.approvals[0].id if report.approvals else "",
        place=place,
        detail=_sentence(report),
        since=moment_of(report),
        report=report,
    )


def headline(report: ApprovalReport) -> str:
    """How many approvals are requested."""
    return "Approval requested" if report.total == 1 else f"{report.total} approvals requested"


def described(approval: ReportedApproval) -> str:
    """An approval in words."""
    return f'"{approval.title}", for {answerers(approval)}, until {_time(approval.until)}'


def answerers(approval: ReportedApproval) -> str:
    """Who may answer, in words."""
    named = [_in_words(*found) for one in approval.by if (found := approver(one)) is not None]
    if not approval.by:
        named = [_ROLES["tieline-editor"]]
    if approval.more:
        named.append(f"{approval.more} more")
    others = f", but not user {approval.other_than}" if approval.other_than else ""
    return f"{' or '.join(named) or 'nobody'}{others}"


def _in_words(kind: str, name: str) -> str:
    return _ROLES[name] if kind == "role" else f"{kind} {name}"


def _sentence(report: ApprovalReport) -> str:
    named = "; ".join(described(one) for one in report.approvals)
    more = report.total - len(report.approvals)
    return one_line(f"{headline(report)}: {named}{f'; and {more} more' if more else ''}.")


def _command(approval: ReportedApproval) -> str:
    return f"tieline approvals show {approval.id}"


def _time(seconds: int) -> str:
    return format_time(datetime.fromtimestamp(min(seconds, _LATEST), UTC))
