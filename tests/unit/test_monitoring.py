"""Alerts and dashboard ask for what is there: every metric and label of theirs is one that the code tells."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import promql_parser
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from tests.harness.session import fast_yaml
from tests.unit.operator.fake_cluster import FakeCluster
from tests.unit.operator.objects import system
from tests.unit.operator.reconcile_loop import ReconcileLoop
from tieline.events.deferred import DeferredQueue
from tieline.events.engine.connection import EngineConnection
from tieline.events.engine.new_streams import NewStreams
from tieline.events.engine.queue import EngineQueue
from tieline.server.event_server import EventServer
from tieline.server.wiring import gauges_of
from tieline.telemetry.limit_metrics import LimitMetrics
from tieline.telemetry.metrics import Gauges, RunMetrics
from tieline_api.audit.log import AuditLog
from tieline_api.handlers import OPERATIONS
from tieline_api.http.metrics import Metrics as ApiMetrics
from tieline_api.pod_api import environment, tokens
from tieline_core.identity.names import ENVIRONMENT_ID_LABEL
from tieline_core.json_logging import JsonFormatter
from tieline_core.kubernetes import Invalid
from tieline_core.kubernetes import resources as r
from tieline_operator.cache.organisations import OrganisationClaim
from tieline_operator.engine.desired_streams import StreamKey
from tieline_operator.engine.metrics import EngineCollector
from tieline_operator.engine.stream_readings import EnvironmentReading, Survey
from tieline_operator.metrics import Metrics as OperatorMetrics
from tieline_operator.metrics import QuotaUsage
from tieline_operator.workload.network_policies import HEALTH_PORT
from tieline_protocol.event_streams import EventStreams

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "monitoring"
RUNBOOKS = FOLDER.parents[1] / "docs" / "runbooks"
# What Prometheus itself puts on everything that it scrapes from a pod.
SCRAPED = {"instance", "job", "namespace", "pod", "container"}


def _operator() -> CollectorRegistry:
    metrics = OperatorMetrics(object_names=True)
    metrics.watch(
        depth=lambda: 0, oldest=lambda: 0, ages=lambda: {"pods": 1}, requests=lambda: {("get", "pods"): 1}
    )
    project = {
        "metadata": {"name": "orders", "namespace": "acme"},
        "status": {"environments": [{"name": "production", "status": "running"}]},
    }
    refused = {
        "metadata": {"name": "shop", "namespace": "acme"},
        "status": {"conditions": [{"type": "CredentialsAccepted", "status": "False"}]},
    }
    metrics.watch_objects(lambda: {r.PROJECTS: [project], r.CONNECTIONS: [refused]})
    metrics.watch_organisations(
        lambda: {"new": OrganisationClaim(id="01BX5ZZKBKACTAV9WEVGEMMVRZ", holder="acme")}
    )
    metrics.watch_package_jobs(list)
    metrics.watch_quotas(lambda: [QuotaUsage(namespace="acme", quota="replicas", used=1, limit=1)])
    metrics.watch_refreshes(waiting=lambda: 0, late=lambda: 0)
    metrics.watch_notifications(lambda: 0)
    metrics.watch_stream_readers({"runs": lambda: 0})
    reading = EnvironmentReading(queued=1, waiting=1, dead_letters=1, oldest=None)
    survey = Survey(environments={StreamKey("acme", "orders-engine"): reading})
    engine: Any = SimpleNamespace(
        leads=True, connected=True, keys_usable=True, failed=0, survey=lambda: survey
    )
    metrics.registry.register(EngineCollector(engine, FakeCluster(), names=True))
    return metrics.registry


def _api() -> CollectorRegistry:
    metrics = ApiMetrics(SimpleNamespace(requests={("get", "pods"): 1}))  # type: ignore[arg-type]
    store: Any = SimpleNamespace(written=1, dropped=Counter({"full": 1}), queued=0)
    metrics.add_traces(store)
    engine: Any = SimpleNamespace()
    metrics.add_audit(AuditLog(engine))
    return metrics._registry


def _pods() -> str:
    counts = RunMetrics(project="order-sync", environment="production")
    counts.add("webhook", "orders", "succeeded", 1.0)
    idle = SimpleNamespace(active=0, waiting=0, pending=0, sent=0, dropped=0)
    runner: Any = SimpleNamespace(turns=idle, background=idle)
    exporter: Any = idle
    gate: Any = SimpleNamespace(waiting=0, metrics=SimpleNamespace(alone=0))
    limits = LimitMetrics(labels='project="order-sync",environment="production"')
    limits.gave_up("shop", 1.0)
    return counts.text({**gauges_of(runner, exporter, gate), **_events()}) + limits.text()


def _events() -> Gauges:
    """Of a pod whose code has events."""
    streams = EventStreams("organisation", "environment")
    connection = EngineConnection(urls=[], credentials_file=Path("none"), streams=streams)
    tasks: Any = SimpleNamespace(has_events=True, events={}, waits={})
    server = EventServer(
        tasks, DeferredQueue(), load_engine=lambda: (EngineQueue(connection), NewStreams(connection))
    )
    server._engine = EngineQueue(connection)
    server.runs = SimpleNamespace(retries=0, dead=0)  # type: ignore[assignment]
    return server.gauges()


def _names(name: str, sort: str) -> list[str]:
    if sort == "counter":
        return [f"{name}_total"]
    return [f"{name}_{end}" for end in ("bucket", "count", "sum")] if sort == "histogram" else [name]


def told() -> dict[str, set[str]]:
    """The labels of each metric of operator, API and project pods."""
    found: dict[str, set[str]] = {}
    families = [family for registry in (_operator(), _api()) for family in registry.collect()]
    labels = {
        collector._name: set(collector._labelnames)
        for registry in (_operator(), _api())
        for collector in registry._collector_to_names
        if hasattr(collector, "_labelnames")
    }
    for family in [*families, *text_string_to_metric_families(_pods())]:
        for name in _names(family.name, family.type):
            own = {label for sample in family.samples for label in sample.labels}
            found[name] = (
                own | labels.get(family.name, set()) | ({"le"} if name.endswith("_bucket") else set())
            )
    return found


# Of the API's connection to the event engine.
ENGINE: dict[str, set[str]] = {
    "tieline_engine_connected": set(),
    "tieline_engine_storage_bytes": set(),
    "tieline_engine_storage_limit_bytes": set(),
    "tieline_api_stream_readers_stalled": {"reader"},
}
# The kubelet's, of every volume.
VOLUMES = {
    f"kubelet_volume_stats_{which}_bytes": {"namespace", "persistentvolumeclaim"}
    for which in ("used", "capacity")
}
TOLD = told() | ENGINE


@dataclass
class Asked:
    """What a query asks for."""

    labels: dict[str, set[str]] = field(default_factory=dict)
    """Labels that the selector of a metric names."""
    grouped: set[str] = field(default_factory=set)
    """Labels that aggregations and matches name."""


def asked(query: str) -> Asked:
    """What a query names; raises ValueError when it is none."""
    found = Asked()

    def visit(node: Any) -> bool:
        if isinstance(node, promql_parser.MatrixSelector):
            node = node.vector_selector
        if isinstance(node, promql_parser.VectorSelector):
            matchers = {matcher.name for matcher in node.matchers.matchers}
            found.labels.setdefault(node.name, set()).update(matchers)
        if isinstance(node, promql_parser.AggregateExpr) and node.modifier:
            found.grouped |= set(node.modifier.labels)
        if isinstance(node, promql_parser.BinaryExpr) and node.modifier and node.modifier.matching:
            found.grouped |= set(node.modifier.matching.labels)
        return True

    parsed = promql_parser.parse(query.replace("$__rate_interval", "5m"))
    promql_parser.walk(parsed, visit)
    return found


def alerts() -> dict[str, dict[str, Any]]:
    groups = fast_yaml.load((FOLDER / "rules.yaml").read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


DASHBOARD: dict[str, Any] = json.loads((FOLDER / "dashboard.json").read_text())
QUERIES = {name: rule["expr"] for name, rule in alerts().items()} | {
    f"{panel['id']} {panel['title']} {target['refId']}": target["expr"]
    for panel in DASHBOARD["panels"]
    for target in panel.get("targets", ())
}


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_asks_for_metrics_and_labels_that_are_told(name: str) -> None:
    query, known = asked(QUERIES[name]), TOLD | VOLUMES
    assert query.labels
    for metric, labels in query.labels.items():
        assert metric in known, f"{name} asks for {metric}"
        assert labels <= known[metric] | SCRAPED, f"{name} asks {metric} for a label that it has not"
        assert query.grouped <= known[metric] | SCRAPED, f"{name} groups {metric} by a label that it has not"


def test_labels_are_found_wherever_a_query_names_them() -> None:
    found = asked('sum by (a) (x{b="1"}) and on (c) max without (d) (rate(y{e!~"2"}[5m]))')
    assert found.labels == {"x": {"b"}, "y": {"e"}}
    assert found.grouped == {"a", "c", "d"}


@pytest.mark.parametrize("query", ["sum by (kind (x)", "rate(x)", "tieline_made_up + ", "x{a=b}"])
def test_what_is_no_query_is_found(query: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        asked(query)


def test_every_metric_is_on_the_dashboard_or_in_an_alert() -> None:
    seen = {metric for query in QUERIES.values() for metric in asked(query).labels}
    base = {re.sub(r"_(bucket|count|sum)$", "", metric) for metric in seen}
    missing = {
        metric for metric in TOLD if not {metric, re.sub(r"_(bucket|count|sum)$", "", metric)} & (seen | base)
    }
    assert missing == set()


def test_names_follow_the_conventions_of_prometheus() -> None:
    for registry in (_operator(), _api()):
        for family in registry.collect():
            assert re.fullmatch(r"tieline_(operator|api)_[a-z0-9_]+", family.name)
            assert not family.name.endswith(("_count", "_sum", "_bucket", "_total")), (
                "endings are the library's"
            )
            assert not re.search(r"(milli|micro)seconds|_ms$|_minutes", family.name), "seconds are the unit"
            assert family.type != "histogram" or family.name.endswith("_seconds")
            assert family.documentation


def test_alerts_say_what_to_do_and_name_labels_that_their_query_leaves() -> None:
    for name, rule in alerts().items():
        assert name.startswith("Tieline")
        assert re.fullmatch(r"[0-9]+[mh]", rule["for"])
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
        named = set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"])))
        assert named <= asked(rule["expr"]).grouped, name


def test_each_alert_leads_to_a_page_of_its_own_that_says_what_to_do() -> None:
    pages = {path.stem: path.read_text() for path in RUNBOOKS.glob("Tieline*.md")}
    assert set(pages) == set(alerts())
    for name, rule in alerts().items():
        assert rule["annotations"]["runbook_url"] == f"https://tieline.dev/docs/runbooks/{name}"
        chapters = re.findall(r"^## (.+)$", pages[name], re.MULTILINE)
        assert chapters == ["What it means", "What it affects", "Find the cause", "What to do"], name
        assert rule["labels"]["severity"] in pages[name], name
        assert f"({name}.md)" in (RUNBOOKS / "README.md").read_text()


async def test_the_runbook_of_failing_reconciles_finds_the_lines_that_say_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    page = (RUNBOOKS / "TielineReconcilesFail.md").read_text()
    (wanted,) = re.findall(r"\| grep '([^']+)'", page)
    there = ReconcileLoop(FakeCluster(system()))
    there.cluster.refused[r.SYSTEMS] = "no"
    with caplog.at_level("INFO"), pytest.raises(Invalid):
        await there.once(r.SYSTEMS, "shop")
    assert [record for record in caplog.records if wanted in JsonFormatter().format(record)]


def test_no_runbook_looks_for_the_reason_of_a_condition_in_a_table() -> None:
    """Tables of ``kubectl get`` show messages."""
    for page in RUNBOOKS.glob("Tieline*.md"):
        assert not re.search(r"kubectl( -n \S+)? get \S+( -A)? \| grep [A-Z]", page.read_text()), page.name


def test_alerts_about_runs_and_environments_name_the_project_and_the_environment() -> None:
    for name in (
        "TielineRunsFail",
        "TielineRunsRefused",
        "TielineProductionInError",
        "TielineEnvironmentsInError",
    ):
        assert {"project", "environment"} <= asked(alerts()[name]["expr"]).grouped, name


@pytest.mark.parametrize(
    ("what", "metric", "alert"),
    [
        ("how much is queued", "tieline_operator_engine_fill_ratio", "TielineEventsNearlyFull"),
        ("how long it waits", "tieline_operator_engine_oldest_seconds", "TielineEventsWait"),
        ("what was given up", "tieline_operator_engine_dead_letters", "TielineDeadLetters"),
        ("what is tried again", "tieline_events_retried_total", "TielineEventsRetried"),
        ("what the limits of systems hold up", "tieline_limit_reached_total", "TielineLimitsReached"),
        ("whom systems refuse", "tieline_operator_connections_refused", "TielineConnectionsRefused"),
        ("what people are not told", "tieline_operator_notifications_total", "TielineNotificationsFail"),
    ],
)
def test_what_can_go_wrong_with_events_has_a_metric_and_an_alert(what: str, metric: str, alert: str) -> None:
    assert metric in asked(alerts()[alert]["expr"]).labels, what


def test_the_prometheus_operator_gets_the_same_rules() -> None:
    rule = fast_yaml.load((FOLDER / "prometheusrule.yaml").read_text())
    assert rule["spec"] == fast_yaml.load((FOLDER / "rules.yaml").read_text())


def test_operations_that_an_alert_leaves_out_exist() -> None:
    source = "".join(Path(module.__file__ or "").read_text() for module in (environment, tokens))
    (matched,) = re.findall(r'operation!~"([^"]+)"', alerts()["TielineApiSlow"]["expr"])
    for operation in matched.split("|"):
        assert f'"{operation}"' in source or operation in {one.id for one in OPERATIONS}


def test_monitors_find_the_pods_and_ports_that_are_there() -> None:
    monitors = {one["metadata"]["name"]: one for one in _manifests("monitors.yaml")}
    base = FOLDER.parent / "base"
    deployed = {
        one["metadata"]["name"]: one
        for name in ("operator.yaml", "api.yaml")
        for one in fast_yaml.load_all((base / name).read_text())
        if one["kind"] == "Deployment"
    }
    services = {
        one["metadata"]["name"]: one
        for one in fast_yaml.load_all((base / "api.yaml").read_text())
        if one["kind"] == "Service"
    }
    ports = {
        name: {port["name"] for port in one["spec"]["template"]["spec"]["containers"][0]["ports"]}
        for name, one in deployed.items()
    }
    for name in ("tieline-operator", "tieline-api"):
        assert monitors[name]["kind"] == "PodMonitor"
        spec, template = monitors[name]["spec"], deployed[name]["spec"]["template"]
        assert spec["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
        assert {one["port"] for one in spec["podMetricsEndpoints"]} <= ports[name]
    assert not [
        port for one in services.values() for port in one["spec"]["ports"] if port["name"] == "metrics"
    ], "pods of environments are given these Services"
    pods = monitors["tieline-environments"]["spec"]
    assert pods["selector"]["matchExpressions"] == [{"key": ENVIRONMENT_ID_LABEL, "operator": "Exists"}]
    assert HEALTH_PORT == 8081


def _manifests(name: str) -> list[dict[str, Any]]:
    return list(fast_yaml.load_all((FOLDER / name).read_text()))


def test_panels_have_places_of_their_own() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not taken & cells, panel["title"]
        taken |= cells
        assert at["x"] + at["w"] <= 24
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
