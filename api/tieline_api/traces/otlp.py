"""OTLP/HTTP requests of either content type."""

from tieline_api.traces import otlp_json, otlp_protobuf
from tieline_api.traces.otlp_batch import JSON, PROTOBUF, Batch

CONTENT_TYPES = (PROTOBUF, JSON)


def parse(content_type: str, body: bytes) -> Batch:
    """The spans in ``body``, of one of CONTENT_TYPES; raises OtlpDecodeError and TooManySpansError."""
    if content_type == PROTOBUF:
        return otlp_protobuf.parse(otlp_protobuf.message(body))
    return otlp_json.parse(otlp_json.message(body))


def answer(content_type: str, batch: Batch) -> bytes:
    """What the exporter is answered, in the content type of its request."""
    return otlp_protobuf.answer(batch) if content_type == PROTOBUF else otlp_json.answer(batch)
