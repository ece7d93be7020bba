"""Records for tests."""

from datetime import UTC, datetime
from typing import Any

from tieline_api.audit.records import AuditRecord


def record(identifier: str = "R", organisation: str = "O", **fields: Any) -> AuditRecord:
    """A record of an allowed write."""
    given: dict[str, Any] = {
        "id": identifier, "organisation": organisation, "at": datetime(2026, 1, 1, tzinfo=UTC), "subject": "ann",
        "caller": "user", "via": "rest", "operation": "updateSystem", "outcome": "allowed", "status": 201,
    }  # fmt: skip
    return AuditRecord(**given | fields)
