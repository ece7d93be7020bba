"""Reads from the engine what the API reports, for environments that have notifications about it."""

import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tieline_core.engine.approval_reports import KEY as APPROVALS_KEY
from tieline_core.engine.approval_reports import ApprovalLedger, ApprovalReport
from tieline_core.engine.issue_reports import KEY as ISSUES_KEY
from tieline_core.engine.issue_reports import IssueLedger, IssueReport
from tieline_core.engine.state_streams import StatePlace
from tieline_core.resources.notifications import APPROVAL_EVENTS, ISSUE_EVENTS
from tieline_operator.cache.cluster_cache import Listers
from tieline_operator.notifications.place_reader import PlaceReader, WantedValues

logger = logging.getLogger(__name__)

L = TypeVar("L")
_ISSUES = WantedValues(
    events=ISSUE_EVENTS,
    place=StatePlace.of_issue_reports,
    limit=1,
    problem="Reports about issues cannot be read",
)
_APPROVALS = WantedValues(
    events=APPROVAL_EVENTS,
    place=StatePlace.of_approval_reports,
    limit=1,
    problem="Reports about approvals cannot be read",
)


class IssueReports(PlaceReader):
    """The ``Issues`` of the leader."""

    def __init__(self, listers: Listers, **options: Any) -> None:
        """``options`` as of PlaceReader."""
        super().__init__(listers, _ISSUES, **options)

    def reports(self, namespace: str, environment_id: str) -> Sequence[IssueReport] | None:
        """See ``Issues``."""
        ledger = _ledger(self, namespace, environment_id, ISSUES_KEY, IssueLedger.parse, IssueLedger())
        return None if ledger is None else ledger.reports


class ApprovalReports(PlaceReader):
    """The ``Approvals`` of the leader."""

    def __init__(self, listers: Listers, **options: Any) -> None:
        """``options`` as of PlaceReader."""
        super().__init__(listers, _APPROVALS, **options)

    def reports(self, namespace: str, environment_id: str) -> Sequence[ApprovalReport] | None:
        """See ``Approvals``."""
        ledger = _ledger(
            self, namespace, environment_id, APPROVALS_KEY, ApprovalLedger.parse, ApprovalLedger()
        )
        return None if ledger is None else ledger.reports


def _ledger(
    reader: PlaceReader,
    namespace: str,
    environment_id: str,
    key: str,
    parse: Callable[[bytes], L],
    empty: L,
) -> L | None:
    """What was reported of an environment, ``empty`` where nothing was; None while it is not known."""
    values = reader.records(namespace, environment_id)
    if values is None:
        return None
    content = values.get(key)
    if content is None:
        return empty
    try:
        return parse(content)
    except ValueError:
        logger.debug("A report is malformed", extra={"namespace": namespace})
        return None
