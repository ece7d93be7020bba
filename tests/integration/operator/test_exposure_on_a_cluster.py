"""Ingresses and HTTPRoutes of environments on a real API server, with the rights that the operator is deployed with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.harness.cluster.gateway_api import install_http_routes
from tests.harness.cluster.kubectl import Kubectl
from tests.harness.session.uncaptured_progress import UncapturedProgress
from tests.harness.session.waiting import eventually
from tests.integration.operator.cluster_objects import NamespacedKubectl, project_spec
from tests.integration.operator.running_operator import RunningOperator

pytestmark = pytest.mark.cluster

INGRESS = {
    "TIELINE_EXPOSE": "ingress",
    "TIELINE_PUBLIC_URL_TEMPLATE": "https://{name}.{namespace}.hooks.example",
    "TIELINE_INGRESS_CLASS": "nginx",
    "TIELINE_INGRESS_TLS_SECRET": "hooks-tls",
    "TIELINE_EXPOSE_ANNOTATIONS": '{"example.org/buffering": "off"}',
}
ROUTE = {
    "TIELINE_EXPOSE": "httproute",
    "TIELINE_PUBLIC_URL_TEMPLATE": "https://hooks.example/{namespace}/{name}",
    "TIELINE_GATEWAY": "infra/edge/https",
}


@pytest.fixture
def acting(kubectl: Kubectl, namespace: str) -> NamespacedKubectl:
    return NamespacedKubectl(kubectl=kubectl, namespace=namespace)


@contextmanager
def _operator(account: Path, namespace: str, folder: Path, **variables: str) -> Iterator[RunningOperator]:
    running = RunningOperator(
        kubeconfig=account, namespaces=(namespace,), log=folder / "log", variables=variables
    )
    with running:
        yield running


def _names(acting: NamespacedKubectl, kind: str) -> list[str]:
    return [item["metadata"]["name"] for item in acting.workload(kind, "orders")]


def _hosts(acting: NamespacedKubectl, kind: str, name: str) -> list[str]:
    spec = acting.get(kind, name)["spec"]
    return list(spec["hostnames"]) if kind == "httproute" else [rule["host"] for rule in spec["rules"]]


def _address(acting: NamespacedKubectl) -> str:
    return str(acting.get("project", "orders")["status"]["environments"][0]["publicUrl"])


def test_entrances_are_made_kept_mended_and_replaced_as_the_administrator_says(
    operator_kubeconfig: Path,
    kubectl: Kubectl,
    acting: NamespacedKubectl,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    install_http_routes(kubectl, UncapturedProgress(request.config.pluginmanager.getplugin("capturemanager")))
    acting.apply("Project", "orders", project_spec())
    with _operator(operator_kubeconfig, acting.namespace, tmp_path, **INGRESS) as operator:
        (service,) = eventually("a Service", lambda: _names(acting, "service"))
        assert eventually("an Ingress", lambda: _names(acting, "ingress")) == [service]
        host = f"{service}.{acting.namespace}.hooks.example"
        eventually("the address in the status", lambda: _address(acting) == f"https://{host}")
        ingress = acting.get("ingress", service)
        assert ingress["spec"]["tls"] == [{"hosts": [host], "secretName": "hooks-tls"}]
        assert _hosts(acting, "ingress", service) == [host]
        assert ingress["metadata"]["annotations"]["example.org/buffering"] == "off"

        # Suspended it stays as it is; changed by hand it is mended, deleted by hand it comes back.
        environment = {"name": "production", "version": "latest", "suspended": True}
        acting.apply("Project", "orders", project_spec(environments=[environment]))
        acting.until_environment("orders", "suspended")
        again = acting.get("ingress", service)["metadata"]
        assert again["resourceVersion"] == ingress["metadata"]["resourceVersion"]
        change = '[{"op": "replace", "path": "/spec/rules/0/host", "value": "elsewhere.example"}]'
        acting.run("patch", "ingress", service, "--type=json", "-p", change)
        eventually("the Ingress is mended", lambda: _hosts(acting, "ingress", service) == [host])
        acting.run("delete", "ingress", service)
        eventually("the Ingress is back", lambda: _names(acting, "ingress") == [service])
        writes = operator.writes()

    with _operator(operator_kubeconfig, acting.namespace, tmp_path, **INGRESS) as operator:
        assert writes
        assert not operator.writes(), "started again, it finds all as it should be"

    with _operator(operator_kubeconfig, acting.namespace, tmp_path, **ROUTE):
        eventually("an HTTPRoute", lambda: _names(acting, "httproute") == [service])
        eventually("no Ingress", lambda: not _names(acting, "ingress"))
        eventually(
            "the address in the status",
            lambda: _address(acting) == f"https://hooks.example/{acting.namespace}/{service}",
        )
        spec = acting.get("httproute", service)["spec"]
        parents = [(one["namespace"], one["name"], one["sectionName"]) for one in spec["parentRefs"]]
        assert parents == [("infra", "edge", "https")]
        acting.run(
            "patch", "httproute", service, "--type=merge", "-p", '{"spec": {"hostnames": ["else.example"]}}'
        )
        eventually(
            "the HTTPRoute is mended", lambda: _hosts(acting, "httproute", service) == ["hooks.example"]
        )
        version = acting.get("httproute", service)["metadata"]["resourceVersion"]

    with _operator(operator_kubeconfig, acting.namespace, tmp_path, **ROUTE) as operator:
        assert not operator.writes(), "what the API server adds to a route is no difference"
        assert acting.get("httproute", service)["metadata"]["resourceVersion"] == version

    with _operator(operator_kubeconfig, acting.namespace, tmp_path):
        eventually("no HTTPRoute", lambda: not _names(acting, "httproute"))
        eventually("the Service's address", lambda: _address(acting).startswith("http://10."))


def test_of_two_environments_with_one_host_the_first_keeps_it(
    operator_kubeconfig: Path, kubectl: Kubectl, acting: NamespacedKubectl, tmp_path: Path
) -> None:
    ambiguous = {
        **INGRESS,
        "TIELINE_PUBLIC_URL_TEMPLATE": "https://{namespace}-{project}-{environment}.example",
    }
    with _operator(operator_kubeconfig, acting.namespace, tmp_path, **ambiguous):
        first = [{"name": "c", "version": "latest"}]
        acting.apply("Project", "a-b", project_spec(environments=first))
        eventually("an Ingress", lambda: acting.workload("ingress", "a-b", "c"))
        second = [{"name": "b-c", "version": "latest"}]
        acting.apply("Project", "a", project_spec(environments=second))
        acting.until_ready("project", "a", "False", "HostTaken")
        assert not acting.workload("ingress", "a", "b-c")
        assert acting.workload("ingress", "a-b", "c")
        acting.run("delete", "project", "a-b")
        eventually("its host is free", lambda: not acting.list("ingress"))
        acting.apply("Project", "a", project_spec("print('two')\n", environments=second))
        eventually("an Ingress", lambda: acting.workload("ingress", "a", "b-c"))
