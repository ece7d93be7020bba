"""What notifications say about issues: what fails, where, how often and since when, and where to look. Pure.

The error's message stays in the run, because it may hold what the event held.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tieline_core.engine.issue_reports import IssueReport, ReportedIssue
from tieline_core.identity.ids import format_time
from tieline_core.resources.notifications import NotificationEvent
from tieline_operator.apply.plan import Key
from tieline_operator.reconcilers.notification.messages import Phase, Place
from tieline_operator.reconcilers.notification.report_messages import Listed, ReportMessage, one_line
from tieline_operator.reconcilers.notification.reports import ReportDue, moment_of


@dataclass(frozen=True, kw_only=True)
class IssueMessage(ReportMessage):
    """A message about issues that opened, or that came back."""

    report: IssueReport

    @property
    def headline(self) -> str:
        """How many issues."""
        return headline(self.report)

    @property
    def listed(self) -> Sequence[Listed]:
        """The first issues."""
        return [Listed(described(one), self._link(one)) for one in self.report.issues]

    @property
    def omitted(self) -> Listed | None:
        """How many more there are."""
        more = self.report.total - len(self.report.issues)
        return Listed(f"And {more} more:", self.command) if more else None

    @property
    def next_step(self) -> str:
        """What to do."""
        return "Look at the newest runs of the issue, and correct the cause, or mute the issue."

    @property
    def path(self) -> str:
        """The path in the REST API that shows more: the issue, or the list of issues where there are several."""
        if self.report.total == 1:
            return self._path_of(self.report.issues[0])
        return f"{self._project}/issues?project_env={self.place.environment}&state=open&state=regressed"

    @property
    def command(self) -> str:
        """A request that shows more."""
        return f"GET {self.path}"

    def details(self) -> dict[str, Any]:
        """The issues."""
        return {"count": self.report.total, "issues": [self._issue(one) for one in self.report.issues]}

    @property
    def _project(self) -> str:
        place = self.place
        return f"/api/v2/o/{place.organisation_id}/projects/{place.project_id}"

    def _path_of(self, issue: ReportedIssue) -> str:
        return f"{self._project}/issues/{issue.id}"

    def _url_of(self, issue: ReportedIssue) -> str:
        """The issue's page in the console; empty where no console has a URL."""
        place, console = self.place, self.report.console
        page = f"{place.organisation_id}/projects/{place.project_id}/issues/{issue.id}"
        return f"{console}/{page}" if console else ""

    def _link(self, issue: ReportedIssue) -> str:
        return self._url_of(issue) or f"GET {self._path_of(issue)}"

    def _issue(self, issue: ReportedIssue) -> dict[str, Any]:
        texts = {
            "task": issue.task,
            "errorType": issue.type,
            "system": issue.system,
            "version": issue.version,
            "url": self._url_of(issue),
        }
        shown: dict[str, Any] = {"id": issue.id} | {name: text for name, text in texts.items() if text}
        if issue.status is not None:
            shown["upstreamStatus"] = issue.status
        return shown | {"runs": issue.runs, "since": _time(issue), "path": self._path_of(issue)}


def issue_message(*, channel: Key, uid: str, due: ReportDue[IssueReport], place: Place) -> IssueMessage:
    """The message about a report."""
    report = due.report
    return IssueMessage(
        id=due.id,
        thread=due.id,
        channel=channel,
        uid=uid,
        phase=Phase.HAPPENED,
        event=NotificationEvent(report.event),
        subject=report.issues[0].id,
        place=place,
        detail=sentence(report),
        since=moment_of(report),
        report=report,
    )


def headline(report: IssueReport) -> str:
    """How many issues opened or came back."""
    number = report.total
    if report.event == "issue_opened":
        return "New issue" if number == 1 else f"{number} new issues"
    return "Issue is back" if number == 1 else f"{number} issues are back"


def sentence(report: IssueReport) -> str:
    """All of it on one line."""
    named = "; ".join(described(one) for one in report.issues)
    more = report.total - len(report.issues)
    return one_line(f"{headline(report)}: {named}{f'; and {more} more' if more else ''}.")


def described(issue: ReportedIssue) -> str:
    """An issue in words."""
    answered = f" with {issue.status}" if issue.status is not None else ""
    system = f", {issue.system} answered{answered}" if issue.system else ""
    back = f", back in version {issue.version}" if issue.version else ""
    runs = "1 run" if issue.runs == 1 else f"{issue.runs} runs"
    return f"{issue.type or 'Failure'} in {issue.task}{system}: {runs} since {_time(issue)}{back}"


def _time(issue: ReportedIssue) -> str:
    return format_time(datetime.fromtimestamp(issue.since, UTC))
