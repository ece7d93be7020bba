"""Records for tests."""

from typing import Any

from tieline_api.audit.records import AuditRecord


def record(identifier: str = "R", organisation: str = "O", **fields: Any) -> AuditRecord:
    """A record of an allowed write."""
    given: dict[str, Any] = {
        "id": identifier, "organisation": organisation, "at": "2026-01-01T00:00:00.000Z", "subject": "ann",
        "caller": "user", "via": "rest", "operation": "updateSystem", "outcome": "allowed", "status": 201,
    }  # fmt: skip
    return AuditRecord(**given | fields)
