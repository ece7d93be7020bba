"""What the operator writes for TLS on a real API server, and whether the API and a pod can use it."""

from __future__ import annotations

import base64
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster.kubectl import Kubectl, an_organisation
from tests.harness.processes.ports import free_port
from tests.harness.processes.running_api import RunningApi
from tests.harness.session.waiting import eventually
from tests.integration.operator.cluster_objects import NamespacedKubectl, project_spec
from tests.integration.operator.running_operator import RunningOperator
from tieline_common.authorities import trusting

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def with_tls(
    kubectl: Kubectl,
    crds_installed: None,
    operator_kubeconfig: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[NamespacedKubectl, RunningOperator]]:
    """An organisation whose namespace is that of the release, too."""
    with an_organisation(kubectl) as organisation:
        acting = NamespacedKubectl(kubectl=kubectl, namespace=organisation.namespace)
        running = RunningOperator(
            kubeconfig=operator_kubeconfig,
            namespaces=(organisation.namespace,),
            log=tmp_path_factory.mktemp("operator") / "log",
            variables={
                "TIELINE_TLS": "required",
                "TIELINE_API_URL": f"https://tieline-api-internal.{organisation.namespace}.svc",
                "TIELINE_ENGINE_URL": f"tls://tieline-engine.{organisation.namespace}.svc:4222",
            },
        )
        with running:
            yield acting, running


def read(acting: NamespacedKubectl, kind: str, name: str) -> dict[str, Any]:
    return eventually(
        f"the {kind} {name}", lambda: acting.kubectl.read(kind, name, namespace=acting.namespace)
    )


def test_pods_get_the_authorities_by_which_the_api_is_verified_and_no_key(
    with_tls: tuple[NamespacedKubectl, RunningOperator], tmp_path: Path
) -> None:
    acting, operator = with_tls
    acting.apply("Project", "orders", project_spec())
    deployment = eventually("a Deployment", lambda: next(iter(acting.workload("deployment", "orders")), None))
    pod = deployment["spec"]["template"]["spec"]
    (volume,) = [one["configMap"] for one in pod["volumes"] if one["name"] == "tieline-ca"]
    config_map = read(acting, "configmap", volume["name"])
    authorities = config_map["data"]["ca.crt"]
    assert "PRIVATE" not in str(config_map)
    assert "PRIVATE" not in operator.log.read_text()

    secret = {
        name: base64.b64decode(value)
        for name, value in read(acting, "secret", "tieline-api-tls")["data"].items()
    }
    for name, value in secret.items():
        (tmp_path / name).write_bytes(value)
    api = RunningApi(
        kubeconfig=operator.kubeconfig,
        log=tmp_path / "log",
        variables={
            "TIELINE_TLS": "required",
            "TIELINE_TLS_FOLDER": str(tmp_path),
            "TIELINE_INTERNAL_TLS_PORT": str(port := free_port()),
            "TIELINE_NAMESPACES": acting.namespace,
        },
    )
    with api:
        name = f"tieline-api-internal.{acting.namespace}.svc"
        with (
            socket.create_connection(("127.0.0.1", port), timeout=10) as connection,
            trusting(authorities).wrap_socket(connection, server_hostname=name) as connected,
        ):
            connected.sendall(f"GET /internal/v1/environment HTTP/1.1\r\nHost: {name}\r\n\r\n".encode())
            assert connected.recv(64).startswith(b"HTTP/1.1 401")
        with pytest.raises(OSError), socket.create_connection(("127.0.0.1", api.internal_port), timeout=10):  # noqa: PT011
            pass
        with pytest.raises(ssl.SSLCertVerificationError):
            trusting(authorities).wrap_socket(
                socket.create_connection(("127.0.0.1", port), timeout=10), server_hostname="elsewhere"
            )


def test_authorities_that_somebody_deletes_or_changes_come_back(
    with_tls: tuple[NamespacedKubectl, RunningOperator],
) -> None:
    acting, _ = with_tls
    before = read(acting, "configmap", "tieline-ca")["data"]

    def restored() -> bool:
        found = acting.kubectl.read("configmap", "tieline-ca", namespace=acting.namespace)
        return bool(found["data"] == before)

    acting.kubectl("delete", "configmap", "tieline-ca", namespace=acting.namespace)
    eventually("the authorities are back", restored)
    patch = '{"data":{"ca.crt":"foreign"}}'
    acting.kubectl(
        "patch", "configmap", "tieline-ca", "--type=merge", "-p", patch, namespace=acting.namespace
    )
    eventually("the authorities are as they were", restored)
