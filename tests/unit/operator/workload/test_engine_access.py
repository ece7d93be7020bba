"""What the NetworkPolicy of an environment opens for the event engine: its port, and nothing beside it."""

from __future__ import annotations

from typing import Any

import pytest

from tieline_core.environment_settings import SettingsError
from tieline_operator.config import Config
from tieline_operator.workload import network_policies
from tieline_protocol.egress import PUBLIC_ONLY

NEEDED = {
    "TIELINE_RUNTIME_IMAGE": "runtime:1",
    "TIELINE_API_URL": "http://api",
    "TIELINE_ENGINE_URL": "nats://engine",
}
NAMESPACE_NAME = "kubernetes.io/metadata.name"


def opened(*urls: str) -> list[dict[str, Any]]:
    """The rules that engines at these URLs add."""
    without = _egress()
    return [rule for rule in _egress(*urls) if rule not in without]


def _egress(*urls: str) -> list[dict[str, Any]]:
    made = network_policies.spec({}, egress=PUBLIC_ONLY, platform_urls=[], engine_urls=urls)
    found: list[dict[str, Any]] = made["egress"]
    return found


def port(number: int) -> list[dict[str, Any]]:
    return [{"port": number, "protocol": "TCP"}]


def engine_pods(namespace: str) -> dict[str, Any]:
    return {
        "namespaceSelector": {"matchLabels": {NAMESPACE_NAME: namespace}},
        "podSelector": {"matchLabels": {"app.kubernetes.io/name": "tieline-engine"}},
    }


@pytest.mark.parametrize(
    "host",
    [
        "tieline-engine.platform",
        "tieline-engine.platform.svc",
        "tieline-engine.platform.svc.cluster.local",
        "tieline-engine-0.tieline-engine-headless.platform.svc",
    ],
)
def test_pods_reach_the_engines_pods_at_its_port_alone(host: str) -> None:
    assert opened(f"nats://{host}:4222") == [{"to": [engine_pods("platform")], "ports": port(4222)}]


def test_the_servers_of_a_cluster_are_one_rule() -> None:
    urls = [f"nats://tieline-engine-{n}.tieline-engine-headless.platform.svc:4222" for n in range(3)]
    assert len(opened(*urls)) == 1


def test_an_engine_without_a_port_has_the_usual_one() -> None:
    assert opened("nats://tieline-engine.platform.svc")[0]["ports"] == port(4222)


def test_an_engine_outside_the_cluster_is_reached_at_its_address_and_port() -> None:
    assert opened("tls://10.20.0.7:4443") == [
        {"to": [{"ipBlock": {"cidr": "10.20.0.7/32"}}], "ports": port(4443)}
    ]


def test_an_engine_with_a_name_outside_the_cluster_opens_its_port() -> None:
    assert opened("nats://nats.corp.example:4222") == [{"ports": port(4222)}]


@pytest.mark.parametrize("number", [443, 6443])
def test_a_name_never_opens_the_port_of_api_servers(number: int) -> None:
    assert opened(f"tls://nats.corp.example:{number}") == []


def test_somebody_elses_service_is_reached_in_its_namespace() -> None:
    (rule,) = opened("nats://nats.messaging.svc:4222")
    assert rule["to"] == [{"namespaceSelector": {"matchLabels": {NAMESPACE_NAME: "messaging"}}}]


def test_the_settings_of_the_engine_are_taken() -> None:
    told = {
        "TIELINE_ENGINE_URL": "nats://a:4222, tls://b",
        "TIELINE_ENGINE_REPLICAS": "3",
        "TIELINE_ENGINE_QUEUE_BYTES": "33554432",
        "TIELINE_ENGINE_LATER_BYTES": "134217728",
        "TIELINE_ENGINE_RUNS_BYTES": "16777216",
        "TIELINE_ENGINE_DEAD_LETTERS_BYTES": "33554432",
        "TIELINE_ENGINE_DEAD_LETTERS_DAYS": "30",
        "TIELINE_ENGINE_HISTORY_BYTES": "67108864",
        "TIELINE_ENGINE_HISTORY_DAYS": "7",
        "TIELINE_ENGINE_STATE_BYTES": "134217728",
    }
    config = Config.from_environment({**NEEDED, **told})
    assert config.engine_url == ("nats://a:4222", "tls://b")
    limits = config.stream_limits
    assert (limits.queue_bytes, limits.runs_bytes, limits.history_bytes) == (32 << 20, 16 << 20, 64 << 20)
    assert (limits.later_bytes, limits.dead_letters_bytes) == (128 << 20, 32 << 20)
    assert limits.state_bytes == 128 << 20
    assert (limits.replicas, limits.history_age.days, limits.dead_letters_age.days) == (3, 7, 30)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("TIELINE_ENGINE_URL", ""),
        ("TIELINE_ENGINE_URL", ","),
        ("TIELINE_ENGINE_URL", "http://engine:4222"),
        ("TIELINE_ENGINE_URL", "engine:4222"),
        ("TIELINE_ENGINE_URL", "nats://engine:port"),
        ("TIELINE_ENGINE_URL", "nats://user:password@engine:4222"),
        ("TIELINE_ENGINE_REPLICAS", "2"),
        ("TIELINE_ENGINE_QUEUE_BYTES", "1"),
        ("TIELINE_ENGINE_HISTORY_DAYS", "never"),
    ],
)
def test_a_setting_that_cannot_be_used_stops_the_start(name: str, text: str) -> None:
    with pytest.raises(SettingsError, match=name) as error:
        Config.from_environment({**NEEDED, name: text})
    assert "password@" not in str(error.value)
