"""One cluster for the whole session, a namespace for each test, and the platform deployed once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.kubectl import ROOT, Kubectl, Organisation, make_organisation

_STAGES = ("unit", "cluster", "integration", "e2e")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Fast tests first: what is cheap to know is known before a cluster starts."""

    def stage(item: pytest.Item) -> int:
        folder = item.path.relative_to(ROOT / "tests").parts[0]
        return _STAGES.index(folder) if folder in _STAGES else len(_STAGES)

    items.sort(key=stage)


@pytest.fixture(scope="session")
def kubeconfig() -> Path:
    return Path(os.environ["TIELINE_TEST_KUBECONFIG"])


@pytest.fixture(scope="session")
def kubectl(kubeconfig: Path) -> Kubectl:
    return Kubectl(binary=os.environ.get("TIELINE_KUBECTL", "kubectl"), kubeconfig=kubeconfig)


@pytest.fixture(scope="session")
def crds_installed(kubectl: Kubectl) -> None:
    """The definitions of this checkout, established."""
    applied = kubectl("apply", "--server-side", "--force-conflicts", "-k", str(ROOT / "crds"), "-o", "name")
    kubectl("wait", "--for=condition=Established", "--timeout=60s", *applied.stdout.split())


@pytest.fixture
def organisation(kubectl: Kubectl, crds_installed: None) -> Iterator[Organisation]:
    """An organisation of the test's own, removed after it."""
    made = make_organisation(kubectl)
    yield made
    kubectl("delete", "namespace", made.namespace, "--wait=false")


@pytest.fixture
def namespace(organisation: Organisation) -> str:
    return organisation.namespace
