"""The engine's metrics: what alerts need, and names of environments only where the administrator wants them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from prometheus_client import CollectorRegistry, generate_latest

from tests.unit.operator.fake_cluster import FakeCluster
from tests.unit.operator.objects import NAMESPACE
from tieline_core.kubernetes.resources import ENGINE_SECRETS
from tieline_operator.engine.desired_streams import StreamKey
from tieline_operator.engine.metrics import EngineCollector
from tieline_operator.engine.stream_readings import EnvironmentReading, Survey


class State:
    connected = True
    keys_usable = False
    failed = 2
    leads = True

    def __init__(self, survey: Survey) -> None:
        self._survey = survey

    def survey(self) -> Survey:
        return self._survey


def reading(queued: int, dead: int, seconds: float) -> EnvironmentReading:
    oldest = datetime.now(UTC) - timedelta(seconds=seconds)
    return EnvironmentReading(queued=queued, waiting=1, dead_letters=dead, oldest=oldest, fill=queued / 10)


def scraped(*, names: bool) -> str:
    cluster = FakeCluster()
    environments = {}
    for project, found in (("orders", reading(5, 1, 100)), ("stock", reading(2, 3, 10))):
        labels = {"tieline.dev/project": project, "tieline.dev/environment": "production"}
        metadata = {"name": f"{project}-engine", "namespace": NAMESPACE, "labels": labels}
        cluster.put(ENGINE_SECRETS, {"metadata": metadata})
        environments[StreamKey(NAMESPACE, f"{project}-engine")] = found
    survey = Survey(environments=environments, streams=7, missing=1, foreign=4, reserved=512)
    registry = CollectorRegistry()
    registry.register(EngineCollector(State(survey), cluster, names=names))
    return generate_latest(registry).decode()


def test_without_names_there_are_totals_and_the_oldest() -> None:
    text = scraped(names=False)
    for line in (
        "tieline_operator_engine_connected 1.0",
        "tieline_operator_engine_keys_usable 0.0",
        "tieline_operator_engine_failed 2.0",
        'tieline_operator_engine_streams{state="missing"} 1.0',
        'tieline_operator_engine_streams{state="foreign"} 4.0',
        "tieline_operator_engine_reserved_bytes 512.0",
        "tieline_operator_engine_queued 7.0",
        "tieline_operator_engine_waiting 2.0",
        "tieline_operator_engine_dead_letters 4.0",
        "tieline_operator_engine_oldest_seconds 100.",
        "tieline_operator_engine_fill_ratio 0.5",
    ):
        assert line in text
    assert "orders" not in text
    assert NAMESPACE not in text


def test_with_names_each_environment_has_its_own() -> None:
    text = scraped(names=True)
    labels = f'environment="production",object_namespace="{NAMESPACE}",project="stock"'
    assert f"tieline_operator_engine_dead_letters{{{labels}}} 3.0" in text
    assert f"tieline_operator_engine_fill_ratio{{{labels}}} 0.2" in text
    assert f"tieline_operator_engine_queued{{{labels}}} 2.0" in text


def test_a_replica_that_waits_tells_of_no_environment() -> None:
    registry, state = CollectorRegistry(), State(Survey())
    state.leads = False
    registry.register(EngineCollector(state, FakeCluster(), names=True))
    assert generate_latest(registry) == b""
