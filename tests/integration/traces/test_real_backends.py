"""A real OpenTelemetry Collector and a real Jaeger, with what the platform sends them and asks of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.harness.processes import engine_away
from tests.harness.processes.ports import free_ports
from tests.harness.processes.trace_stores import Jaeger, running_collector, running_jaeger
from tests.harness.session.uncaptured_progress import UncapturedProgress
from tests.harness.session.waiting import eventually, eventually_async, until
from tests.unit.api.traces.otlp_requests import attribute, body_json, body_protobuf, span_json
from tieline_api.engine.connection import Engine
from tieline_api.traces.backends import Traces, make_traces
from tieline_api.traces.origins import Origin
from tieline_api.traces.otlp_batch import JSON, PROTOBUF
from tieline_api.traces.query import Page, RunQuery
from tieline_api.traces.spans import Owner
from tieline_core.identity.ids import new_id

CODE = """
from tieline import Context, Integration, Request

integration = Integration()

@integration.webhook("orders")
async def orders(ctx: Context, request: Request) -> dict:
    with ctx.trace("parse", rows=3):
        pass
    response = await ctx.fetch("shop", "/orders")
    return {"status": response.status}
"""
KEY = "s3cr3t-of-the-shop"


class Sink(ThreadingHTTPServer):
    """Keeps what is posted to it, and answers 200 with an empty object."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.bodies: list[bytes] = []
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.server.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))  # type: ignore[attr-defined]
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: Any) -> None:
        """Quiet."""


@pytest.fixture
def progress(request: pytest.FixtureRequest) -> UncapturedProgress:
    return UncapturedProgress(request.config.pluginmanager.getplugin("capturemanager"))


@pytest.fixture
def collected(tmp_path: Path, progress: UncapturedProgress) -> Iterator[tuple[str, Sink]]:
    """A Collector's base URL, and where it sends what it has received."""
    sink = Sink()
    with running_collector(tmp_path, progress, sends_to=sink.url) as url:
        yield url, sink
    sink.shutdown()
    sink.server_close()


def test_a_collector_of_ones_own_receives_a_run_with_its_requests_and_no_secret(
    collected: tuple[str, Sink], tmp_path: Path
) -> None:
    collector, sink = collected
    (tmp_path / "main.py").write_text(CODE)
    connection = {
        "id": "C1",
        "name": "Shop",
        "baseUrl": sink.url,
        "credentials": [
            {
                "id": "k",
                "type": "string",
                "authScheme": {"id": "k", "type": "api-key", "apiKey": {"name": "key", "in": "query"}},
                "data": {"value": KEY},
            }
        ],
    }
    (tmp_path / "connections.json").write_text(
        json.dumps(
            {
                "connections": {"shop": connection},
                "templates": {"shop": {"id": "1", "dynamic": False, "linked": True}},
            }
        )
    )
    port, health = free_ports(2)
    environment = {
        **os.environ,
        "TIELINE_CODE_DIR": str(tmp_path),
        "TIELINE_CONNECTIONS_FILE": str(tmp_path / "connections.json"),
        "TIELINE_HOST": "127.0.0.1",
        "TIELINE_PORT": str(port),
        "TIELINE_HEALTH_PORT": str(health),
        "TIELINE_DRAIN_SECONDS": "0",
        "TIELINE_PROJECT_NAME": "Shop sync",
        "TIELINE_TERMINATION_LOG": str(tmp_path / "termination"),
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector,
    }
    with subprocess.Popen([sys.executable, "-m", "tieline.server"], env=environment) as server:
        try:
            eventually("ready", lambda: _status(f"http://127.0.0.1:{health}/readyz") == 200)
            assert _status(f"http://127.0.0.1:{port}/orders", b"{}") == 200
        finally:
            server.terminate()
            server.wait(20)
    eventually("three spans", lambda: len(_spans(sink)) >= 3)
    spans = {span["name"]: span for span in _spans(sink)}
    assert set(spans) == {"orders", "parse", "GET"}
    assert len({span["traceId"] for span in spans.values()}) == 1
    assert spans["GET"]["parentSpanId"] == spans["orders"]["spanId"]
    for span in spans.values():
        assert {"executionId", "task"} <= {pair["key"] for pair in span["attributes"]}
    assert KEY.encode() not in b"".join(sink.bodies)


@pytest.fixture
def jaeger(tmp_path: Path, progress: UncapturedProgress) -> Iterator[Jaeger]:
    with running_jaeger(tmp_path, progress) as running:
        yield running


async def test_jaeger_as_the_store_answers_as_the_embedded_one_does(jaeger: Jaeger) -> None:
    traces = make_traces(
        engine_away.api_settings(
            traces_store="jaeger",
            traces_otlp_url=f"{jaeger.otlp}/v1/traces",
            traces_query_url=jaeger.query,
        ),
        Engine((engine_away.URL,), Path("none")),
        lambda _: True,
    )
    await traces.start()
    try:
        await _both_tenants(traces)
    finally:
        await traces.stop()


async def _both_tenants(traces: Traces) -> None:
    mine, other = (
        Origin(
            owner=Owner(organisation=new_id(), project=new_id(), environment=new_id()),
            service=f"{namespace}/orders-production",
        )
        for namespace in ("acme", "other")
    )
    begin = (time.time_ns() // 1000 - 10 * 10**6) * 1000  # Jaeger lists in microseconds.
    runs = [_run(number, begin + number * 10**6) for number in range(1, 26)]
    runs[24]["status"] = {"code": 2, "message": "ValueError"}
    # Run 24 has coped with it.
    inner = {
        **_run(100, begin + 24 * 10**6 + 10),
        "traceId": runs[23]["traceId"],
        "parentSpanId": runs[23]["spanId"],
        "kind": 3,
        "name": "GET",
        "status": {"code": 2, "message": "500"},
    }
    assert await traces.take(mine, JSON, body_json(*runs)) is not None
    assert await traces.take(mine, PROTOBUF, body_protobuf(inner)) is not None
    assert await traces.take(other, JSON, body_json(_run(200, begin + 10**6))) is not None
    await until(lambda: not traces.counts.queued)

    async def page(origin: Origin = mine, **wanted: Any) -> Page:
        return await traces.runs(origin, RunQuery(**{"first": 100, **wanted}))

    async def numbers(**wanted: Any) -> list[int]:
        return [int.from_bytes(span.span_id) for span in (await page(**wanted)).entries]

    async def stored() -> bool:
        return len(await numbers()) == 25

    await eventually_async("all runs stored", stored)
    assert await numbers() == list(range(25, 0, -1)), "the newest comes first"
    assert await numbers(error=True) == [25]
    assert await numbers(error=False) == list(range(24, 0, -1))
    assert await numbers(task="orders-7") == [7]
    assert await numbers(filter=[("executionId", "X9")]) == [9]
    assert await numbers(start=begin + 20 * 10**6, end=begin + 23 * 10**6) == [22, 21, 20]

    found, beyond = [], None
    for _ in range(10):
        one = await page(first=10, beyond=beyond)
        found += [int.from_bytes(span.span_id) for span in one.entries]
        if (beyond := one.last) is None:
            break
    assert found == list(range(25, 0, -1)), "no run twice, none left out"

    identifier = bytes.fromhex(runs[23]["traceId"])
    spans = await traces.trace(mine.owner.organisation, mine.owner.project, identifier)
    assert [(span.name, span.status) for span in spans] == [("orders", "UNSET"), ("GET", "ERROR")]
    assert {span.service for span in spans} == {"Shop sync"}
    assert await traces.trace(other.owner.organisation, other.owner.project, identifier) == []
    assert [int.from_bytes(span.span_id) for span in (await page(other)).entries] == [200]


def _run(number: int, start: int) -> dict[str, Any]:
    return {
        **span_json(
            number, attributes=[attribute("task", f"orders-{number}"), attribute("executionId", f"X{number}")]
        ),
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + 5000),
    }


def _spans(sink: Sink) -> list[dict[str, Any]]:
    return [
        span
        for body in list(sink.bodies)
        for resource in json.loads(body).get("resourceSpans", [])
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]


def _status(url: str, data: bytes | None = None) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data), timeout=10) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0
