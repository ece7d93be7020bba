"""Jaeger as the store of traces: its HTTP API for searching (of Jaeger's own page), and /api/v3 for one trace."""

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from tieline_api.traces import otlp_json
from tieline_api.traces.otlp_batch import OtlpDecodeError, TooManySpansError
from tieline_api.traces.query import RunQuery
from tieline_api.traces.remote import HttpSource, RemoteStoreError, window
from tieline_api.traces.spans import SERVICE_NAME, RejectedSpanError, Span, make_resource, make_span

_KINDS = {"server": 2, "client": 3, "producer": 4, "consumer": 5}
Json = Mapping[str, Any]


class Jaeger(HttpSource):
    """Asks Jaeger 1.6x and later, and 2."""

    name = "Jaeger"

    async def trace(self, trace_id: bytes) -> list[Span]:
        """All spans of a trace; raises RemoteStoreError."""
        body = await self._ask(f"/api/v3/traces/{trace_id.hex()}")
        if body is None:
            return []
        try:
            answer = otlp_json.message(body)
            return otlp_json.parse(otlp_json.child(answer, "result")).spans
        except (OtlpDecodeError, TooManySpansError) as error:
            raise RemoteStoreError(f"Jaeger's answer cannot be used: {error}") from None

    async def search(self, service: str, wanted: RunQuery, *, limit: int) -> list[list[Span]]:
        """Traces of a service that may be wanted; raises RemoteStoreError."""
        start, end = window(wanted, self._now())
        tags = dict(wanted.filter)
        if wanted.task is not None:
            tags["task"] = wanted.task
        if wanted.error:
            tags["error"] = "true"
        body = await self._ask(
            "/api/traces",
            {
                "service": service,
                "start": start // 1000,
                "end": end // 1000 + 1,
                "limit": limit,
                "tags": orjson.dumps(tags).decode(),
            },
        )
        try:
            found = orjson.loads(body) if body else {}
            return [list(_spans(each)) for each in found.get("data") or []]
        except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError, ValueError):
            raise RemoteStoreError("Jaeger's answer is in no form that is known") from None


def _spans(trace: Json) -> Iterator[Span]:
    """Spans of Jaeger's own form: times in microseconds, kind and status among the tags."""
    processes = {
        key: {**_tags(process), SERVICE_NAME: str(process["serviceName"])}
        for key, process in trace["processes"].items()
    }
    for item in trace["spans"]:
        tags = dict(_tags(item))
        kind = _KINDS.get(tags.pop("span.kind", ""), 0)
        failed = tags.pop("error", "") == "true"
        code = 2 if failed or tags.get("otel.status_code") == "ERROR" else 0
        parents = [other for other in item.get("references") or [] if other.get("refType") == "CHILD_OF"]
        try:
            yield make_span(
                trace_id=bytes.fromhex(item["traceID"].zfill(32)),
                span_id=bytes.fromhex(item["spanID"].zfill(16)),
                parent_id=bytes.fromhex(parents[0]["spanID"].zfill(16)) if parents else b"",
                name=str(item["operationName"]),
                kind=kind,
                flags=0,
                start=int(item["startTime"]) * 1000,
                end=(int(item["startTime"]) + int(item["duration"])) * 1000,
                status=1 if tags.pop("otel.status_code", "") == "OK" else code,
                message=tags.pop("otel.status_description", ""),
                attributes=tags.items(),
                resource=make_resource(processes[item["processID"]].items()),
            )
        except RejectedSpanError:
            continue


def _tags(item: Json) -> dict[str, str]:
    values = ((str(tag["key"]), tag["value"]) for tag in item.get("tags") or [])
    return {key: value if isinstance(value, str) else orjson.dumps(value).decode() for key, value in values}
