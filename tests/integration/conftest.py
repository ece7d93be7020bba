"""Who the tests act as: API and operator with their own rights, and people with roles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness.cluster.admission_policies import install_policies
from tests.harness.cluster.kubectl import ROOT, Kubectl
from tests.harness.cluster.service_accounts import ROLES, confined
from tests.integration.api.oauth_provider import Provider
from tests.integration.oauth.signing_provider import signing_provider
from tests.unit.oauth.oauth1_provider import OAuth1Provider


@pytest.fixture(scope="session")
def policies_installed(kubectl: Kubectl, crds_installed: None) -> None:
    """The admission policies of this checkout, in force."""
    kubectl("apply", "-f", str(ROLES / "roles.yaml"))
    install_policies(kubectl, ROOT / "deploy" / "policies")


@pytest.fixture(scope="session")
def api_kubeconfig(
    kubectl: Kubectl, kubeconfig: Path, policies_installed: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """A kubeconfig with just the rights of deploy/base/api-rbac.yaml."""
    folder = tmp_path_factory.mktemp("api")
    with confined("api", kubectl=kubectl, kubeconfig=kubeconfig, folder=folder) as made:
        yield made


@pytest.fixture(scope="session")
def operator_kubeconfig(
    kubectl: Kubectl, kubeconfig: Path, policies_installed: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """A kubeconfig with just the rights of deploy/base/operator-rbac.yaml."""
    folder = tmp_path_factory.mktemp("operator-account")
    with confined("operator", kubectl=kubectl, kubeconfig=kubeconfig, folder=folder) as made:
        yield made


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
        # The default of an hour can be shorter than a session of tests.
        return kubectl("create", "token", name, "--duration=6h", namespace=namespace).stdout.strip()

    return make


@pytest.fixture
def login() -> Iterator[Provider]:
    """An OAuth server on this machine."""
    with Provider() as running:
        yield running


@pytest.fixture
def signing() -> Iterator[OAuth1Provider]:
    """A server of OAuth 1.0 on this machine."""
    with signing_provider() as running:
        yield running
