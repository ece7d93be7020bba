"""OTLP/HTTP with JSON bodies, by hand.

OTLP's JSON is protobuf's with exceptions that protobuf's own reader does not know (ids are hexadecimal, the
specification "OTLP/HTTP, JSON Protobuf Encoding"): it gets ids wrong, and takes twenty times as long.
Fields that are not known are ignored, as the specification asks.
"""

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import orjson

from tieline_api.traces.otlp_batch import (
    EXCEPTION,
    MAX_DEPTH,
    TOO_DEEP,
    Admitted,
    Batch,
    OtlpDecodeError,
    everything,
)
from tieline_api.traces.spans import (
    MAX_ATTRIBUTES,
    MAX_KEY,
    MAX_VALUE,
    RejectedSpanError,
    Span,
    make_resource,
    make_span,
)
from tieline_core.objects import Json

_MAX_DIGITS = 20


def message(body: bytes) -> Json:
    """A request as it was sent; raises OtlpDecodeError."""
    try:
        request = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise OtlpDecodeError(f"The body is no JSON: {error.msg} (line {error.lineno})") from None
    return _object(request, "the body")


def parse(request: Json, admitted: Admitted = everything) -> Batch:
    """The spans of a request, of the resources that are admitted; raises OtlpDecodeError, TooManySpansError."""
    batch = Batch()
    for resource_spans in objects(request, "resourceSpans"):
        resource = make_resource(attributes(child(resource_spans, "resource")))
        if not admitted(resource):
            continue
        for scope_spans in objects(resource_spans, "scopeSpans"):
            batch.take(objects(scope_spans, "spans"), partial(_span, resource=resource))
    return batch


def answer(batch: Batch) -> bytes:
    """The answer to a request: an empty object when all was taken."""
    if not batch.rejected:
        return b"{}"
    partial = {"rejectedSpans": str(batch.rejected), "errorMessage": batch.reason}
    return orjson.dumps({"partialSuccess": partial})


def _span(item: Json, resource: dict[str, str]) -> Span:
    status = child(item, "status")
    return make_span(
        trace_id=_hex(item, "traceId"),
        span_id=_hex(item, "spanId"),
        parent_id=_hex(item, "parentSpanId"),
        name=_string(item, "name"),
        kind=_number(item, "kind"),
        flags=_number(item, "flags"),
        start=_number(item, "startTimeUnixNano"),
        end=_number(item, "endTimeUnixNano"),
        status=_number(status, "code"),
        message=_string(status, "message"),
        attributes=_with_exception(item),
        resource=resource,
    )


def _with_exception(item: Json) -> Iterator[tuple[str, str]]:
    yield from attributes(item)
    for event in objects(item, "events"):
        if event.get("name") == EXCEPTION:
            yield from attributes(event)
            return


def attributes(item: Json) -> Iterator[tuple[str, str]]:
    """The attributes of a resource, a span or an event, as text; raises OtlpDecodeError."""
    for pair in objects(item, "attributes")[:MAX_ATTRIBUTES]:
        yield _string(pair, "key")[:MAX_KEY], _text(child(pair, "value"))[:MAX_VALUE]


def _text(value: Json) -> str:
    text = value.get("stringValue")
    if isinstance(text, str):
        return text
    plain = _plain(value, MAX_DEPTH)
    return plain if isinstance(plain, str) else orjson.dumps(plain).decode()


def _plain(value: Json, depth: int) -> Any:
    if depth == 0:
        return TOO_DEEP
    match value:
        case {"stringValue": str(text)} | {"bytesValue": str(text)}:
            return text
        case {"boolValue": bool(flag)}:
            return flag
        case {"intValue": _}:
            return _number(value, "intValue")
        case {"doubleValue": bool()}:
            return ""
        case {"doubleValue": int(number) | float(number)}:
            return float(number)
        case {"doubleValue": "NaN" | "Infinity" | "-Infinity"}:
            return None
        case {"arrayValue": dict(array)}:
            return [_plain(item, depth - 1) for item in objects(array, "values")]
        case {"kvlistValue": dict(pairs)}:
            return {
                _string(pair, "key"): _plain(child(pair, "value"), depth - 1)
                for pair in objects(pairs, "values")
            }
        case _:
            return ""


def _object(value: Any, what: str) -> Json:
    if isinstance(value, dict):
        return value
    raise OtlpDecodeError(f"In the JSON {what} must be an object")


def child(item: Json, name: str) -> Json:
    """The object of that name, {} for none; raises OtlpDecodeError."""
    value = item.get(name)
    return {} if value is None else _object(value, name)


def objects(item: Json, name: str) -> list[Json]:
    """The list of objects of that name, [] for none; raises OtlpDecodeError."""
    values = item.get(name)
    if values is None:
        return []
    if not isinstance(values, list):
        raise OtlpDecodeError(f"In the JSON {name} must be a list")
    for value in values:
        _object(value, f"every item of {name}")
    return values


def _string(item: Json, name: str) -> str:
    value = item.get(name)
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    raise OtlpDecodeError(f"In the JSON {name} must be a string")


def _number(item: Json, name: str) -> int:
    """A whole number, also one that is written as a string (as 64-bit numbers are)."""
    value = item.get(name)
    if value is None:
        return 0
    if isinstance(value, str) and value.isascii() and len(value) <= _MAX_DIGITS:
        with suppress(ValueError):
            value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**64:
        return value
    raise OtlpDecodeError(f"In the JSON {name} must be a whole number of 64 bits")


def _hex(item: Json, name: str) -> bytes:
    try:
        return bytes.fromhex(_string(item, name))
    except ValueError:
        raise RejectedSpanError(f"a span has a {name} that is not hexadecimal") from None
