"""One cluster for the whole session, a namespace for each test, and the platform deployed once."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tieline_core.ids import ORGANISATION_LABEL, new_id

ROOT = Path(__file__).resolve().parents[1]
_STAGES = ("unit", "cluster", "integration", "e2e")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Fast tests first: what is cheap to know is known before a cluster starts."""

    def stage(item: pytest.Item) -> int:
        folder = item.path.relative_to(ROOT / "tests").parts[0]
        return _STAGES.index(folder) if folder in _STAGES else len(_STAGES)

    items.sort(key=stage)


@dataclass(frozen=True)
class Kubectl:
    """``kubectl`` on the session's cluster: ``kubectl("get", "pods", namespace=…)``."""

    binary: str
    kubeconfig: Path

    def __call__(
        self,
        *arguments: str,
        namespace: str | None = None,
        stdin: str | None = None,
        check: bool = True,
        timeout: float = 120,
    ) -> subprocess.CompletedProcess[str]:
        command = [self.binary, *(["-n", namespace] if namespace else []), *arguments]
        done = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig)},
        )
        assert not (check and done.returncode), f"{' '.join(command)}: {done.stderr}"
        return done


@dataclass(frozen=True)
class Organisation:
    """A namespace that is an organisation."""

    id: str
    namespace: str


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


def make_organisation(kubectl: Kubectl) -> Organisation:
    """A namespace with an organisation's label, and its default ServiceAccount in place."""
    identifier = new_id()
    name = f"org-{identifier.lower()}"
    kubectl("create", "namespace", name)
    kubectl("label", "namespace", name, f"{ORGANISATION_LABEL}={identifier}")
    return Organisation(id=identifier, namespace=name)
