"""Prometheus metrics, in a registry of their own."""

from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import version

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from tieline_api.audit.log import AuditLog
from tieline_api.engine.connection import Engine
from tieline_api.traces.backends import SpanCounts
from tieline_core.kubernetes import Kube

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class _KubeRequests(Collector):
    """Calls to Kubernetes, as the port counts them."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube

    def collect(self) -> Iterable[CounterMetricFamily]:
        family = CounterMetricFamily(
            "tieline_api_kubernetes_requests", "Calls to Kubernetes", labels=["verb", "resource"]
        )
        for (verb, resource), count in self._kube.requests.items():
            family.add_metric([verb, resource], count)
        yield family


class _Spans(Collector):
    """Spans, as the store counts them."""

    def __init__(self, store: SpanCounts) -> None:
        self._store = store

    def collect(self) -> Iterable[CounterMetricFamily | GaugeMetricFamily]:
        yield CounterMetricFamily(
            "tieline_api_spans_written", "Spans that were stored", value=self._store.written
        )
        dropped = CounterMetricFamily(
            "tieline_api_spans_dropped", "Spans that could not be stored", labels=["reason"]
        )
        for reason, count in self._store.dropped.copy().items():
            dropped.add_metric([reason], count)
        yield dropped
        yield GaugeMetricFamily(
            "tieline_api_spans_queued", "Spans that wait to be stored", value=self._store.queued
        )


class _Audit(Collector):
    """Audit records of this replica."""

    def __init__(self, log: AuditLog) -> None:
        self._log = log

    def collect(self) -> Iterable[CounterMetricFamily | GaugeMetricFamily]:
        records = CounterMetricFamily(
            "tieline_api_audit_records",
            "Audit records: stored, dropped, limited (refusals beyond what is recorded), exported, not_exported",
            labels=["outcome"],
        )
        export = self._log.export
        exported = {"exported": export.exported, "not_exported": export.lost} if export else {}
        for outcome, count in {**self._log.counts, **exported}.items():
            records.add_metric([outcome], count)
        yield records
        yield GaugeMetricFamily(
            "tieline_api_audit_waiting", "Audit records that are not stored yet", value=self._log.waiting
        )


class _Engine(Collector):
    """The event engine, as this replica sees it."""

    def __init__(
        self, engine: Engine, records: Mapping[str, int], readers: Mapping[str, Callable[[], int]]
    ) -> None:
        self._engine = engine
        self._records = records
        self._readers = readers

    def collect(self) -> Iterable[CounterMetricFamily | GaugeMetricFamily]:
        engine = self._engine
        yield GaugeMetricFamily(
            "tieline_engine_connected", "Whether the event engine can be reached", value=int(engine.connected)
        )
        yield GaugeMetricFamily(
            "tieline_engine_storage_bytes",
            "What the run histories and spans take",
            value=engine.storage_bytes,
        )
        yield GaugeMetricFamily(
            "tieline_engine_storage_limit_bytes",
            "What run histories and spans may take together; 0 where the volume alone bounds them",
            value=engine.storage_limit_bytes,
        )
        records = CounterMetricFamily(
            "tieline_api_run_records",
            "Records of runs from the engine: read, or malformed; and failed attempts to keep some",
            labels=["outcome"],
        )
        for outcome, count in dict(self._records).items():
            records.add_metric([outcome], count)
        yield records
        stalled = GaugeMetricFamily(
            "tieline_api_stream_readers_stalled",
            "Streams of organisations that cannot be read further, by reader",
            labels=["reader"],
        )
        for reader, streams in self._readers.items():
            stalled.add_metric([reader], streams())
        yield stalled


class Metrics:
    """What the API counts."""

    def __init__(self, kube: Kube) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "tieline_api_requests", "Requests", ["operation", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "tieline_api_request_seconds",
            "Duration of requests",
            ["operation"],
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self.in_flight = Gauge("tieline_api_in_flight", "Requests being answered", registry=self._registry)
        self.silence = Gauge(
            "tieline_api_kubernetes_silence_seconds",
            "Seconds since Kubernetes was last heard from",
            registry=self._registry,
        )
        Gauge(
            "tieline_api_build_info",
            "Always 1; its label says which release this is",
            ["version"],
            registry=self._registry,
        ).labels(version("tieline")).set(1)
        self._registry.register(_KubeRequests(kube))

    def count(self, *, operation: str, status: int, seconds: float) -> None:
        """One request was answered."""
        self._requests.labels(operation, str(status)).inc()
        self._seconds.labels(operation).observe(seconds)

    def add_watchers(self, count: Callable[[], int]) -> None:
        """Export how many connections watch organisations."""
        gauge = Gauge(
            "tieline_api_watchers", "Open streams of changes of organisations", registry=self._registry
        )
        gauge.set_function(count)

    def add_audit(self, log: AuditLog) -> None:
        """Count what became of audit records."""
        self._registry.register(_Audit(log))

    def add_traces(self, store: SpanCounts) -> None:
        """Count what the store of traces keeps, and what it has to drop."""
        self._registry.register(_Spans(store))

    def add_engine(
        self, engine: Engine, records: Mapping[str, int], *, readers: Mapping[str, Callable[[], int]]
    ) -> None:
        """Export the state of the event engine, what became of ``records`` of runs, and how many streams each of
        ``readers`` cannot read further.
        """
        self._registry.register(_Engine(engine, records, readers))

    def render(self) -> bytes:
        """All metrics as text."""
        return generate_latest(self._registry)
