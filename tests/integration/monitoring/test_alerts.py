"""Alerts fire for their trouble and for nothing else, by Prometheus' own engine.

The pages of metrics are those of the operator's and the API's own registries: of a leader, of a replica that waits, and
of two replicas of the API. What goes wrong is added to them, since most of it takes hours to bring about.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import generate_latest

from tests.harness.processes.alert_rules import SCRAPE_SECONDS, Scrapes
from tests.unit.operator.fake_cluster import FakeCluster
from tieline_api.audit.log import AuditLog
from tieline_api.http.metrics import Metrics as ApiMetrics
from tieline_core.kubernetes import resources as r
from tieline_operator.config import Config
from tieline_operator.engine.metrics import EngineCollector
from tieline_operator.engine.service import EngineService
from tieline_operator.engine.stream_readings import Survey
from tieline_operator.metrics import Metrics as OperatorMetrics

BEGINS, END = 4200, 7200
"""When the trouble begins, and when the alerts are evaluated (seconds)."""
LEADER = {"instance": "operator-1", "pod": "operator-1", "namespace": "tieline-system"}
STANDBY = {"instance": "operator-2", "pod": "operator-2", "namespace": "tieline-system"}
APIS = [{"instance": f"api-{n}", "pod": f"api-{n}", "namespace": "tieline-system"} for n in (1, 2)]
POD = {"instance": "orders-1", "pod": "orders-1", "namespace": "acme"}
ENVIRONMENT = {"project": "orders", "environment": "production"}


def operator(*, leads: bool) -> str:
    metrics = OperatorMetrics(object_names=True)
    metrics.watch(depth=lambda: 0, oldest=lambda: 0, ages=lambda: {"pods": 1}, requests=dict)
    states = [{"name": "production", "status": "running"}]
    ready = {"conditions": [{"type": "Ready", "status": "True"}], "environments": states}
    project = {"metadata": {"name": "orders", "namespace": "acme"}, "status": ready}
    metrics.watch_objects(lambda: {r.PROJECTS: [project]})
    metrics.watch_organisations(dict)
    metrics.watch_package_jobs(list)
    metrics.watch_refreshes(waiting=lambda: 0, late=lambda: 0)
    metrics.watch_notifications(lambda: 0)
    metrics.leading.set(int(leads))
    if leads:
        metrics.watch_stream_readers({"runs": lambda: 0})
        state: Any = SimpleNamespace(leads=True, connected=True, keys_usable=True, failed=0, survey=Survey)
        metrics.registry.register(EngineCollector(state, FakeCluster(), names=True))
    else:
        waiting_engine(metrics)
    return generate_latest(metrics.registry).decode()


def waiting_engine(metrics: OperatorMetrics) -> None:
    """The engine's service of a replica that does not lead: it was never started."""
    kube: Any = SimpleNamespace()
    cluster: Any = FakeCluster()
    config = Config(runtime_image="runtime", api_url="http://api.test", engine_url=("nats://engine:4222",))
    EngineService(config, kube, cluster, cluster, metrics, lambda: None, lambda *_: None, lambda _: None)


def api() -> str:
    metrics = ApiMetrics(SimpleNamespace(requests={("get", "pods"): 1}))  # type: ignore[arg-type]
    metrics.count(operation="listProjects", status=200, seconds=0.01)
    engine: Any = SimpleNamespace(connected=True, storage_bytes=1, storage_limit_bytes=0)
    metrics.add_engine(engine, {"read": 1}, readers={"runs": lambda: 0, "traces": lambda: 0})
    metrics.add_audit(AuditLog(engine))
    return metrics.render().decode()


def scraped(*, standby: bool, without: frozenset[str] = frozenset()) -> Scrapes:
    """Two quiet hours; of ``without`` the targets are gone since the trouble began."""
    targets: list[tuple[dict[str, str], str]] = [(LEADER, operator(leads=True)), (APIS[0], api())]
    if standby:
        targets += [(STANDBY, operator(leads=False)), (APIS[1], api())]
    found = Scrapes()
    for target, text in targets:
        gone = target["instance"] in without
        found.scrape(text, target, range(0, BEGINS if gone else END + 1, SCRAPE_SECONDS))
    for at in range(0, END + 1, SCRAPE_SECONDS):
        found.add(
            "tieline_runs_total", {**POD, **ENVIRONMENT, "kind": "event", "outcome": "succeeded"}, at, at
        )
    return found


@pytest.mark.parametrize("standby", [False, True], ids=["standard", "highly available"])
def test_a_quiet_installation_has_no_alerts(standby: bool) -> None:
    assert scraped(standby=standby).firing(END) == set()


Value = Callable[[float], float]


def constant(value: float) -> Value:
    return lambda _: value


def counting(per_minute: float) -> Value:
    return lambda seconds: 1 + per_minute * seconds / 60


def once(_seconds: float) -> float:
    """A counter that has appeared with its first increment."""
    return 1


BROKEN = {"object_namespace": "acme", "project": "orders", "environment": "production", "status": "error"}
REQUEST = {"operation": "listProjects"}
VOLUME = {"namespace": "tieline-system", "persistentvolumeclaim": "data-tieline-engine-0"}
TROUBLES: dict[str, list[tuple[str, Mapping[str, str], Value]]] = {
    "TielineTwoLead": [("tieline_operator_leading", STANDBY, constant(1))],
    "TielineWatchSilent": [
        ("tieline_operator_watch_age_seconds", {**LEADER, "resource": "pods"}, constant(200))
    ],
    "TielineReconcilesFail": [
        ("tieline_operator_reconciles_total", {**LEADER, "kind": "Project", "outcome": "error"}, counting(2))
    ],
    "TielineQueueStuck": [("tieline_operator_queue_oldest_seconds", LEADER, constant(100))],
    "TielineSomebodyFights": [
        (
            "tieline_operator_drift_repaired_total",
            {**LEADER, "kind": "Service", "what": "changed"},
            counting(2),
        )
    ],
    "TielineDuplicateOrganisation": [
        (
            "tieline_operator_duplicate_organisations",
            {**LEADER, "object_namespace": "b", "older": "a"},
            constant(1),
        )
    ],
    "TielineProductionInError": [
        ("tieline_operator_environment_status", {**LEADER, **BROKEN, "production": "true"}, constant(1))
    ],
    "TielineEnvironmentsInError": [
        (
            "tieline_operator_environment_status",
            {**LEADER, **BROKEN, "environment": "staging", "production": "false"},
            constant(1),
        )
    ],
    "TielineObjectNotReady": [
        (
            "tieline_operator_object_ready",
            {**LEADER, "kind": "System", "object_namespace": "acme", "object": "shop"},
            constant(0),
        )
    ],
    "TielineProvidersAway": [
        ("tieline_operator_token_refreshes_total", {**LEADER, "outcome": "unreachable"}, counting(2))
    ],
    "TielineTokensRefused": [
        ("tieline_operator_token_refreshes_total", {**LEADER, "outcome": "refused"}, once)
    ],
    "TielineConnectionsRefused": [
        (
            "tieline_operator_connections_refused",
            {**LEADER, "object_namespace": "acme", "object": "x"},
            constant(1),
        )
    ],
    "TielineTokensLate": [("tieline_operator_tokens_late", LEADER, constant(60))],
    "TielineApiFails": [
        ("tieline_api_requests_total", {**APIS[0], **REQUEST, "status": "500"}, counting(5)),
        ("tieline_api_requests_total", {**APIS[0], **REQUEST, "status": "204"}, counting(5)),
    ],
    "TielineApiSlow": [
        ("tieline_api_request_seconds_bucket", {**APIS[0], "operation": "slow", "le": "2.5"}, counting(5)),
        ("tieline_api_request_seconds_bucket", {**APIS[0], "operation": "slow", "le": "5.0"}, counting(9)),
        ("tieline_api_request_seconds_bucket", {**APIS[0], "operation": "slow", "le": "+Inf"}, counting(9)),
    ],
    "TielineApiHearsNothing": [("tieline_api_kubernetes_silence_seconds", APIS[0], constant(300))],
    "TielineSpansDropped": [("tieline_api_spans_dropped_total", {**APIS[0], "reason": "full"}, counting(1))],
    "TielineAuditRecordsLost": [
        ("tieline_api_audit_records_total", {**APIS[0], "outcome": "dropped"}, counting(1)),
    ],
    "TielineEngineAway": [("tieline_operator_engine_connected", LEADER, constant(0))],
    "TielineEngineNearlyFull": [
        ("kubelet_volume_stats_used_bytes", VOLUME, constant(90)),
        ("kubelet_volume_stats_capacity_bytes", VOLUME, constant(100)),
    ],
    "TielineEngineRefusesStreams": [("tieline_operator_engine_failed", LEADER, constant(2))],
    "TielineEngineKeysUnusable": [("tieline_operator_engine_keys_usable", LEADER, constant(0))],
    "TielineStreamReaderStalled": [
        ("tieline_api_stream_readers_stalled", {**APIS[0], "reader": "runs"}, constant(1))
    ],
    "TielineEventsWait": [
        ("tieline_operator_engine_oldest_seconds", {**LEADER, **ENVIRONMENT}, constant(1000))
    ],
    "TielineDeadLetters": [("tieline_operator_engine_dead_letters", {**LEADER, **ENVIRONMENT}, constant(3))],
    "TielineEventsNearlyFull": [
        ("tieline_operator_engine_fill_ratio", {**LEADER, **ENVIRONMENT}, constant(0.9))
    ],
    "TielineEventsRetried": [("tieline_events_retried_total", {**POD, **ENVIRONMENT}, counting(30))],
    "TielineLimitsReached": [
        ("tieline_limit_reached_total", {**POD, **ENVIRONMENT, "template": "shop"}, counting(1))
    ],
    "TielineNotificationsFail": [
        (
            "tieline_operator_notifications_total",
            {**LEADER, "type": "slack", "outcome": "failed"},
            counting(1),
        )
    ],
    "TielineRunsFail": [
        ("tieline_runs_total", {**POD, **ENVIRONMENT, "task": "t", "outcome": "failed"}, counting(5)),
        ("tieline_runs_total", {**POD, **ENVIRONMENT, "task": "t", "outcome": "succeeded"}, counting(5)),
    ],
    "TielineRunsRefused": [("tieline_runs_total", {**POD, **ENVIRONMENT, "outcome": "refused"}, counting(1))],
}
GONE = {
    "TielineNobodyLeads": frozenset({LEADER["instance"]}),
    "TielineApiAway": frozenset(target["instance"] for target in APIS),
}


@pytest.mark.parametrize("alert", TROUBLES)
def test_an_alert_fires_for_its_trouble_alone(alert: str) -> None:
    found = scraped(standby=True)
    for name, labels, value in TROUBLES[alert]:
        key = tuple(sorted({"__name__": name, **labels}.items()))
        found.series[key] = [one for one in found.series.get(key, []) if one[0] < BEGINS]
        for at in range(BEGINS, END + 1, SCRAPE_SECONDS):
            found.add(name, labels, at, value(at - BEGINS))
    assert found.firing(END) == {alert}


@pytest.mark.parametrize("alert", GONE)
def test_an_alert_fires_when_processes_are_gone(alert: str) -> None:
    assert scraped(standby=True, without=GONE[alert]).firing(END) == {alert}


def test_one_replica_of_the_api_that_is_gone_is_no_alert() -> None:
    assert scraped(standby=True, without=frozenset({"api-1"})).firing(END) == set()
