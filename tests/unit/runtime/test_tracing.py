"""What the runtime tells of its runs: whole traces, no secrets, and never at a run's cost."""

import asyncio
import doctest
import threading
from collections.abc import AsyncIterator
from contextvars import copy_context
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from yarl import URL

from tests.harness.session.waiting import until
from tieline.configuration.snapshot import Connection
from tieline.http_client.session import Session, new_client
from tieline.telemetry import client_spans, trace_context
from tieline.telemetry.client_spans import shown
from tieline.telemetry.exporter import Exporter
from tieline.telemetry.otlp_json import encode
from tieline.telemetry.spans import Span, Tracer, current_span
from tieline.telemetry.trace_endpoint import Destination, destination
from tieline_api.traces import otlp
from tieline_api.traces import spans as core
from tieline_api.traces.otlp_batch import JSON

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@dataclass
class Collector:
    """Takes spans as the API does."""

    url: str = ""
    statuses: list[int] = field(default_factory=list)
    """What to answer next; 200 when there is nothing here."""
    spans: list[core.Span] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    async def take(self, request: web.Request) -> web.Response:
        self.headers.append(dict(request.headers))
        status = self.statuses.pop(0) if self.statuses else 200
        if status == 200:
            batch = otlp.parse(JSON, await request.read())
            assert not batch.rejected, batch.reason
            self.spans += batch.spans
        return web.Response(status=status)


@pytest.fixture
async def collector() -> AsyncIterator[Collector]:
    made = Collector()
    app = web.Application()
    app.router.add_post("/internal/v1/traces", made.take)
    async with TestServer(app) as server:
        made.url = str(server.make_url("/internal/v1/traces"))
        yield made


def connection(base_url: str) -> Connection:
    return Connection(id="C1", name="Shop", template="shop", base_url=base_url, credentials=())


def encoded(*spans: Span) -> list[core.Span]:
    body = encode(spans, resource={"service.name": "Shop sync"}, redact=lambda text: text)
    batch = otlp.parse(JSON, body)
    assert not batch.rejected, batch.reason
    return batch.spans


def test_a_run_is_one_trace_with_its_parts() -> None:
    ended: list[Span] = []
    tracer = Tracer(ended.append)
    with tracer.run("orders", execution_id="E1", task="orders", activation="A1") as run:
        assert current_span.get() is run
        with tracer.span("transform", attributes={"orders": 3}) as part:
            part.set(colour="red", share=0.5, good=True)
    assert current_span.get() is None
    inner, outer = encoded(*ended)
    assert inner.trace_id == outer.trace_id
    assert inner.parent_id == outer.span_id
    assert (outer.entry, inner.entry) == (True, False)
    assert (inner.task, inner.execution_id) == ("orders", "E1")
    assert inner.attributes == {
        "executionId": "E1",
        "task": "orders",
        "activation": "A1",
        "orders": "3",
        "colour": "red",
        "share": "0.5",
        "good": "true",
    }
    assert outer.start <= inner.start <= inner.end
    assert (outer.status, outer.service) == ("OK", "Shop sync")


def test_a_run_is_part_of_its_callers_trace() -> None:
    ended: list[Span] = []
    headers = {"traceparent": PARENT, "tracestate": "vendor=1"}
    with Tracer(ended.append).run("orders", execution_id="E1", task="orders", headers=headers) as run:
        told = trace_context.outgoing(run.context)
    span = encoded(*ended)[0]
    assert span.trace_id.hex() == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert span.parent_id.hex() == "00f067aa0ba902b7"
    assert span.entry, "it begins a run, though its parent is elsewhere"
    assert told == {
        "traceparent": f"00-{span.trace_id.hex()}-{span.span_id.hex()}-01",
        "tracestate": "vendor=1",
    }


@pytest.mark.parametrize(
    "parent",
    [
        "",
        "nonsense",
        PARENT.upper(),
        PARENT + "-more",
        PARENT.replace("00-4", "ff-4"),
        f"00-{'0' * 32}-00f067aa0ba902b7-01",
        f"00-4bf92f3577b34da6a3ce929d0e0e4736-{'0' * 16}-01",
    ],
)
def test_a_context_that_cannot_be_begins_a_new_trace(parent: str) -> None:
    assert trace_context.incoming({"traceparent": parent}) is None
    assert trace_context.incoming({"traceparent": PARENT.replace("00-4", "01-4") + "-more"}) is not None


def test_an_error_is_marked_with_its_reason() -> None:
    ended: list[Span] = []
    tracer = Tracer(ended.append)
    with pytest.raises(ValueError, match="no order"), tracer.span("parse"):
        raise ValueError("no order")
    span = encoded(*ended)[0]
    assert (span.status, span.message) == ("ERROR", "ValueError: no order")


def test_spans_in_threads_belong_to_their_run() -> None:
    ended: list[Span] = []
    tracer = Tracer(ended.append)

    def work() -> None:
        with tracer.span("in a thread"):
            pass

    with tracer.run("orders", execution_id="E1", task="orders"):
        thread = threading.Thread(target=copy_context().run, args=(work,))
        thread.start()
        thread.join()
    inner, outer = encoded(*ended)
    assert inner.parent_id == outer.span_id


def test_known_secrets_are_taken_out_wherever_authors_put_them() -> None:
    ended: list[Span] = []
    with Tracer(ended.append).span("call s3cr3t") as span:
        span.set(key="a s3cr3t here")
        span.fail("s3cr3t was refused")
    body = encode(ended, resource={"pod": "s3cr3t"}, redact=lambda text: text.replace("s3cr3t", "***"))
    assert b"s3cr3t" not in body
    assert b"a *** here" in body


def test_what_is_odd_is_encoded_all_the_same() -> None:
    ended: list[Span] = []
    with Tracer(ended.append).span("odd \ud800") as span:
        span.set(large=2**70, endless=float("inf"), long="x" * 5000, thing=object())  # type: ignore[arg-type]
        for number in range(100):
            span.update({f"k{number}": number})
    found = encoded(*ended)[0]
    assert found.attributes["large"] == str(2**70)
    assert len(found.attributes["long"]) == 2048
    assert len(found.attributes) == 64


async def test_an_outbound_request_has_a_span_and_passes_the_context_on() -> None:
    seen: list[str] = []

    async def handle(request: web.Request) -> web.Response:
        seen.append(request.headers["traceparent"])
        return web.Response(status=404 if request.path == "/none" else 200)

    app = web.Application()
    app.router.add_get("/{path:.*}", handle)
    ended: list[Span] = []
    tracer = Tracer(ended.append)
    async with TestServer(app) as server, new_client() as client:
        base = str(server.make_url(""))
        shop = Session(client, lambda: connection(base), tracer)
        with tracer.run("orders", execution_id="E1", task="orders"):
            await shop.get("/orders?key=s3cr3t")
            await shop.get("/none")
    good, bad, run = encoded(*ended)
    assert seen[0] == f"00-{run.trace_id.hex()}-{good.span_id.hex()}-01"
    assert good.attributes["connection"] == "C1"
    assert good.attributes["url.full"] == f"{base}/orders?***"
    assert good.attributes["http.response.status_code"] == "200"
    assert (good.status, bad.status, run.status) == ("OK", "ERROR", "OK")
    with pytest.raises(aiohttp.ClientError):
        async with new_client() as client:
            await Session(client, lambda: connection("http://127.0.0.1:1"), tracer).get("/")
    error = ended[-1].error or ""
    assert error.startswith("ClientConnectorError: Cannot connect to host 127.0.0.1:1 [")
    assert ended[-1].attributes["exception.message"] == error.partition(": ")[2]


def test_urls_are_shown_without_what_may_be_secret() -> None:
    assert shown(URL("https://user:s3cr3t@a.example/b?c=s3cr3t#s3cr3t")) == "https://a.example/b?***"
    assert shown(URL("https://a.example/b")) == "https://a.example/b"
    assert doctest.testmod(client_spans).failed == doctest.testmod(trace_context).failed == 0


def test_where_spans_go(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("t0ken\n")
    api = destination({}, api_url="http://api", token_file=token)
    assert api is not None
    assert api.url == "http://api/internal/v1/traces"
    assert api.headers()["Authorization"] == "Bearer t0ken"
    own = destination(
        {
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318/",
            "OTEL_EXPORTER_OTLP_HEADERS": "x-key=a%20b, y=z",
        },
        api_url="http://api",
        token_file=token,
    )
    assert own is not None
    assert own.url == "http://collector:4318/v1/traces"
    assert own.headers()["x-key"] == "a b"
    assert "Authorization" not in own.headers(), "the pod's token is for the API alone"
    assert destination({}, api_url=None, token_file=token) is None


async def test_spans_are_sent_in_the_background_and_what_is_left_at_the_end(
    collector: Collector, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("t0ken")
    exporter = Exporter(
        Destination(url=collector.url, token_file=token), resource={"service.name": "s"}, interval=0.01
    )
    tracer = Tracer(exporter.take)
    with tracer.span("one"):
        pass
    task = asyncio.create_task(exporter.run())
    await until(lambda: bool(exporter.sent))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    with tracer.span("two"):
        pass
    await exporter.flush()
    assert [span.name for span in collector.spans] == ["one", "two"]
    assert collector.headers[0]["Authorization"] == "Bearer t0ken"
    assert collector.headers[0]["Content-Encoding"] == "gzip"
    assert (exporter.sent, exporter.dropped) == (2, 0)


def span() -> Span:
    ended: list[Span] = []
    with Tracer(ended.append).span("one"):
        pass
    return ended[0]


async def test_a_full_batch_is_sent_at_once_and_the_rest_with_the_next(collector: Collector) -> None:
    exporter = Exporter(Destination(url=collector.url), resource={}, interval=60, longest_queue=600)
    task = asyncio.create_task(exporter.run())
    await asyncio.sleep(0)
    for _ in range(515):
        exporter.take(span())
    await until(lambda: exporter.sent == 512)
    for _ in range(509):
        exporter.take(span())
    await until(lambda: exporter.sent == 1024)
    task.cancel()
    assert (len(collector.spans), exporter.dropped) == (1024, 0)


async def test_spans_wait_while_the_destination_is_away_and_what_it_refuses_is_counted(
    collector: Collector,
) -> None:
    collector.statuses = [503, 429, 200, 400]
    exporter = Exporter(Destination(url=collector.url), resource={}, interval=0.01)
    tracer = Tracer(exporter.take)
    with tracer.span("one"):
        pass
    task = asyncio.create_task(exporter.run())
    await until(lambda: bool(exporter.sent))
    with tracer.span("refused"):
        pass
    await until(lambda: bool(exporter.dropped))
    task.cancel()
    assert (exporter.sent, exporter.dropped) == (1, 1)


async def test_what_finds_no_room_is_counted_and_nobody_waits() -> None:
    exporter = Exporter(Destination(url="http://127.0.0.1:1/"), resource={}, longest_queue=10)
    tracer = Tracer(exporter.take)
    for _ in range(25):
        with tracer.span("one"):
            pass
    assert exporter.dropped == 15
    await exporter.flush(seconds=1)
    assert exporter.dropped == 25
    nowhere = Exporter(None, resource={})
    with Tracer(nowhere.take).span("one"):
        pass
    await nowhere.run()
    await nowhere.flush()
    assert nowhere.dropped == 0


async def test_a_token_that_cannot_be_read_costs_no_run(tmp_path: Path) -> None:
    exporter = Exporter(Destination(url="http://127.0.0.1:1/", token_file=tmp_path / "none"), resource={})
    with Tracer(exporter.take).span("one"):
        pass
    await exporter.flush(seconds=1)
    assert exporter.dropped == 1


def test_what_a_run_tells_all_its_spans_have_from_then_on() -> None:
    ended: list[Span] = []
    tracer = Tracer(ended.append)
    with tracer.run("orders", execution_id="E1", task="orders") as run:
        with tracer.span("before"):
            pass
        run.tell(activation="A1")
        with tracer.span("after"):
            pass
    before, after, outer = ended
    assert "activation" not in before.attributes
    assert after.attributes == outer.attributes == {"executionId": "E1", "task": "orders", "activation": "A1"}
