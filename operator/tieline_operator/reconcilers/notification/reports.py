"""Which reports of the API a Notification sends: each once, in order. Pure.

The status holds the time until which reports were sent. No two reports of one kind and environment have the same time,
so another leader continues from there, and the message of two leaders has one id.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, Protocol, TypeVar

from tieline_core.identity.ids import environment_id
from tieline_core.resources import Notification, Project
from tieline_core.resources.notifications import NotificationEvent
from tieline_operator.reconcilers.notification.incidents import GIVE_UP_SECONDS

_ID_DIGITS = 32


class Report(Protocol):
    """What the API has found in an environment."""

    @property
    def event(self) -> str:
        """A NotificationEvent."""

    @property
    def at(self) -> int:
        """When it was reported, in seconds since 1970."""


R = TypeVar("R", bound=Report)


@dataclass(frozen=True, kw_only=True)
class ReportDue(Generic[R]):
    """A report that is to be sent."""

    id: str
    """Of the message."""
    report: R


@dataclass(frozen=True, kw_only=True)
class ReportStep(Generic[R]):
    """What is to be sent now, and until when reports are settled."""

    until: datetime
    due: Sequence[ReportDue[R]] = ()
    sent: Sequence[R] = ()
    """Reports whose delivery ``until`` takes note of."""
    known: frozenset[str] = frozenset()
    """Ids of messages whose delivery matters until the status has it."""


def report_step(
    uid: str,
    reports: Sequence[R],
    *,
    events: frozenset[NotificationEvent],
    until: datetime,
    delivered: Mapping[str, datetime],
    now: datetime,
    is_current: Callable[[R], bool] = lambda _: True,
) -> ReportStep[R]:
    """What the Notification with this ``uid`` sends of ``reports`` that are newer than ``until``.

    ``delivered``: when messages were delivered, by id. ``is_current``: whether a report is still worth a message.
    """
    due: list[ReportDue[R]] = []
    sent: list[R] = []
    left = sorted((one for one in reports if moment_of(one) > until), key=lambda one: one.at)
    for report in left:
        identifier = _message_id(uid, report)
        is_late = now - moment_of(report) >= timedelta(seconds=GIVE_UP_SECONDS)
        is_sent = identifier in delivered
        is_wanted = report.event in events and not is_late
        if is_wanted and not is_sent and is_current(report):
            due.append(ReportDue(id=identifier, report=report))
        elif not due:
            until = moment_of(report)
            if is_wanted and is_sent:
                sent.append(report)
    return ReportStep(
        until=until, due=due, sent=sent, known=frozenset(_message_id(uid, report) for report in left)
    )


def reports_due(
    project: Project | None,
    notification: Notification,
    read: Callable[[str, str], Sequence[R] | None],
    *,
    events: frozenset[NotificationEvent],
    until: datetime | None,
    delivered: Mapping[str, datetime],
    now: datetime,
    is_current: Callable[[R], bool] = lambda _: True,
) -> ReportStep[R] | None:
    """What a Notification sends of the reports that ``read`` finds.

    None where it does not name their events, or nothing is known of them.
    """
    spec, metadata = notification.spec, notification.metadata
    wanted = spec.effective_events & events
    if not wanted or project is None:
        return None
    reports = read(project.namespace, environment_id(project.id, spec.environment))
    if reports is None:
        return None
    # A notification that was never changed has named the events since it was created.
    begin = metadata.creation_timestamp if metadata.generation == 1 else None
    return report_step(
        metadata.uid,
        reports,
        events=wanted,
        until=until or begin or now.replace(microsecond=0),
        delivered=delivered,
        now=now,
        is_current=is_current,
    )


def settled_until(
    step: ReportStep[Any] | None, stored: datetime | None, *, is_wanted: bool
) -> datetime | None:
    """Until when reports are settled; as before while nothing is known of them."""
    if step is not None:
        return step.until
    return stored if is_wanted else None


def moment_of(report: Report) -> datetime:
    """When it was reported."""
    return datetime.fromtimestamp(report.at, UTC)


def _message_id(uid: str, report: Report) -> str:
    text = f"{uid}\n{report.event}\n{report.at}"
    return f"msg_{hashlib.sha256(text.encode()).hexdigest()[:_ID_DIGITS]}"
