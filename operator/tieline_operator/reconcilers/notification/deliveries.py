"""What the reconcilers need of delivery: they say what is to be delivered, and learn what was."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from tieline_core.engine.approval_reports import ApprovalReport
from tieline_core.engine.issue_reports import IssueReport
from tieline_core.resources.notification_channels import DeliveryFailure
from tieline_operator.apply.plan import Key
from tieline_operator.reconcilers.notification.detection import RunCounts
from tieline_operator.reconcilers.notification.messages import Message


@dataclass(frozen=True, kw_only=True)
class ChannelHealth:
    """What deliveries to a channel have come to since this replica leads."""

    last_delivered_at: datetime | None = None
    failure: DeliveryFailure | None = None


class Deliveries(Protocol):
    """Delivers messages in the background."""

    def deliver(self, owner: Key, messages: Sequence[Message], *, known: Collection[str]) -> None:
        """Delivers ``messages`` of a Notification or a channel, and no others of it any more.

        What was delivered is remembered for ids in ``known``.
        """

    def delivered(self, owner: Key) -> Mapping[str, datetime]:
        """When messages of a Notification or a channel were delivered, by id."""

    def health(self, channel: Key, revision: str) -> ChannelHealth | None:
        """What became of deliveries to a channel; None where there were none, or it was another ``revision``.

        Failed deliveries are tried again at once for a new revision.
        """


class Runs(Protocol):
    """Knows what becomes of runs."""

    def counts(self, namespace: str, environment_id: str) -> RunCounts | None:
        """Of an environment; None while nothing is known."""


class Schedules(Protocol):
    """Knows what pods have written down about schedules."""

    def records(self, namespace: str, environment_id: str) -> Mapping[str, bytes] | None:
        """The records of an environment as JSON, by the names of its schedules; None while nothing is known."""


class Issues(Protocol):
    """Knows which issues the API has reported."""

    def reports(self, namespace: str, environment_id: str) -> Sequence[IssueReport] | None:
        """The newest reports of an environment; None while nothing is known."""


class Approvals(Protocol):
    """Knows which approvals the API has reported."""

    def reports(self, namespace: str, environment_id: str) -> Sequence[ApprovalReport] | None:
        """The newest reports of an environment; None while nothing is known."""


class _None:
    def deliver(self, owner: Key, messages: Sequence[Message], *, known: Collection[str]) -> None:
        pass

    def delivered(self, owner: Key) -> Mapping[str, datetime]:
        return {}

    def health(self, channel: Key, revision: str) -> None:
        pass

    def counts(self, namespace: str, environment_id: str) -> None:
        pass

    def records(self, namespace: str, environment_id: str) -> None:
        pass

    def reports(self, namespace: str, environment_id: str) -> None:
        pass


NO_DELIVERIES: Deliveries = _None()
NO_RUNS: Runs = _None()
NO_SCHEDULES: Schedules = _None()
NO_ISSUES: Issues = _None()
NO_APPROVALS: Approvals = _None()
