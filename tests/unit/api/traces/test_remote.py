"""Traces in stores elsewhere: what is sent on, what is asked, and what is made of the answers.

Jaeger is a real one in tests/integration/traces. Tempo cannot be had as a program here: what it answers is
played by a server that keeps what it was sent and reads the TraceQL that these tests expect.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.unit.api.traces.otlp_requests import attribute, body_json, body_protobuf, span_json
from tieline_api.traces import otlp_json, otlp_protobuf, remote
from tieline_api.traces.forwarder import Forwarder
from tieline_api.traces.origins import Origin, is_of, with_origin
from tieline_api.traces.otlp_batch import JSON, PROTOBUF, OtlpDecodeError, TooManySpansError
from tieline_api.traces.query import RunQuery
from tieline_api.traces.remote import RemoteStoreError, position
from tieline_api.traces.spans import Owner, Span
from tieline_api.traces.tempo import Tempo, query

OWNER = Owner(organisation="O1", project="P1", environment="E1")
ORIGIN = Origin(owner=OWNER, service="acme/orders-1")
FOREIGN = Origin(owner=Owner(organisation="O2", project="P1", environment="E1"), service="acme/orders-1")


def sent(*spans: dict[str, Any], origin: Origin = ORIGIN, content_type: str = JSON) -> bytes:
    body = body_json(*spans) if content_type == JSON else body_protobuf(*spans)
    return with_origin(content_type, body, origin)[0]


@pytest.mark.parametrize("content_type", [JSON, PROTOBUF])
def test_what_is_sent_on_tells_whose_it_is_whatever_the_pod_said(content_type: str) -> None:
    request = otlp_json.message(
        body_json(span_json(1, attributes=[attribute("tieline.organisation.id", "O9")]))
    )
    request["resourceSpans"][0]["resource"] = {
        "attributes": [
            attribute("tieline.organisation.id", "O9"),
            attribute("service.name", "Shop sync"),
            attribute("host.name", "h"),
        ]
    }
    body = orjson.dumps(request)
    if content_type == PROTOBUF:
        message = ExportTraceServiceRequest()
        resource = message.resource_spans.add()
        for pair in request["resourceSpans"][0]["resource"]["attributes"]:
            resource.resource.attributes.add(key=pair["key"]).value.string_value = pair["value"][
                "stringValue"
            ]
        resource.scope_spans.add().spans.add(
            trace_id=b"\1" * 16, span_id=b"\2" * 8, start_time_unix_nano=5, end_time_unix_nano=6
        )
        body = bytes(message.SerializeToString())
    changed, count = with_origin(content_type, body, ORIGIN)
    assert count == 1
    told: dict[str, str] = {}

    def admitted(resource: Any) -> bool:
        told.update(resource)
        return is_of(resource, "O1", "P1")

    parse: Any = (
        (lambda: otlp_json.parse(otlp_json.message(changed), admitted))
        if content_type == JSON
        else (lambda: otlp_protobuf.parse(otlp_protobuf.message(changed), admitted))
    )
    assert len(parse().spans) == 1
    assert told == {
        "service.name": "acme/orders-1",
        "tieline.organisation.id": "O1",
        "tieline.project.id": "P1",
        "tieline.environment.id": "E1",
        "tieline.service.name": "Shop sync",
        "host.name": "h",
    }


def test_what_cannot_be_read_is_not_sent_on() -> None:
    for content_type in (JSON, PROTOBUF):
        with pytest.raises(OtlpDecodeError):
            with_origin(content_type, b"{", ORIGIN)
    with pytest.raises(TooManySpansError):
        with_origin(JSON, body_json(*[span_json(number) for number in range(1, 10_002)]), ORIGIN)


class Receiver:
    """A server that takes OTLP, and answers what it is told to."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.headers: list[str] = []
        self.statuses: list[int] = []

    async def take(self, request: web.Request) -> web.Response:
        status = self.statuses.pop(0) if self.statuses else 200
        self.headers.append(request.headers.get("X-Scope-OrgID", ""))
        body = await request.read()
        if status == 200:
            self.bodies.append(body)
        return web.Response(status=status)


@pytest.fixture
async def receiver() -> AsyncIterator[tuple[Receiver, str]]:
    held = Receiver()
    app = web.Application(client_max_size=2**26)
    app.router.add_post("/v1/traces", held.take)
    async with TestServer(app) as server:
        yield held, str(server.make_url("/v1/traces"))


async def test_what_is_away_gets_it_later_and_what_refuses_does_not(receiver: tuple[Receiver, str]) -> None:
    held, url = receiver
    held.statuses = [503, 200, 400]
    forwarder = Forwarder(url, headers=lambda: {"X-Scope-OrgID": "tenant"})
    forwarder.start()
    for number in (1, 2, 3):
        assert forwarder.offer(JSON, b"%d" % number, number)
    await forwarder.stop()
    assert held.bodies == [b"1", b"3"]
    assert (forwarder.written, forwarder.dropped["refused"], forwarder.queued) == (4, 2, 0)
    assert set(held.headers) == {"tenant"}


async def test_too_much_is_dropped_and_counted_and_nobody_waits() -> None:
    forwarder = Forwarder("http://127.0.0.1:1/", max_bytes=10)
    assert forwarder.offer(JSON, b"x" * 10, 2)
    assert not forwarder.offer(JSON, b"x", 1)
    assert forwarder.dropped == {"queue_full": 1}
    forwarder.start()
    await forwarder.stop(0.2)
    assert forwarder.dropped["stopped"] == 2


class TempoPlayed:
    """Keeps what it is sent, finds by service name alone, and gives traces as Tempo does."""

    def __init__(self) -> None:
        self.spans: dict[str, list[bytes]] = {}
        self.queries: list[dict[str, str]] = []
        self.status = 200

    def keep(self, *spans: dict[str, Any], origin: Origin = ORIGIN) -> None:
        for span in spans:
            self.spans.setdefault(span["traceId"], []).append(
                sent(span, origin=origin, content_type=PROTOBUF)
            )

    async def search(self, request: web.Request) -> web.Response:
        self.queries.append(dict(request.query))
        end, limit = int(request.query["end"]), int(request.query["limit"])
        service = re.search(r'resource.service.name = "([^"]*)"', request.query["q"])
        assert service is not None
        found = [
            (span.start, trace_id)
            for trace_id, bodies in self.spans.items()
            for span in self._parsed(bodies)[:1]
            if span.service == service[1] and span.start <= end * 10**9
        ]
        newest = sorted(found, reverse=True)[:limit]
        # Tempo leaves out leading zeros.
        body = {"traces": [{"traceID": i.lstrip("0"), "startTimeUnixNano": str(at)} for at, i in newest]}
        return web.json_response(body, status=self.status)

    async def trace(self, request: web.Request) -> web.Response:
        assert request.headers["Accept"] == "application/protobuf"
        bodies = self.spans.get(request.match_info["id"])
        if bodies is None:
            return web.Response(status=404)
        return web.Response(body=b"".join(bodies), content_type="application/protobuf")

    @staticmethod
    def _parsed(bodies: list[bytes]) -> list[Span]:
        return otlp_protobuf.parse(otlp_protobuf.message(b"".join(bodies))).spans


@pytest.fixture
async def played() -> AsyncIterator[tuple[TempoPlayed, Tempo]]:
    held = TempoPlayed()
    app = web.Application()
    app.router.add_get("/api/search", held.search)
    app.router.add_get("/api/traces/{id}", held.trace)
    async with TestServer(app) as server, aiohttp.ClientSession() as client:
        yield held, Tempo(str(server.make_url("/")), client)


async def every_page(source: Any, wanted: RunQuery) -> list[Span]:
    found: list[Span] = []
    for _ in range(50):
        page = await remote.runs(source, ORIGIN, wanted)
        found += page.entries
        if page.last is None:
            return found
        wanted = RunQuery(first=wanted.first, start=wanted.start, task=wanted.task, beyond=page.last)
    raise AssertionError("The pages never end")


async def test_pages_of_runs_in_tempo_hold_each_once(played: tuple[TempoPlayed, Tempo]) -> None:
    held, tempo = played
    # All of them begin in one second, which is as exact as Tempo's search is.
    held.keep(*[span_json(number) for number in range(1, 26)])
    held.keep(*[span_json(number) for number in range(30, 40)], origin=FOREIGN)
    found = await every_page(tempo, RunQuery(first=10, start=0))
    assert [int.from_bytes(span.span_id) for span in found] == list(range(25, 0, -1))
    assert len({position(span) for span in found}) == 25


async def test_a_trace_in_tempo_shows_the_projects_own_spans_alone(played: tuple[TempoPlayed, Tempo]) -> None:
    held, tempo = played
    run = span_json(1)
    held.keep(run)
    held.keep(span_json(2, traceId=run["traceId"]), origin=FOREIGN)
    identifier = bytes.fromhex(run["traceId"])
    (mine,) = await remote.trace(tempo, "O1", "P1", identifier)
    assert mine.span_id.hex() == run["spanId"]
    assert not [key for key in mine.attributes if key.startswith("tieline.")]
    assert await remote.trace(tempo, "O3", "P1", identifier) == []
    assert await remote.trace(tempo, "O1", "P1", b"\7" * 16) == []


async def test_every_filter_holds_whatever_the_store_finds(played: tuple[TempoPlayed, Tempo]) -> None:
    held, tempo = played
    good = span_json(1, attributes=[attribute("task", "orders"), attribute("executionId", "X1")])
    bad = span_json(2, status={"code": 2}, attributes=[attribute("task", "stock")])
    coped_with = span_json(
        3, traceId=good["traceId"], parentSpanId=good["spanId"], kind=3, status={"code": 2}
    )
    held.keep(good, coped_with, bad)

    async def numbers(**wanted: Any) -> list[int]:
        page = await remote.runs(tempo, ORIGIN, RunQuery(first=10, start=wanted.pop("start", 0), **wanted))
        return [int.from_bytes(span.span_id) for span in page.entries]

    assert await numbers() == [2, 1]
    assert await numbers(error=True) == [2]
    assert await numbers(error=False) == [1]
    assert await numbers(task="orders") == [1]
    assert await numbers(filter=[("executionId", "X1")]) == [1]
    assert await numbers(filter=[("executionId", "X2")]) == []
    assert await numbers(filter=[("task", "stock")], error=True) == [2]
    assert await numbers(end=int(good["startTimeUnixNano"])) == []


def test_traceql_is_written_so_that_nothing_breaks_out_of_it() -> None:
    wanted = RunQuery(first=1, filter=[('a"} || {', 'x"'), ("n", "5")])
    assert query("acme/orders", wanted) == (
        '{ resource.service.name = "acme/orders" } && { ."a\\"} || {" = "x\\"" } && { ."n" = "5" || ."n" = 5 }'
    )


async def test_a_store_that_fails_is_told_as_such(played: tuple[TempoPlayed, Tempo]) -> None:
    held, tempo = played
    held.status = 500
    with pytest.raises(RemoteStoreError, match="Tempo answered 500"):
        await remote.runs(tempo, ORIGIN, RunQuery(first=1))
    async with aiohttp.ClientSession() as client:
        with pytest.raises(RemoteStoreError, match="cannot be reached"):
            await asyncio.wait_for(
                remote.trace(Tempo("http://127.0.0.1:1", client), "O1", "P1", b"\1" * 16), 10
            )
