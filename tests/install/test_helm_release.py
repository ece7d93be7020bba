"""A release by helm through its life: from nothing, upgraded under load, removed, and brought back."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.clients.constant_load import ConstantLoad
from tests.harness.cluster.deployed_platform import World, http
from tests.harness.cluster.kubectl import Kubectl
from tests.harness.cluster.releases import PLATFORM_NAMESPACE, Helm, Release, running, settled, written
from tests.harness.session.waiting import eventually
from tests.install.organisation import orders, populated, rolled_for_the_engine

pytestmark = pytest.mark.e2e

_WAITING = ("--wait", "--timeout", "180s")


def _values(platform: Release, runtime: Release) -> dict[str, Any]:
    # The built-in cluster has no storage class.
    engine = {"engine": {"image": platform.images["engine"], "persistence": {"enabled": False}}}
    return {
        **(engine if (platform.chart / "templates" / "engine.yaml").exists() else {}),
        "images": {"platform": platform.images["platform"], "runtime": runtime.images["runtime"]},
        "configuration": {"TIELINE_PUBLIC_URL_TEMPLATE": "http://{clusterIP}"},
    }


def _release(command: str, chart: Release) -> tuple[Any, ...]:
    return (command, "tieline", chart.chart, "-n", PLATFORM_NAMESPACE, *_WAITING)


def _api_answers(kubectl: Kubectl) -> None:
    address = kubectl(
        "get", "service", "tieline-api", "-o", "jsonpath={.spec.clusterIP}", namespace=PLATFORM_NAMESPACE
    ).stdout
    eventually("the API answers", lambda: http("GET", f"http://{address}/readyz", timeout=5).status == 200)
    document = http("GET", f"http://{address}/openapi.json", timeout=10)
    assert document.json["info"]["title"] == "Tieline"


def _engine_runs(kubectl: Kubectl) -> None:
    """The restricted namespace admits its pod, and it is ready."""
    rollout = ("rollout", "status", "statefulset/tieline-engine", "--timeout=60s")
    kubectl(*rollout, namespace=PLATFORM_NAMESPACE, timeout=80)


def _images(world: World) -> set[str]:
    return {pod["spec"]["containers"][0]["image"] for pod in world.pods("orders")}


def test_a_release_is_installed_upgraded_under_load_removed_and_brought_back_without_touching_what_runs(
    helm: Helm, kubectl: Kubectl, previous: Release, this: Release
) -> None:
    kubectl("create", "namespace", PLATFORM_NAMESPACE)
    restricted = "pod-security.kubernetes.io/enforce=restricted"
    kubectl("label", "namespace", PLATFORM_NAMESPACE, restricted)

    helm(*_release("install", previous), values=_values(previous, previous))
    _api_answers(kubectl)
    world = populated(kubectl)
    settled(kubectl)
    with ConstantLoad(world.environment("orders")["publicUrl"]) as load:
        eventually("calls answered", lambda: load.answered["one"] and load.answered["slow one"])

        # The platform alone. It brings the engine, so environments get pods with credentials for it, once. What else
        # this release writes once is in the changelog.
        helm(*_release("upgrade", this), values=_values(this, previous))
        eventually("pods with credentials for the engine", lambda: rolled_for_the_engine(world))
        settled(kubectl)
        _api_answers(kubectl)
        _engine_runs(kubectl)
        before = written(kubectl, world.namespace)

        # Another operator: nothing that runs is written.
        restart = ("rollout", "restart", "deployment/tieline-operator")
        kubectl(*restart, namespace=PLATFORM_NAMESPACE)
        settled(kubectl)
        assert running(written(kubectl, world.namespace)) == running(before)

        # A new runtime: every environment is rolled, pod by pod.
        helm(*_release("upgrade", this), values=_values(this, this))
        eventually("the new runtime alone", lambda: _images(world) == {this.images["runtime"]})
        world.until("orders", "running")
        settled(kubectl)

        # A cluster of engines would delete the streams of a single one.
        three = {**_values(this, this), "engine": {**_values(this, this)["engine"], "replicas": 3}}
        said = helm(*_release("upgrade", this), values=three, check=False)
        assert "The engine has 1 replicas, and engine.replicas is 3: see docs/operations.md" in said

        # Removed: what was made stays, and serves.
        before = written(kubectl, world.namespace)
        said = helm("uninstall", "tieline", "-n", PLATFORM_NAMESPACE, "--wait")
        assert "CustomResourceDefinition" in said, "helm tells what it keeps"
        _only_definitions_stay(kubectl)
        assert written(kubectl, world.namespace) == before
        calls = load.total
        eventually("calls answered without a platform", lambda: load.total > calls + 100)

        # Brought back: it takes up what is there.
        helm(*_release("install", this), values=_values(this, this))
        settled(kubectl)
        assert written(kubectl, world.namespace) == before
        world.apply(orders("two"))
        eventually("the next version answers", lambda: load.answered["two"])
        eventually("the old pod has ended", lambda: len(world.pods("orders")) == 1)
    assert not load.lost, (len(load.lost), load.lost[:20])
    assert load.total > 1000


def _only_definitions_stay(kubectl: Kubectl) -> None:
    """As docs/install.md says."""
    label = "app.kubernetes.io/part-of=tieline"
    kinds = (
        "clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings,"
        "customresourcedefinitions"
    )
    left = kubectl("get", kinds, "-l", label, "-o", "name").stdout.split()
    assert left
    assert all(name.startswith("customresourcedefinition.") for name in left)
    kinds = (
        "deployments,statefulsets,services,serviceaccounts,roles,rolebindings,networkpolicies,"
        "poddisruptionbudgets,configmaps"
    )
    inside = kubectl("get", kinds, "-o", "name", namespace=PLATFORM_NAMESPACE).stdout.split()
    assert set(inside) == {"serviceaccount/default", "configmap/kube-root-ca.crt"}
