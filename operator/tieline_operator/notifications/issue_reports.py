"""Reads from the engine what the API reports about issues, for environments that have notifications about them."""

import logging
from collections.abc import Sequence
from typing import Any

from tieline_core.engine.issue_reports import KEY, IssueLedger, IssueReport
from tieline_core.engine.state_streams import StatePlace
from tieline_core.resources.notifications import ISSUE_EVENTS
from tieline_operator.cache.cluster_cache import Listers
from tieline_operator.notifications.place_reader import PlaceReader, WantedValues

logger = logging.getLogger(__name__)

_WANTED = WantedValues(
    events=ISSUE_EVENTS,
    place=StatePlace.of_issue_reports,
    limit=1,
    problem="Reports about issues cannot be read",
)


class IssueReports(PlaceReader):
    """The ``Issues`` of the leader."""

    def __init__(self, listers: Listers, **options: Any) -> None:
        """``options`` as of PlaceReader."""
        super().__init__(listers, _WANTED, **options)

    def reports(self, namespace: str, environment_id: str) -> Sequence[IssueReport] | None:
        """See ``Issues``."""
        values = self.records(namespace, environment_id)
        if values is None:
            return None
        content = values.get(KEY)
        if content is None:
            return ()
        try:
            return IssueLedger.parse(content).reports
        except ValueError:
            logger.debug("A report about issues is malformed", extra={"namespace": namespace})
            return None
