"""What exporters send is read alike in protobuf and JSON, within limits, and never ends in an exception."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from tests.unit.api.traces.otlp_requests import (
    NOW,
    attribute,
    body_json,
    body_protobuf,
    request_json,
    span_json,
)
from tieline_api.traces import otlp
from tieline_api.traces.otlp_batch import JSON, MAX_SPANS, PROTOBUF, OtlpDecodeError, TooManySpansError
from tieline_api.traces.spans import MAX_ATTRIBUTES, MAX_ATTRIBUTES_SIZE, MAX_NAME, MAX_VALUE

_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_int64 = st.integers(-(2**63), 2**63 - 1)
_values: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.builds(lambda text: {"stringValue": text}, _texts),
        st.builds(lambda flag: {"boolValue": flag}, st.booleans()),
        st.builds(lambda number: {"intValue": str(number)}, _int64),
        st.builds(lambda number: {"doubleValue": number}, st.floats(allow_nan=False, allow_infinity=False)),
    ),
    lambda inner: st.one_of(
        st.builds(lambda items: {"arrayValue": {"values": items}}, st.lists(inner, max_size=3)),
        st.builds(
            lambda items: {
                "kvlistValue": {"values": [{"key": key, "value": item} for key, item in items.items()]}
            },
            st.dictionaries(_texts, inner, max_size=3),
        ),
    ),
    max_leaves=6,
)
_spans = st.builds(
    lambda trace, span, parent, start, length, kind, status, flags, attributes, name: {
        "traceId": trace.hex(),
        "spanId": span.hex(),
        "parentSpanId": parent.hex(),
        "name": name,
        "kind": kind,
        "flags": flags,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + length),
        "status": {"code": status, "message": name},
        "attributes": [{"key": key, "value": value} for key, value in attributes.items()],
        "events": [{"name": "exception", "attributes": [attribute("exception.type", name)]}],
    },
    st.binary(min_size=16, max_size=16),
    st.binary(min_size=8, max_size=8),
    st.sampled_from([b"", bytes(8), b"12345678"]),
    st.integers(0, 2**63 - 10),
    st.integers(0, 9),
    st.integers(0, 5),
    st.integers(0, 2),
    st.sampled_from([0, 1, 0x100, 0x300, 0x301]),
    st.dictionaries(_texts, _values, max_size=4),
    _texts,
)


@settings(max_examples=150)
@given(st.lists(_spans, max_size=3))
def test_protobuf_and_json_say_the_same(spans: list[dict[str, Any]]) -> None:
    from_json = otlp.parse(JSON, body_json(*spans))
    from_protobuf = otlp.parse(PROTOBUF, body_protobuf(*spans))
    assert from_json == from_protobuf
    assert len(from_json.spans) + from_json.rejected == len(spans)


@settings(max_examples=300)
@given(st.binary(max_size=200))
def test_no_bytes_end_in_an_unforeseen_error(body: bytes) -> None:
    for content_type in otlp.CONTENT_TYPES:
        try:
            otlp.parse(content_type, body)
        except OtlpDecodeError:
            continue


_NAMES = ["resourceSpans", "resource", "scopeSpans", "spans"]
_NAMES += ["attributes", "key", "value", "intValue", "arrayValue", "values", "kvlistValue", "doubleValue"]
_NAMES += ["bytesValue", "status", "code", "events", "name", "traceId", "spanId", "startTimeUnixNano", "kind"]
_anything: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _texts,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "resourceSpans",
                    "resource",
                    "scopeSpans",
                    "spans",
                    "attributes",
                    "key",
                    "value",
                    "intValue",
                    "arrayValue",
                    "values",
                    "kvlistValue",
                    "doubleValue",
                    "bytesValue",
                    "status",
                    "code",
                    "events",
                    "name",
                    "traceId",
                    "spanId",
                    "startTimeUnixNano",
                    "kind",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@settings(max_examples=300)
@given(_anything)
def test_no_json_ends_in_an_unforeseen_error(value: Any) -> None:
    wrapped = {"resourceSpans": [{"scopeSpans": [{"spans": [value]}]}]}
    in_attribute = request_json(span_json(attributes=[{"key": "k", "value": {"arrayValue": value}}]))
    for request in (value, wrapped, in_attribute):
        try:
            otlp.parse(JSON, json.dumps(request).encode())
        except OtlpDecodeError:
            continue


def test_values_of_every_kind_become_text() -> None:
    kinds = {
        "text": ({"stringValue": "a"}, "a"),
        "flag": ({"boolValue": True}, "true"),
        "number": ({"intValue": "42"}, "42"),
        "small number": ({"intValue": 42}, "42"),
        "share": ({"doubleValue": 0.5}, "0.5"),
        "list": ({"arrayValue": {"values": [{"stringValue": "a"}, {"intValue": 1}]}}, '["a",1]'),
        "bytes": ({"bytesValue": "AAE="}, "AAE="),
        "nothing": ({}, ""),
    }
    item = span_json(attributes=[{"key": key, "value": value} for key, (value, _) in kinds.items()])
    for batch in (otlp.parse(JSON, body_json(item)), otlp.parse(PROTOBUF, body_protobuf(item))):
        assert batch.spans[0].attributes == {key: text for key, (_, text) in kinds.items()}


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"traceId": "00" * 16}, "trace id"),
        ({"traceId": "01"}, "trace id"),
        ({"traceId": "zz" * 16}, "hexadecimal"),
        ({"spanId": "00" * 8}, "span id"),
        ({"parentSpanId": "01"}, "parent id"),
        ({"startTimeUnixNano": "0"}, "time"),
        ({"startTimeUnixNano": str(2**63)}, "time"),
    ],
)
def test_a_span_that_makes_no_sense_is_told_and_the_others_are_taken(
    fields: dict[str, Any], why: str
) -> None:
    batch = otlp.parse(JSON, body_json(span_json(1), span_json(2, **fields)))
    assert [span.span_id for span in batch.spans] == [(1).to_bytes(8, "big")]
    assert batch.rejected == 1
    assert why in batch.reason
    told = json.loads(otlp.answer(JSON, batch))
    assert told == {"partialSuccess": {"rejectedSpans": "1", "errorMessage": batch.reason}}
    response = ExportTraceServiceResponse.FromString(otlp.answer(PROTOBUF, batch))
    assert response.partial_success.rejected_spans == 1


def test_what_is_too_long_is_cut() -> None:
    many = [attribute(f"k{number}", "v") for number in range(MAX_ATTRIBUTES + 10)]
    item = span_json(name="n" * 1000, attributes=[attribute("long", "v" * 10_000), *many])
    span = otlp.parse(JSON, body_json(item)).spans[0]
    assert len(span.name) == MAX_NAME
    assert len(span.attributes["long"]) == MAX_VALUE
    assert len(span.attributes) == MAX_ATTRIBUTES
    item = span_json(attributes=[attribute(f"k{number}", "v" * MAX_VALUE) for number in range(50)])
    assert otlp.parse(JSON, body_json(item)).spans[0].size <= 2 * MAX_ATTRIBUTES_SIZE


def test_values_nested_too_deep_are_cut() -> None:
    value: dict[str, Any] = {"stringValue": "core"}
    for _ in range(20):
        value = {"arrayValue": {"values": [value]}}
    item = span_json(attributes=[{"key": "deep", "value": value}])
    for batch in (otlp.parse(JSON, body_json(item)), otlp.parse(PROTOBUF, body_protobuf(item))):
        assert "core" not in batch.spans[0].attributes["deep"]


def test_too_many_spans_in_one_request_are_refused() -> None:
    request = request_json(*[span_json(1)] * (MAX_SPANS + 1))
    with pytest.raises(TooManySpansError, match="at most"):
        otlp.parse(JSON, json.dumps(request).encode())


def test_a_run_begins_where_the_parent_is_elsewhere() -> None:
    child = {"parentSpanId": "0123456789abcdef", "kind": 3}
    cases = [
        ({"kind": 1}, True),
        ({**child, "kind": 2}, True),
        ({**child, "kind": 5}, True),
        (child, False),
        ({**child, "flags": 0x300}, True),
        ({**child, "flags": 0x100}, False),
    ]
    for fields, expected in cases:
        assert otlp.parse(JSON, body_json(span_json(**fields))).spans[0].entry is expected, fields


def test_attributes_with_a_meaning_and_those_of_the_resource_are_kept() -> None:
    item = span_json(attributes=[attribute("task", "orders"), attribute("executionId", "01J")])
    item["endTimeUnixNano"] = str(NOW - 5)
    request = request_json(item)
    request["resourceSpans"][0]["resource"]["attributes"].append(attribute("host.name", "pod-1"))
    span = otlp.parse(JSON, json.dumps(request).encode()).spans[0]
    assert (span.task, span.execution_id, span.service) == ("orders", "01J", "Shop sync")
    assert span.attributes == {"host.name": "pod-1", "task": "orders", "executionId": "01J"}
    assert span.end == span.start, "a span never ends before it begins"
