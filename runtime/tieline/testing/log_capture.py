"""Log lines of a test's runs, as pods would write them: as fields, without secrets."""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tieline.telemetry.logs import JsonFormatter
from tieline.telemetry.redaction import Redactor


@dataclass(frozen=True, kw_only=True)
class LogEntry:
    """One log line."""

    severity: str
    message: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    execution_id: str = ""
    error: str = ""
    """The traceback."""


class LogCapture(logging.Handler):
    """Collects what code and runtime log."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__(logging.DEBUG)
        self.entries: list[LogEntry] = []
        self.setFormatter(JsonFormatter(redactor))

    def emit(self, record: logging.LogRecord) -> None:
        """See logging.Handler."""
        line = json.loads(self.format(record))
        self.entries.append(
            LogEntry(
                severity=line["severity"],
                message=line["message"],
                fields=line.get("fields", {}),
                execution_id=line.get("executionId", ""),
                error=line.get("error", ""),
            )
        )
