"""Which reports about issues a Notification sends: each once, in order. Pure.

The status holds the time until which reports were sent. No two reports of an environment have the same time, so another
leader continues from there, and the message of two leaders has one id.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tieline_core.engine.issue_reports import IssueReport
from tieline_core.resources.notifications import NotificationEvent
from tieline_operator.reconcilers.notification.incidents import GIVE_UP_SECONDS

_ID_DIGITS = 32


@dataclass(frozen=True, kw_only=True)
class IssueMessageDue:
    """A report that is to be sent."""

    id: str
    """Of the message."""
    report: IssueReport


@dataclass(frozen=True, kw_only=True)
class IssueStep:
    """What is to be sent now, and until when reports are settled."""

    until: datetime
    due: Sequence[IssueMessageDue] = ()
    sent: Sequence[IssueReport] = ()
    """Reports whose delivery ``until`` takes note of."""
    known: frozenset[str] = frozenset()
    """Ids of messages whose delivery matters until the status has it."""


def issue_step(
    uid: str,
    reports: Sequence[IssueReport],
    *,
    events: frozenset[NotificationEvent],
    until: datetime,
    delivered: Mapping[str, datetime],
    now: datetime,
) -> IssueStep:
    """What the Notification with this ``uid`` sends of ``reports`` that are newer than ``until``.

    ``delivered``: when messages were delivered, by id.
    """
    due: list[IssueMessageDue] = []
    sent: list[IssueReport] = []
    left = sorted((one for one in reports if _moment(one) > until), key=lambda one: one.at)
    for report in left:
        identifier = _message_id(uid, report)
        is_wanted = report.event in events and now - _moment(report) < timedelta(seconds=GIVE_UP_SECONDS)
        if is_wanted and identifier not in delivered:
            due.append(IssueMessageDue(id=identifier, report=report))
        elif not due:
            until = _moment(report)
            if is_wanted:
                sent.append(report)
    return IssueStep(
        until=until, due=due, sent=sent, known=frozenset(_message_id(uid, report) for report in left)
    )


def _moment(report: IssueReport) -> datetime:
    return datetime.fromtimestamp(report.at, UTC)


def _message_id(uid: str, report: IssueReport) -> str:
    text = f"{uid}\n{report.event}\n{report.at}"
    return f"msg_{hashlib.sha256(text.encode()).hexdigest()[:_ID_DIGITS]}"
