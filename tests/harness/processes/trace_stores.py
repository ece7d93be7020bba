"""Real receivers and stores of traces: an OpenTelemetry Collector and Jaeger, built from their Go modules."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.harness.processes.ports import free_port, free_ports
from tieline_cluster.definition.go_modules import ensure_built
from tieline_cluster.progress import Progress

_MODULES = Path(__file__).parents[1] / "go"
_START = 30.0


@dataclass(frozen=True)
class Jaeger:
    """Where a running Jaeger (with its store in memory) takes spans, and answers questions about them."""

    otlp: str
    query: str


def collector_program(progress: Progress) -> Path:
    """The folder with the Collector, built when this machine has not yet."""
    return ensure_built(
        _MODULES / "collector", progress, name="otel-collector", what="the OpenTelemetry Collector"
    )


def jaeger_program(progress: Progress) -> Path:
    """The folder with Jaeger, built when this machine has not yet."""
    return ensure_built(
        _MODULES / "jaeger",
        progress,
        name="jaeger",
        what="Jaeger",
        packages=("github.com/jaegertracing/jaeger/cmd/all-in-one",),
    )


@contextmanager
def running_collector(folder: Path, progress: Progress, *, sends_to: str) -> Iterator[str]:
    """The base URL of a Collector that takes OTLP over HTTP, and sends it on as OTLP in JSON.

    ``folder`` keeps its configuration and its log.
    """
    program = collector_program(progress)
    port = free_port()
    configuration = {
        "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{port}"}}}},
        "exporters": {
            "otlp_http": {
                "endpoint": sends_to,
                "encoding": "json",
                "compression": "none",
                "retry_on_failure": {"enabled": False},
                "sending_queue": {"enabled": False},
            }
        },
        "service": {
            "telemetry": {"metrics": {"level": "none"}},
            "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["otlp_http"]}},
        },
    }
    file = folder / "collector.json"
    file.write_text(json.dumps(configuration))
    with _running([str(program / "collector"), str(file)], folder / "collector.log", [port]):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def running_jaeger(folder: Path, progress: Progress) -> Iterator[Jaeger]:
    """Jaeger, all in one process, with its store in memory."""
    program = jaeger_program(progress)
    otlp, query, *others = free_ports(8)
    names = (
        "collector.http-server",
        "collector.grpc-server",
        "collector.otlp.grpc",
        "admin.http",
        "query.grpc-server",
    )
    taken = [f"--{name}.host-port=127.0.0.1:{port}" for name, port in zip(names, others, strict=False)]
    arguments = [
        str(program / "all-in-one"),
        f"--collector.otlp.http.host-port=127.0.0.1:{otlp}",
        f"--query.http-server.host-port=127.0.0.1:{query}",
        *taken,
    ]
    with _running(arguments, folder / "jaeger.log", [otlp, query]):
        yield Jaeger(otlp=f"http://127.0.0.1:{otlp}", query=f"http://127.0.0.1:{query}")


@contextmanager
def _running(arguments: list[str], log: Path, ports: list[int]) -> Iterator[None]:
    with log.open("wb") as out, subprocess.Popen(arguments, stdout=out, stderr=out) as process:
        try:
            for port in ports:
                _until_listening(port, process, log)
            yield
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def _until_listening(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + _START
    while time.monotonic() < until and process.poll() is None:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=2).close()
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError(f"Nothing listens on port {port}; its log ends with: {log.read_text()[-2000:]}")
