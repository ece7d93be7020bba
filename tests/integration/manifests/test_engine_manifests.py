"""The event engine in the chart and the kustomizations: who brings it, where it stores, and who reaches it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster.manifest_tools import ManifestTools
from tests.integration.manifests.test_manifests import (
    DEPLOY,
    NAMESPACE,
    Objects,
    helm,
    kustomized,
    objects,
    tools,
)
from tieline_cluster.deployment.platform import with_images
from tieline_core.engine.server_config import CLUSTERED_NAME, SINGLE_NAME, EngineConfig

__all__ = ["tools"]

STATEFUL_SET = ("StatefulSet", NAMESPACE, "tieline-engine")
MONITORING = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
ENGINES = {"podSelector": {"matchLabels": {"app.kubernetes.io/name": "tieline-engine"}}}


def rendered(tools: ManifestTools, *settings: str) -> Objects:
    done = helm(tools, *(part for setting in settings for part in ("--set", setting)))
    assert done.returncode == 0, done.stderr
    return objects(done.stdout)


def engine_pod(found: Objects) -> dict[str, Any]:
    pod: dict[str, Any] = found[STATEFUL_SET]["spec"]["template"]["spec"]
    return pod


def settings_of(found: Objects) -> dict[str, str]:
    data: dict[str, str] = found["ConfigMap", NAMESPACE, "tieline"]["data"]
    return {name: value for name, value in data.items() if name.startswith("TIELINE_ENGINE")}


@pytest.mark.parametrize(
    ("replicas", "overlay", "name"),
    [(1, "one-replica", SINGLE_NAME), (3, "highly-available", CLUSTERED_NAME)],
)
def test_a_server_has_the_variables_that_its_configuration_names(
    tools: ManifestTools, replicas: int, overlay: str, name: str
) -> None:
    found = objects(kustomized(tools, f"overlays/{overlay}"))
    (container,) = engine_pod(found)["containers"]
    variables = {one["name"] for one in container["env"]}
    text = EngineConfig(
        operator="jwt",
        system_account="AS",
        accounts={},
        storage="/data",
        encryption_key="$TIELINE_ENGINE_KEY",
        routes=["nats://a:6222"] if replicas > 1 else (),
    ).text()
    assert f"server_name: ${name}\n" in text
    assert variables == {name, "TIELINE_ENGINE_KEY", "GOMEMLIMIT", "GOGC"}
    assert settings_of(found)["TIELINE_ENGINE_REPLICAS"] == str(replicas)
    assert {"name": "data", "mountPath": "/data"} in container["volumeMounts"]


def test_an_engine_of_ones_own_is_used_instead_of_one_of_the_release(tools: ManifestTools) -> None:
    found = rendered(tools, "engine.external.url=tls://nats.example:4222", "engine.replicas=3")
    assert settings_of(found) == {
        "TIELINE_ENGINE_URL": "tls://nats.example:4222",
        "TIELINE_ENGINE_REPLICAS": "3",
    }
    assert not [key for key in found if key[2].startswith("tieline-engine")]
    egress = found["NetworkPolicy", NAMESPACE, "tieline-egress"]["spec"]["egress"]
    assert all(ENGINES not in rule.get("to", []) for rule in egress)


def test_an_api_starts_without_credentials_for_an_engine(tools: ManifestTools) -> None:
    pod = rendered(tools)["Deployment", NAMESPACE, "tieline-api"]["spec"]["template"]["spec"]
    (secret,) = [one["secret"] for one in pod["volumes"] if one["name"] == "engine"]
    assert secret == {"secretName": "tieline-engine-api", "optional": True}


def test_queued_events_are_on_a_volume_as_the_values_say(tools: ManifestTools) -> None:
    found = rendered(tools, "engine.persistence.size=50Gi,engine.persistence.storageClass=fast")
    (claim,) = found[STATEFUL_SET]["spec"]["volumeClaimTemplates"]
    assert claim["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "50Gi"}},
    }
    # Kubernetes refuses a change of it, and labels of the release change with each one.
    assert claim["metadata"] == {"name": "data"}
    for without in (
        rendered(tools, "engine.persistence.enabled=false"),
        objects(kustomized(tools, "overlays/local")),
    ):
        assert "volumeClaimTemplates" not in without[STATEFUL_SET]["spec"]
        assert {"name": "data", "emptyDir": {}} in engine_pod(without)["volumes"]


def test_on_the_built_in_cluster_queued_events_are_in_a_folder_of_it(
    tools: ManifestTools, tmp_path: Path
) -> None:
    work = with_images(
        DEPLOY / "overlays/local",
        images={"runtime": "tieline.local/runtime:abc"},
        work=tmp_path / "work",
        configure=True,
        engine_folder=tmp_path / "engine",
    )
    found = objects(kustomized(tools, work))
    (data,) = [volume for volume in engine_pod(found)["volumes"] if volume["name"] == "data"]
    assert data == {"name": "data", "persistentVolumeClaim": {"claimName": "tieline-engine"}}
    claim = found["PersistentVolumeClaim", NAMESPACE, "tieline-engine"]["spec"]
    volume = found["PersistentVolume", "", claim["volumeName"]]["spec"]
    assert volume["hostPath"] == {"path": str(tmp_path / "engine")}
    assert volume["claimRef"] == {"name": "tieline-engine", "namespace": NAMESPACE}
    assert volume["capacity"] == claim["resources"]["requests"]


@pytest.mark.parametrize(
    ("limit", "collected"), [("512Mi", "435MiB"), ("2Gi", "1740MiB"), ("1.5Gi", "1305MiB"), ("1G", None)]
)
def test_the_memory_limit_is_known_to_the_go_runtime(
    tools: ManifestTools, limit: str, collected: str | None
) -> None:
    pod = engine_pod(rendered(tools, f"engine.resources.limits.memory={limit}"))
    variables = {one["name"]: one.get("value") for one in pod["containers"][0]["env"]}
    assert variables.get("GOMEMLIMIT") == collected
    assert variables["GOGC"] == "50"


def test_the_engine_is_reached_by_its_clients_and_peers_alone(tools: ManifestTools) -> None:
    policy = rendered(tools)["NetworkPolicy", NAMESPACE, "tieline-engine"]["spec"]
    allowed = {rule["ports"][0]["port"]: rule["from"] for rule in policy["ingress"]}
    in_environments = {"matchExpressions": [{"key": "tieline.dev/environment-id", "operator": "Exists"}]}
    of_the_platform = {
        "key": "app.kubernetes.io/name",
        "operator": "In",
        "values": ["tieline-api", "tieline-operator"],
    }
    assert allowed == {
        "client": [
            {"namespaceSelector": {}, "podSelector": in_environments},
            {"podSelector": {"matchExpressions": [of_the_platform]}},
        ],
        "cluster": [ENGINES],
        "metrics": [MONITORING],
    }
    names, peers = policy["egress"]
    assert {port["port"] for port in names["ports"]} == {53, 5353}
    assert peers == {"to": [ENGINES], "ports": [{"port": "cluster", "protocol": "TCP"}]}


def test_the_platform_may_connect_to_the_engine(tools: ManifestTools) -> None:
    egress = rendered(tools)["NetworkPolicy", NAMESPACE, "tieline-egress"]["spec"]["egress"]
    assert {"to": [ENGINES], "ports": [{"port": 4222, "protocol": "TCP"}]} in egress


def test_the_monitoring_port_is_open_to_the_pod_alone(tools: ManifestTools) -> None:
    engine = engine_pod(rendered(tools))["containers"][0]
    assert {port["name"] for port in engine["ports"]} == {"client", "cluster"}
    for name in ("startupProbe", "readinessProbe", "livenessProbe"):
        command = engine[name]["exec"]["command"]
        assert command[0] == "wget"
        assert command[-1].startswith("http://127.0.0.1:8222/healthz?")


def test_an_exporter_shows_the_servers_own_metrics_to_prometheus(tools: ManifestTools) -> None:
    assert len(engine_pod(rendered(tools))["containers"]) == 1
    found = rendered(tools, "engine.exporter.enabled=true,monitors.enabled=true")
    _, exporter = engine_pod(found)["containers"]
    assert exporter["ports"] == [{"name": "metrics", "containerPort": 7777}]
    monitor = found["PodMonitor", NAMESPACE, "tieline-engine"]["spec"]
    assert monitor["podMetricsEndpoints"] == [{"port": "metrics"}]
    assert monitor["selector"] == ENGINES["podSelector"]
    policy = found["NetworkPolicy", NAMESPACE, "tieline-engine"]["spec"]
    (rule,) = [one for one in policy["ingress"] if {"port": "metrics", "protocol": "TCP"} in one["ports"]]
    assert rule["from"] == [MONITORING]
    assert ("PodMonitor", NAMESPACE, "tieline-engine") not in rendered(tools, "monitors.enabled=true")


def test_pods_of_the_engine_are_placed_as_values_say(tools: ManifestTools) -> None:
    found = rendered(
        tools,
        "engine.nodeSelector.disk=ssd",
        "engine.priorityClassName=system-cluster-critical",
        "engine.podAnnotations.team=integration",
        "engine.podLabels.zone=inner",
        "engine.tolerations[0].key=platform",
        "images.pullSecrets={pull}",
    )
    pod, metadata = engine_pod(found), found[STATEFUL_SET]["spec"]["template"]["metadata"]
    assert pod["nodeSelector"] == {"disk": "ssd"}
    assert pod["priorityClassName"] == "system-cluster-critical"
    assert pod["tolerations"] == [{"key": "platform"}]
    assert pod["imagePullSecrets"] == [{"name": "pull"}]
    assert metadata["annotations"] == {"team": "integration"}
    assert metadata["labels"]["zone"] == "inner"
