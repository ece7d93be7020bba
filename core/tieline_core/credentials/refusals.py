"""What pods have reported of requests through a connection that its system refused: an annotation of the Connection.

The API writes it for the pods; the operator makes the condition ``CredentialsAccepted`` of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from tieline_core.identity.ids import format_time, parse_time

ANNOTATION = "tieline.dev/refused-requests"
CONDITION = "CredentialsAccepted"
"""The type of the Connection's condition."""
REPORTER = "tieline-api-reports"
"""The field manager that writes the annotation."""
REFUSALS = frozenset({401, 403})
"""The statuses that say that a system does not accept the credentials."""


@dataclass(frozen=True, kw_only=True)
class Refusals:
    """Requests that were refused, one after the other, and when one was accepted again."""

    status: int
    """The last answer's."""
    count: int
    """How many are known of at least."""
    since: datetime
    last: datetime
    accepted: datetime | None = None
    """When a request was accepted after them; None while they are refused."""

    def to_annotation(self) -> str:
        """The annotation's text."""
        found: dict[str, Any] = {
            "status": self.status,
            "count": self.count,
            "since": format_time(self.since),
            "last": format_time(self.last),
        }
        if self.accepted:
            found["accepted"] = format_time(self.accepted)
        return orjson.dumps(found).decode()


def refusals_of(obj: Mapping[str, Any]) -> Refusals | None:
    """What is known of a Connection's refused requests; None where there are none, or somebody wrote something else.

    >>> text = '{"status": 401, "count": 3, "since": "2026-11-25T10:00:00Z", "last": "2026-11-25T10:05:00Z"}'
    >>> refusals_of({"metadata": {"annotations": {"tieline.dev/refused-requests": text}}}).count
    3
    >>> refusals_of({"metadata": {"annotations": {"tieline.dev/refused-requests": "[]"}}})
    """
    text = (obj["metadata"].get("annotations") or {}).get(ANNOTATION)
    if not text:
        return None
    try:
        found = orjson.loads(text)
        return Refusals(
            status=int(found["status"]),
            count=int(found["count"]),
            since=parse_time(found["since"]),
            last=parse_time(found["last"]),
            accepted=parse_time(found["accepted"]) if "accepted" in found else None,
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
