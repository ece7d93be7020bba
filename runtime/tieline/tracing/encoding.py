"""Spans as OTLP in JSON (opentelemetry-proto 1.x), written by hand: the image needs no protobuf for it."""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tieline.tracing.spans import Span, Value

Redact = Callable[[str], str]
_KINDS = {"INTERNAL": 1, "SERVER": 2, "CLIENT": 3, "CONSUMER": 5}
_OK, _ERROR = 1, 2
_REMOTE, _LOCAL = 0x301, 0x101
_SCOPE = {"name": "tieline"}


def encode(spans: Iterable[Span], *, resource: Mapping[str, Value], redact: Redact) -> bytes:
    """The body of an export request. ``redact`` sees every text that code or callers have chosen."""
    request = {
        "resourceSpans": [
            {
                "resource": {"attributes": _attributes(resource, redact)},
                "scopeSpans": [{"scope": _SCOPE, "spans": [_span(span, redact) for span in spans]}],
            }
        ]
    }
    # Lone surrogates, which no UTF-8 has, become question marks.
    return json.dumps(request, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


def _span(span: Span, redact: Redact) -> dict[str, Any]:
    context = span.context
    result: dict[str, Any] = {
        "traceId": context.trace_id,
        "spanId": context.span_id,
        "flags": _REMOTE if span.remote_parent else _LOCAL,
        "name": redact(span.name),
        "kind": _KINDS[span.kind],
        "startTimeUnixNano": str(span.start),
        "endTimeUnixNano": str(span.end),
        "attributes": _attributes(span.attributes, redact),
        "status": {"code": _OK} if span.error is None else {"code": _ERROR, "message": redact(span.error)},
    }
    if span.parent_id:
        result["parentSpanId"] = span.parent_id
    if context.state:
        result["traceState"] = context.state
    return result


def _attributes(values: Mapping[str, Value], redact: Redact) -> list[dict[str, Any]]:
    return [{"key": redact(key), "value": _value(value, redact)} for key, value in values.items()]


def _value(value: Value, redact: Redact) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return {"intValue": str(value)}
    if isinstance(value, float) and math.isfinite(value):
        return {"doubleValue": value}
    return {"stringValue": redact(str(value))}
