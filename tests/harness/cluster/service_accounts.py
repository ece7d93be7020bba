"""ServiceAccounts with just the rights that a part of the platform has when deployed, for its processes in tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from tests.harness.cluster.kubectl import ROOT, Kubectl
from tests.harness.session import fast_yaml
from tieline_core.identity.ids import new_id

ROLES = ROOT / "deploy" / "base"
# Sessions that share a cluster must not take it from each other.
_SESSION = new_id()[-8:].lower()


PARTS = ("operator", "api")
"""Of the platform."""
PLATFORM = "tieline-system"
"""The namespace in which it is deployed."""


def deployed_account_of(part: str) -> str:
    """The username of a part in its pods."""
    return f"system:serviceaccount:{PLATFORM}:tieline-{part}"


def account_of(part: str) -> str:
    """The username of ``api`` or ``operator`` where it runs as a process of this session."""
    return f"system:serviceaccount:default:{_name(part)}"


@contextmanager
def confined(part: str, *, kubectl: Kubectl, kubeconfig: Path, folder: Path) -> Iterator[Path]:
    """A kubeconfig of an account with the rights of ``deploy/base/<part>-rbac.yaml``, in all namespaces.

    Those to Secrets too, which the operator gives in each organisation where the platform is deployed.
    """
    name = _name(part)
    files = (f"{part}-rbac.yaml", "secrets-rbac.yaml")
    documents = [one for file in files for one in fast_yaml.load_all((ROLES / file).read_text())]
    # What a Role gives in the platform's namespace is needed wherever a test keeps its Lease.
    rules = [rule for one in documents if one["kind"] in ("ClusterRole", "Role") for rule in one["rules"]]
    rbac = "rbac.authorization.k8s.io"
    objects = [
        {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}],
        },
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "default"}},
    ]
    kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(objects))
    token = kubectl("create", "token", name, "--duration=12h", namespace="default").stdout.strip()
    config = fast_yaml.load(kubeconfig.read_text())
    config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
    config["current-context"] = kubectl.context or config["current-context"]
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    try:
        yield path
    finally:
        _take_back(name, kubectl)


def _take_back(name: str, kubectl: Kubectl) -> None:
    for kind in ("clusterrolebinding", "clusterrole"):
        kubectl("delete", kind, name)
    kubectl("delete", "serviceaccount", name, namespace="default")


def _name(part: str) -> str:
    return f"tieline-{part}-under-test-{_SESSION}"
