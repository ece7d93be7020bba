"""Export requests for tests, in JSON and in protobuf."""

import base64
import json
from typing import Any

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tieline_api.traces.spans import Owner, Span, make_span

OWNER = Owner(
    organisation="01JD3Y7M5RZX9KQW8T2V4N6P0A",
    project="01JD3Y7M5RZX9KQW8T2V4N6P0B",
    environment="01JD3Y7M5RZX9KQW8T2V4N6P0C",
)
SECOND = 1_000_000_000
NOW = 1_763_719_200 * SECOND


def attribute(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "value": {"stringValue": value}}


def span_json(number: int = 1, **fields: Any) -> dict[str, Any]:
    return {
        "traceId": f"{number:032x}",
        "spanId": f"{number:016x}",
        "name": "orders",
        "kind": 2,
        "startTimeUnixNano": str(NOW + number),
        "endTimeUnixNano": str(NOW + number + 1000),
        **fields,
    }


def request_json(*spans: dict[str, Any], service: str = "Shop sync") -> dict[str, Any]:
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": [attribute("service.name", service)]},
                "scopeSpans": [{"spans": list(spans)}],
            }
        ]
    }


def body_json(*spans: dict[str, Any]) -> bytes:
    return json.dumps(request_json(*spans)).encode()


def body_protobuf(*spans: dict[str, Any]) -> bytes:
    """The same request in protobuf: protobuf's own JSON wants ids in base64."""
    converted = []
    for item in spans:
        copy = dict(item)
        for name in ("traceId", "spanId", "parentSpanId"):
            if name in copy:
                copy[name] = base64.b64encode(bytes.fromhex(copy[name])).decode()
        converted.append(copy)
    message = json_format.ParseDict(request_json(*converted), ExportTraceServiceRequest())
    return bytes(message.SerializeToString())


def make(number: int, **fields: Any) -> Span:
    """A span that begins a run, one nanosecond after the one before."""
    values: dict[str, Any] = {
        "trace_id": number.to_bytes(16, "big"),
        "span_id": number.to_bytes(8, "big"),
        "parent_id": b"",
        "name": "orders",
        "kind": 2,
        "flags": 0,
        "start": NOW + number,
        "end": NOW + number + 1000,
        "status": 0,
        "message": "",
        "attributes": (),
        "resource": {"service.name": "Shop sync"},
        **fields,
    }
    return make_span(**values)
