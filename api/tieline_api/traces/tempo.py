"""Tempo as the store of traces: TraceQL for searching, and each trace in OTLP's protobuf."""

import asyncio
import json
import re

import orjson

from tieline_api.traces import otlp_protobuf
from tieline_api.traces.otlp_batch import OtlpDecodeError, TooManySpansError
from tieline_api.traces.query import RunQuery
from tieline_api.traces.remote import HttpSource, RemoteStoreError, window
from tieline_api.traces.spans import TRACE_ID_BYTES, Span

_AT_ONCE = 8
_MOST_ASKED = 5000
_SECOND = 10**9
_PLAIN = re.compile(r"-?\d{1,18}(?:\.\d{1,18})?|true|false")
_TRACE_ID = re.compile(r"[0-9a-fA-F]{1,32}")


class Tempo(HttpSource):
    """Asks Tempo 2 and later."""

    name = "Tempo"

    async def trace(self, trace_id: bytes) -> list[Span]:
        """All spans of a trace; raises RemoteStoreError."""
        body = await self._ask(f"/api/traces/{trace_id.hex()}", accept="application/protobuf")
        if body is None:
            return []
        try:
            # Tempo's Trace is an ExportTraceServiceRequest on the wire: field 1 holds the ResourceSpans.
            return otlp_protobuf.parse(otlp_protobuf.message(body)).spans
        except (OtlpDecodeError, TooManySpansError) as error:
            raise RemoteStoreError(f"Tempo's answer cannot be used: {error}") from None

    async def search(self, service: str, wanted: RunQuery, *, limit: int) -> list[list[Span]]:
        """Traces of a service that may be wanted; raises RemoteStoreError."""
        newest = wanted.beyond[0] if wanted.beyond is not None else None
        asked = limit
        while True:
            listed = _listed(await self._found(service, wanted, asked))
            # Tempo looks at whole seconds: what the page before had is in the answer again.
            further = [trace_id for start, trace_id in listed if newest is None or start <= newest]
            if len(further) >= limit or len(listed) < asked or asked >= _MOST_ASKED:
                break
            asked = min(asked * 4, _MOST_ASKED)
        gate = asyncio.Semaphore(_AT_ONCE)

        async def whole(trace_id: bytes) -> list[Span]:
            async with gate:
                return await self.trace(trace_id)

        return list(await asyncio.gather(*(whole(trace_id) for trace_id in further[:limit])))

    async def _found(self, service: str, wanted: RunQuery, limit: int) -> bytes | None:
        start, end = window(wanted, self._now())
        return await self._ask(
            "/api/search",
            {
                "q": query(service, wanted),
                "start": start // _SECOND,
                "end": end // _SECOND + 1,
                "limit": limit,
                "spss": 1,
            },
        )


def query(service: str, wanted: RunQuery) -> str:
    """TraceQL for the traces of a service that may be wanted.

    >>> query("acme/orders", RunQuery(first=1, task="sync", error=True))
    '{ resource.service.name = "acme/orders" && span."task" = "sync" } && { status = error }'
    """
    own = [f"resource.service.name = {_quoted(service)}"]
    if wanted.task is not None:
        own.append(f'span."task" = {_quoted(wanted.task)}')
    sets = [" && ".join(own)]
    if wanted.error:
        sets.append("status = error")
    sets += [_equals(key, value) for key, value in wanted.filter]
    return " && ".join(f"{{ {each} }}" for each in sets)


def _equals(key: str, value: str) -> str:
    """TraceQL tells numbers and booleans from texts; whoever asks here does not."""
    as_text = f".{_quoted(key)} = {_quoted(value)}"
    return f"{as_text} || .{_quoted(key)} = {value}" if _PLAIN.fullmatch(value) else as_text


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _listed(body: bytes | None) -> list[tuple[int, bytes]]:
    """Start and id of the traces that were found, the newest first."""
    try:
        found = orjson.loads(body) if body else {}
        listed = [
            (int(each.get("startTimeUnixNano") or 0), str(each["traceID"]))
            for each in found.get("traces") or []
        ]
    except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError, ValueError):
        raise RemoteStoreError("Tempo's answer is in no form that is known") from None
    # Tempo leaves out leading zeros.
    known = [
        (start, bytes.fromhex(text.zfill(TRACE_ID_BYTES * 2)))
        for start, text in listed
        if _TRACE_ID.fullmatch(text)
    ]
    return sorted(known, reverse=True)
