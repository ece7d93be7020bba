"""Each audit record goes to a collector too, whether the engine takes it or not, and no write waits for either."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from google.protobuf.json_format import Parse
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from tests.harness.processes import engine_away
from tests.harness.session.waiting import until
from tests.unit.api.audit.audit_records import record
from tieline_api.audit.export import AuditExport, make_export, request_of
from tieline_api.audit.log import AuditLog
from tieline_api.engine.errors import EngineUnavailableError, NoStreamError
from tieline_api.http.metrics import Metrics
from tieline_api.traces.forwarder import Forwarder


def parsed(body: bytes) -> Any:
    """The log record in a request, as a collector reads it."""
    request = Parse(body, ExportLogsServiceRequest())
    (resource,) = request.resource_logs
    assert [(one.key, one.value.string_value) for one in resource.resource.attributes] == [
        ("service.name", "tieline-api")
    ]
    return resource.scope_logs[0].log_records[0]


class Engine:
    """Is away, or refuses everything."""

    back = False

    async def ask(self, _work: Any) -> None:
        raise NoStreamError if self.back else EngineUnavailableError


class Collector:
    """Takes requests, or refuses them."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.headers: list[str] = []
        self.status = 200

    async def take(self, request: web.Request) -> web.Response:
        self.headers.append(request.headers.get("X-Key", ""))
        self.bodies.append(await request.read())
        return web.Response(status=self.status)


@pytest.fixture
async def collector() -> AsyncIterator[tuple[Collector, str]]:
    held = Collector()
    app = web.Application()
    app.router.add_post("/v1/logs", held.take)
    async with TestServer(app) as server:
        yield held, str(server.make_url("/v1/logs"))


@pytest.mark.parametrize(
    ("outcome", "severity"), [("allowed", "INFO"), ("refused", "WARN"), ("failed", "ERROR")]
)
def test_a_record_is_an_otlp_log_record(outcome: str, severity: str) -> None:
    changes = [{"kind": "systems", "fields": [{"name": "name", "after": "Shop"}]}]
    found = parsed(request_of(record(outcome=outcome, changes=changes, user_agent="a\nb")))
    assert (found.severity_text, found.body.string_value) == (severity, f"updateSystem {outcome}")
    assert (found.event_name, found.time_unix_nano) == ("tieline.audit", 1_767_225_600 * 10**9)
    values = {one.key: one.value for one in found.attributes}
    assert values["tieline.audit.organisation"].string_value == "O"
    assert values["tieline.audit.status"].int_value == 201
    assert values["tieline.audit.cut"].WhichOneof("value") == "bool_value"
    assert values["tieline.audit.userAgent"].string_value == "a b", "untrusted, on one line"
    (change,) = values["tieline.audit.changes"].array_value.values
    assert change.kvlist_value.values[0].value.string_value == "systems"


async def test_the_settings_name_the_collector(
    collector: tuple[Collector, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    held, url = collector
    assert make_export(engine_away.api_settings()) is None
    file = tmp_path / "headers"
    file.write_text("X-Key: s3cret-of-the-file\n")
    export = make_export(engine_away.api_settings(audit_otlp_url=url, audit_headers_file=str(file)))
    assert export is not None
    held.status = 403
    export.start()
    export.add(record())
    await until(lambda: export.lost == 1)
    await export.stop()
    assert held.headers == ["s3cret-of-the-file"]
    assert "refused audit records: it answered 403" in caplog.text
    assert "s3cret" not in caplog.text


async def test_a_record_is_exported_while_the_engine_is_away(collector: tuple[Collector, str]) -> None:
    held, url = collector
    export = AuditExport(Forwarder(url, headers=lambda: {"X-Key": "of-the-file"}))
    engine: Any = Engine()
    log = AuditLog(engine, export=export, pause=lambda _: 0.01)
    await log.start()
    log.add(record("one"))
    await until(lambda: export.exported == 1)
    assert held.headers == ["of-the-file"]
    held.status = 400
    log.add(record("two"))
    await until(lambda: export.lost == 1)
    assert (log.waiting, log.counts["stored"]) == (2, 0)
    kube: Any = SimpleNamespace(requests={})
    metrics = Metrics(kube)
    metrics.add_audit(log)
    text = metrics.render().decode()
    assert 'tieline_api_audit_records_total{outcome="exported"} 1.0' in text
    assert 'tieline_api_audit_records_total{outcome="not_exported"} 1.0' in text
    engine.back = True
    await log.stop()


def test_without_an_export_nothing_is_said_of_one() -> None:
    kube: Any = SimpleNamespace(requests={})
    engine: Any = Engine()
    metrics = Metrics(kube)
    metrics.add_audit(AuditLog(engine))
    lines = [line for line in metrics.render().decode().splitlines() if not line.startswith("#")]
    assert not any("exported" in line for line in lines)
