"""A release by helm through its life: from nothing, upgraded under load, removed, and brought back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.harness.clients.constant_load import ConstantLoad
from tests.harness.cluster import chart_archives
from tests.harness.cluster.deployed_platform import Tenant, http
from tests.harness.cluster.kubectl import ROOT, Kubectl
from tests.harness.cluster.releases import PLATFORM_NAMESPACE, Helm, Release, running, settled, written
from tests.harness.session import fast_yaml
from tests.harness.session.waiting import eventually
from tests.install.organisation import orders, populated, rolled_for_the_engine

pytestmark = pytest.mark.e2e

_WAITING = ("--wait", "--timeout", "180s")
_LABEL = "app.kubernetes.io/part-of=tieline"


def _values(platform: Release, runtime: Release) -> dict[str, Any]:
    # The built-in cluster has no storage class.
    engine = {"engine": {"image": platform.images["engine"], "persistence": {"enabled": False}}}
    return {
        **(engine if (platform.chart / "templates" / "engine.yaml").exists() else {}),
        "images": {"platform": platform.images["platform"], "runtime": runtime.images["runtime"]},
        "configuration": {"TIELINE_PUBLIC_URL_TEMPLATE": "http://{clusterIP}"},
    }


def _release(command: str, release: Release, chart: Path | None = None) -> tuple[Any, ...]:
    return (command, "tieline", chart or release.chart, "-n", PLATFORM_NAMESPACE, *_WAITING)


def _api_answers(kubectl: Kubectl) -> None:
    address = kubectl(
        "get", "service", "tieline-api", "-o", "jsonpath={.spec.clusterIP}", namespace=PLATFORM_NAMESPACE
    ).stdout
    eventually("the API answers", lambda: http("GET", f"http://{address}/readyz", timeout=5).status == 200)
    # It is made when it is first asked for: a second of processor time, of which a pod may get little.
    document = http("GET", f"http://{address}/openapi.json", timeout=60)
    assert document.json["info"]["title"] == "Tieline"


def _engine_runs(kubectl: Kubectl) -> None:
    """The restricted namespace admits its pod, and it is ready."""
    rollout = ("rollout", "status", "statefulset/tieline-engine", "--timeout=60s")
    kubectl(*rollout, namespace=PLATFORM_NAMESPACE, timeout=80)


def _archives(helm: Helm, folder: Path) -> list[Path]:
    """The chart as Flux, ``git archive`` and ``helm package`` make it."""
    repository = chart_archives.checkout(folder / "repository")
    return [
        chart_archives.from_flux(repository, folder / "flux"),
        chart_archives.from_git(repository, folder / "git"),
        chart_archives.packaged(helm.program, repository, folder),
    ]


def _images(tenant: Tenant) -> set[str]:
    return {pod["spec"]["containers"][0]["image"] for pod in tenant.pods("orders")}


def test_a_release_is_installed_upgraded_under_load_removed_and_brought_back_without_touching_what_runs(
    helm: Helm, kubectl: Kubectl, previous: Release, this: Release, tmp_path: Path
) -> None:
    kubectl("create", "namespace", PLATFORM_NAMESPACE)
    restricted = "pod-security.kubernetes.io/enforce=restricted"
    kubectl("label", "namespace", PLATFORM_NAMESPACE, restricted)

    helm(*_release("install", previous), values=_values(previous, previous))
    _api_answers(kubectl)
    tenant = populated(kubectl)
    settled(kubectl)
    with ConstantLoad(tenant.environment("orders")["publicUrl"]) as load:
        eventually("calls answered", lambda: load.answered["one"] and load.answered["slow one"])

        # The platform alone. It brings the engine, so environments get pods with credentials for it, once. What else
        # this release writes once is in the changelog.
        helm(*_release("upgrade", this), values=_values(this, previous))
        eventually("pods with credentials for the engine", lambda: rolled_for_the_engine(tenant))
        settled(kubectl)
        _api_answers(kubectl)
        _engine_runs(kubectl)
        before = written(kubectl, tenant.namespace)

        # However the chart is fetched, an upgrade keeps definitions and policies.
        guards = _guards(kubectl)
        for chart in _archives(helm, tmp_path):
            helm(*_release("upgrade", this, chart), values=_values(this, previous))
            assert _guards(kubectl) == guards, chart

        # Another operator: nothing that runs is written.
        restart = ("rollout", "restart", "deployment/tieline-operator")
        kubectl(*restart, namespace=PLATFORM_NAMESPACE)
        settled(kubectl)
        assert running(written(kubectl, tenant.namespace)) == running(before)

        # A new runtime: every environment is rolled, pod by pod.
        helm(*_release("upgrade", this), values=_values(this, this))
        eventually("the new runtime alone", lambda: _images(tenant) == {this.images["runtime"]})
        tenant.until("orders", "running")
        settled(kubectl)

        # A cluster of engines would delete the streams of a single one.
        three = {**_values(this, this), "engine": {**_values(this, this)["engine"], "replicas": 3}}
        said = helm(*_release("upgrade", this), values=three, check=False)
        assert "The engine has 1 replicas, and engine.replicas is 3: see docs/operations.md" in said

        # Removed: what was made stays, and serves.
        before = written(kubectl, tenant.namespace)
        said = helm("uninstall", "tieline", "-n", PLATFORM_NAMESPACE, "--wait")
        assert "CustomResourceDefinition" in said, "helm tells what it keeps"
        _definitions_and_their_policies_stay(kubectl)
        assert written(kubectl, tenant.namespace) == before
        calls = load.total
        eventually("calls answered without a platform", lambda: load.total > calls + 100)

        # Brought back: it takes up what is there.
        helm(*_release("install", this), values=_values(this, this))
        settled(kubectl)
        assert written(kubectl, tenant.namespace) == before
        tenant.apply(orders("two"))
        eventually("the next version answers", lambda: load.answered["two"])
        eventually("the old pod has ended", lambda: len(tenant.pods("orders")) == 1)
    assert not load.lost, (len(load.lost), load.lost[:20])
    assert load.total > 1000


def _guards(kubectl: Kubectl) -> dict[str, str]:
    """The uids of all definitions and admission policies: another one is a deletion."""
    kinds = "customresourcedefinitions,validatingadmissionpolicies,validatingadmissionpolicybindings"
    columns = "custom-columns=kind:.kind,name:.metadata.name,uid:.metadata.uid"
    rows = kubectl("get", kinds, "-l", _LABEL, "--no-headers", "-o", columns).stdout.splitlines()
    return {f"{kind}/{name}": uid for kind, name, uid in map(str.split, rows)}


def _definitions_and_their_policies_stay(kubectl: Kubectl) -> None:
    """As docs/install.md says."""
    assert not kubectl("get", "clusterroles,clusterrolebindings", "-l", _LABEL, "-o", "name").stdout.split()
    files = [*(ROOT / "crds").glob("*.yaml"), *(ROOT / "deploy" / "policies").glob("*.yaml")]
    found = [one for file in files for one in fast_yaml.load_all(file.read_text())]
    stay = {f"{one['kind']}/{one['metadata']['name']}" for one in found if one["kind"] != "Kustomization"}
    assert _guards(kubectl).keys() == stay
    kinds = (
        "deployments,statefulsets,services,serviceaccounts,roles,rolebindings,networkpolicies,"
        "poddisruptionbudgets,configmaps"
    )
    inside = kubectl("get", kinds, "-o", "name", namespace=PLATFORM_NAMESPACE).stdout.split()
    stay_inside = {"serviceaccount/default", "configmap/kube-root-ca.crt", "configmap/tieline-organisations"}
    assert set(inside) == stay_inside
