"""OTLP/HTTP with protobuf bodies (opentelemetry-proto 1.x, ExportTraceServiceRequest)."""

import base64
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import orjson
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

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
    Span,
    make_resource,
    make_span,
)


def message(body: bytes) -> ExportTraceServiceRequest:
    """A request as it was sent; raises OtlpDecodeError."""
    request = ExportTraceServiceRequest()
    try:
        request.ParseFromString(body)
    except DecodeError:
        raise OtlpDecodeError("The body is no ExportTraceServiceRequest in protobuf") from None
    return request


def parse(request: ExportTraceServiceRequest, admitted: Admitted = everything) -> Batch:
    """The spans of a request, of the resources that are admitted; raises TooManySpansError."""
    batch = Batch()
    for resource_spans in request.resource_spans:
        resource = make_resource(_attributes(resource_spans.resource.attributes))
        if not admitted(resource):
            continue
        for scope_spans in resource_spans.scope_spans:
            batch.take(scope_spans.spans, partial(_span, resource=resource))
    return batch


def answer(batch: Batch) -> bytes:
    """The answer to a request: empty when all was taken."""
    response = ExportTraceServiceResponse()
    if batch.rejected:
        response.partial_success.rejected_spans = batch.rejected
        response.partial_success.error_message = batch.reason
    return bytes(response.SerializeToString())


def _span(message: Any, resource: dict[str, str]) -> Span:
    return make_span(
        trace_id=message.trace_id,
        span_id=message.span_id,
        parent_id=message.parent_span_id,
        name=message.name,
        kind=message.kind,
        flags=message.flags,
        start=message.start_time_unix_nano,
        end=message.end_time_unix_nano,
        status=message.status.code,
        message=message.status.message,
        attributes=_with_exception(message),
        resource=resource,
    )


def _with_exception(message: Any) -> Iterator[tuple[str, str]]:
    yield from _attributes(message.attributes)
    for event in message.events:
        if event.name == EXCEPTION:
            yield from _attributes(event.attributes)
            return


def _attributes(pairs: Iterable[Any]) -> Iterator[tuple[str, str]]:
    for number, pair in enumerate(pairs):
        if number == MAX_ATTRIBUTES:
            return
        yield pair.key[:MAX_KEY], _text(pair.value)[:MAX_VALUE]


def _text(value: Any) -> str:
    kind = value.WhichOneof("value")
    if kind == "string_value":
        return str(value.string_value)
    plain = _plain(value, MAX_DEPTH)
    if isinstance(plain, str):
        return plain
    return orjson.dumps(plain).decode()


def _plain(value: Any, depth: int) -> Any:
    if depth == 0:
        return TOO_DEEP
    match value.WhichOneof("value"):
        case "string_value":
            return value.string_value
        case "bool_value":
            return value.bool_value
        case "int_value":
            return value.int_value
        case "double_value":
            return value.double_value
        case "array_value":
            return [_plain(item, depth - 1) for item in value.array_value.values]
        case "kvlist_value":
            return {pair.key: _plain(pair.value, depth - 1) for pair in value.kvlist_value.values}
        case "bytes_value":
            return base64.b64encode(value.bytes_value).decode()
        case _:
            return ""
