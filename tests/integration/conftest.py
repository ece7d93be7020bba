"""Who the tests act as on the session's cluster: the API with its own rights, and people with roles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.harness.kubectl import ROOT, Kubectl
from tieline_core.ids import new_id

# Sessions that share a cluster must not take it from each other.
_ACCOUNT = f"tieline-api-under-test-{new_id()[-8:].lower()}"


@pytest.fixture(scope="session")
def api_kubeconfig(
    kubectl: Kubectl, kubeconfig: Path, crds_installed: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """A kubeconfig with just the rights of deploy/base/api-rbac.yaml."""
    roles = ROOT / "deploy" / "base"
    kubectl("apply", "-f", str(roles / "roles.yaml"))
    role = next(
        document
        for document in yaml.safe_load_all((roles / "api-rbac.yaml").read_text())
        if document["kind"] == "ClusterRole"
    )
    role["metadata"]["name"] = _ACCOUNT
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": _ACCOUNT},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": _ACCOUNT},
        "subjects": [{"kind": "ServiceAccount", "name": _ACCOUNT, "namespace": "default"}],
    }
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": _ACCOUNT, "namespace": "default"},
    }
    kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all([role, binding, account]))
    token = kubectl("create", "token", _ACCOUNT, namespace="default").stdout.strip()
    config = yaml.safe_load(kubeconfig.read_text())
    config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
    config["current-context"] = kubectl.context or config["current-context"]
    path = tmp_path_factory.mktemp("api") / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    yield path
    for kind in ("clusterrolebinding", "clusterrole"):
        kubectl("delete", kind, _ACCOUNT)
    kubectl("delete", "serviceaccount", _ACCOUNT, namespace="default")


@pytest.fixture(scope="session")
def token_for(kubectl: Kubectl) -> Callable[..., str]:
    """A token of a ServiceAccount in a namespace, bound there to a ClusterRole; both are made when missing."""
    made: set[tuple[str, str, str | None]] = set()

    def make(namespace: str, name: str, role: str | None) -> str:
        if (namespace, name, role) not in made:
            made.add((namespace, name, role))
            kubectl("create", "serviceaccount", name, namespace=namespace)
            if role:
                kubectl(
                    "create",
                    "rolebinding",
                    f"{name}-is-{role}",
                    f"--clusterrole={role}",
                    f"--serviceaccount={namespace}:{name}",
                    namespace=namespace,
                )
        return kubectl("create", "token", name, namespace=namespace).stdout.strip()

    return make
