"""The platform's own NetworkPolicy closes what the operator's policies for environments close."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.harness.session import fast_yaml
from tieline_core.identity.names import ENVIRONMENT_ID_LABEL, PUBLIC_API_SERVICE
from tieline_operator.workload import network_policies
from tieline_protocol.egress import Egress

DEPLOY = Path(__file__).parents[2] / "deploy"


def policy(name: str = "tieline-egress") -> dict[str, Any]:
    text = (DEPLOY / "base" / "network-policies.yaml").read_text(encoding="utf-8")
    return next(one for one in fast_yaml.load_all(text) if one["metadata"]["name"] == name)


def test_the_platform_may_go_where_environments_may() -> None:
    names, kubernetes, _engine, _flux, public = policy()["spec"]["egress"]
    environments = network_policies.spec({}, egress=Egress(), platform_urls=[])["egress"]
    assert names["to"] == environments[0]["to"]
    assert sorted(map(str, names["ports"])) == sorted(map(str, environments[0]["ports"]))
    assert public == environments[1]
    assert "to" not in kubernetes
    assert {443, 6443} < {port["port"] for port in kubernetes["ports"]}


@pytest.mark.parametrize("deployment", ["api", "operator"])
def test_the_policy_is_for_both(deployment: str) -> None:
    text = (DEPLOY / "base" / f"{deployment}.yaml").read_text(encoding="utf-8")
    pods = next(one for one in fast_yaml.load_all(text) if one["kind"] == "Deployment")["spec"]["template"]
    [selector] = policy()["spec"]["podSelector"]["matchExpressions"]
    assert selector["operator"] == "In"
    assert pods["metadata"]["labels"][selector["key"]] in selector["values"]


def test_the_platform_reaches_the_pods_of_its_engine_at_the_clients_port() -> None:
    text = (DEPLOY / "base" / "engine.yaml").read_text(encoding="utf-8")
    (engine,) = [one for one in fast_yaml.load_all(text) if one["kind"] == "StatefulSet"]
    template = engine["spec"]["template"]
    ports = {port["name"]: port["containerPort"] for port in template["spec"]["containers"][0]["ports"]}
    _names, _kubernetes, rule, _flux, _public = policy()["spec"]["egress"]
    (peer,) = rule["to"]
    assert peer["podSelector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    assert rule["ports"] == [{"port": ports["client"], "protocol": "TCP"}]


def test_the_api_alone_reaches_the_webhooks_of_environments_and_no_other_port() -> None:
    spec = policy("tieline-api-webhooks")["spec"]
    assert spec["podSelector"] == {"matchLabels": {"app.kubernetes.io/name": PUBLIC_API_SERVICE}}
    assert spec["policyTypes"] == ["Egress"]
    label = {"matchExpressions": [{"key": ENVIRONMENT_ID_LABEL, "operator": "Exists"}]}
    assert spec["egress"] == [
        {
            "to": [{"namespaceSelector": {}, "podSelector": label}],
            "ports": [{"port": network_policies.HTTP_PORT, "protocol": "TCP"}],
        }
    ]


@pytest.mark.parametrize(
    ("name", "others"),
    [("tieline-api", {"http", "internal-tls", "activator"}), ("tieline-operator", {"health"})],
)
def test_metrics_are_for_the_namespace_of_prometheus_alone(name: str, others: set[str]) -> None:
    text = (DEPLOY / "base" / "network-policies.yaml").read_text(encoding="utf-8")
    found = next(one for one in fast_yaml.load_all(text) if one["metadata"]["name"] == name)
    sources = {port["port"]: rule.get("from") for rule in found["spec"]["ingress"] for port in rule["ports"]}
    assert sources.keys() == {"metrics", *others}
    assert sources["metrics"] == [
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    ]
