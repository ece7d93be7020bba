"""Exports audit records as OTLP log records: a copy that a compromised API cannot delete."""

from typing import Any

import orjson

from tieline_api.audit.records import AuditRecord
from tieline_api.settings import Settings
from tieline_api.traces.backends import headers_in
from tieline_api.traces.forwarder import Forwarder
from tieline_api.traces.otlp_batch import JSON

_SERVICE = "tieline-api"
_SCOPE = "tieline.audit"
_PREFIX = "tieline.audit."
_SEVERITIES = {"allowed": (9, "INFO"), "refused": (13, "WARN"), "failed": (17, "ERROR")}


class AuditExport:
    """Sends each record to the collector, whether the engine stores it or not. No write waits for it."""

    def __init__(self, forwarder: Forwarder) -> None:
        self._forwarder = forwarder

    @property
    def exported(self) -> int:
        """Records that the collector has taken."""
        return self._forwarder.written

    @property
    def lost(self) -> int:
        """Records that it will not get."""
        return self._forwarder.dropped.total()

    def add(self, record: AuditRecord) -> None:
        """Sends a record soon, and returns at once."""
        self._forwarder.offer(JSON, request_of(record), 1)

    def start(self) -> None:
        """Begins to send."""
        self._forwarder.start()

    async def stop(self) -> None:
        """Sends what waits, for a few seconds."""
        await self._forwarder.stop()


def make_export(settings: Settings) -> AuditExport | None:
    """The export that the configuration names; None for none."""
    if not settings.audit_otlp_url:
        return None
    headers = headers_in(settings.audit_headers_file)
    return AuditExport(Forwarder(settings.audit_otlp_url, headers=headers, what="audit records"))


def request_of(record: AuditRecord) -> bytes:
    """The export request with a record (OTLP/HTTP, as JSON)."""
    content = record.content()
    nanoseconds = str(int(record.at.timestamp() * 1000) * 1_000_000)
    number, text = _SEVERITIES[record.outcome]
    entry = {
        "timeUnixNano": nanoseconds,
        "observedTimeUnixNano": nanoseconds,
        "severityNumber": number,
        "severityText": text,
        "eventName": _SCOPE,
        "body": _value(f"{record.operation} {record.outcome}"),
        "attributes": [
            {"key": f"{_PREFIX}{name}", "value": _value(value)} for name, value in content.items()
        ],
    }
    scope = {"scope": {"name": _SCOPE}, "logRecords": [entry]}
    service = {"key": "service.name", "value": _value(_SERVICE)}
    return orjson.dumps({"resourceLogs": [{"resource": {"attributes": [service]}, "scopeLogs": [scope]}]})


def _value(value: Any) -> dict[str, Any]:
    """A value as OTLP's JSON has it."""
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case list() | tuple():
            return {"arrayValue": {"values": [_value(item) for item in value]}}
        case dict():
            pairs = [{"key": str(name), "value": _value(item)} for name, item in value.items()]
            return {"kvlistValue": {"values": pairs}}
    return {"stringValue": str(value)}
