"""``python -m bench.traces [SPANS]``: traces in and out, beside what SQLite alone does with such rows.

Needs no cluster. The number of spans is 1,000,000 unless given; what was done is in the table.
"""

import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from bench.figures import percentile, table
from tieline_api.traces import otlp
from tieline_api.traces.otlp_batch import PROTOBUF
from tieline_api.traces.query import RunQuery
from tieline_api.traces.spans import Owner
from tieline_api.traces.store import Limits, TraceStore

SPANS = 1_000_000
PER_TRACE = 5
PER_REQUEST = 500
_BATCH = 512
_CHUNK = 50_000
_FLOOR = 200_000
_READS = 50
_BEGAN = 1_763_719_200_000_000_000
OWNER = Owner(organisation="organisation", project="project", environment="environment")


def request(number: int) -> bytes:
    """An export request as a pod sends it: runs of one trigger and four parts, six attributes each."""
    message = ExportTraceServiceRequest()
    resource_spans = message.resource_spans.add()
    resource_spans.resource.attributes.add(key="service.name").value.string_value = "Shop sync"
    scope_spans = resource_spans.scope_spans.add()
    for index in range(number, number + PER_REQUEST):
        trace, part = divmod(index, PER_TRACE)
        # Ids are spread as random ones are.
        span = scope_spans.spans.add(
            trace_id=((trace + 1) * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128).to_bytes(16, "big"),
            span_id=((index + 1) * 0x9E3779B97F4A7C15 % 2**64).to_bytes(8, "big"),
            name="orders",
            kind=1 if part else 2,
            start_time_unix_nano=_BEGAN + index * 1000,
            end_time_unix_nano=_BEGAN + index * 1000 + 5_000_000,
        )
        if part:
            span.parent_span_id = ((trace * PER_TRACE + 1) * 0x9E3779B97F4A7C15 % 2**64).to_bytes(8, "big")
        for key, value in (
            ("executionId", f"01JD3YEKHB{trace:016d}"),
            ("task", f"task {trace % 20}"),
            ("http.request.method", "POST"),
            ("url.full", "https://api.shop.example/orders?***"),
            ("connection", "01JD3YEKHBZX9KQW8T2V4N6P0J"),
            ("http.response.status_code", "200" if trace % 1000 else "500"),
        ):
            span.attributes.add(key=key).value.string_value = value
    return message.SerializeToString()


def floor(folder: Path) -> float:
    """Spans a second that SQLite alone takes: the same size of row, one key, batches of 512, no index."""
    connection = sqlite3.connect(folder / "floor.db", isolation_level=None)
    connection.execute("pragma journal_mode = wal")
    connection.execute("pragma synchronous = normal")
    connection.execute("create table spans (id integer primary key, start integer, content text)")
    rows = [(_BEGAN + number, "x" * 420) for number in range(_BATCH)]
    began = time.perf_counter()
    for _ in range(_FLOOR // _BATCH):
        connection.execute("begin")
        connection.executemany("insert into spans (start, content) values (?, ?)", rows)
        connection.execute("commit")
    elapsed = time.perf_counter() - began
    connection.close()
    return _FLOOR // _BATCH * _BATCH / elapsed


def take_in(store: TraceStore, spans: int) -> float:
    """Spans a second from protobuf to disk; the requests are made while nothing is measured."""
    elapsed = 0.0
    for number in range(0, spans, _CHUNK):
        bodies = [request(first) for first in range(number, min(number + _CHUNK, spans), PER_REQUEST)]
        began = time.perf_counter()
        for body in bodies:
            batch = otlp.parse(PROTOBUF, body)
            while not store.offer(OWNER, batch.spans):
                time.sleep(0.005)
        store.flush(seconds=60)
        elapsed += time.perf_counter() - began
    return spans / elapsed


def read(ask: Callable[[], object]) -> list[str]:
    """p50 and p99 in milliseconds."""
    samples = []
    for _ in range(_READS):
        began = time.perf_counter()
        ask()
        samples.append(time.perf_counter() - began)
    return [f"{percentile(samples, share) * 1000:.2f}" for share in (0.5, 0.99)]


def main(spans: int) -> None:
    """Measures and prints."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bare = floor(folder)
        store = TraceStore(folder / "traces.db", Limits(max_bytes=8 * 1024**3, read_seconds=60))
        store.start()
        taken = take_in(store, spans)
        assert store.written == spans, store.written
        size = (folder / "traces.db").stat().st_size
        rows = [
            ["SQLite alone, same bytes, no index", f"{bare:,.0f}", "100 %"],
            ["protobuf to disk, all indexes", f"{taken:,.0f}", f"{taken / bare:.0%}"],
        ]
        print(table(f"Traces in: {spans:,} spans, {size / spans:.0f} bytes each", ["", "spans/s", ""], rows))
        found = store.runs(OWNER, RunQuery(first=100)).entries[0]
        questions: list[tuple[str, Callable[[], object]]] = [
            ("get one trace", lambda: store.trace("organisation", "project", found.trace_id)),
            ("first 100 runs", lambda: store.runs(OWNER, RunQuery(first=100))),
            ("100 runs of a task", lambda: store.runs(OWNER, RunQuery(first=100, task="task 7"))),
            ("one executionId", lambda: store.runs(OWNER, execution(found.execution_id))),
            (
                "errors (there are none), 20,000 runs",
                lambda: store.runs(OWNER, RunQuery(first=100, error=True)),
            ),
            ("an attribute that 1 in 1,000 has", lambda: store.runs(OWNER, rare())),
        ]
        answers = [[what, *read(ask)] for what, ask in questions]
        print(table(f"Traces out, of {spans:,} spans", ["question", "p50 ms", "p99 ms"], answers))
        store.stop()


def execution(identifier: str) -> RunQuery:
    """The runs with this execution id."""
    return RunQuery(first=100, filter=(("executionId", identifier),))


def rare() -> RunQuery:
    """The first of the runs that few are."""
    return RunQuery(first=10, filter=(("http.response.status_code", "500"),))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else SPANS)
