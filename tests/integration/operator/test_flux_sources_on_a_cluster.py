"""Projects whose files are in Git, with Flux's real source-controller between."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster.kubectl import Kubectl
from tests.harness.processes.git_server import GitRepository
from tests.harness.processes.source_controller import (
    SourceController,
    install_sources,
    source_controller_program,
)
from tests.harness.session.uncaptured_progress import UncapturedProgress
from tests.harness.session.waiting import eventually
from tests.integration.operator.cluster_objects import NamespacedKubectl, project_spec, ready
from tests.integration.operator.running_operator import RunningOperator
from tieline_core.resources.projects import SourceKind

pytestmark = pytest.mark.cluster

MAIN = "orders/integration/main.py"


@pytest.fixture(scope="module")
def controller(
    kubectl: Kubectl,
    kubeconfig: Path,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[SourceController]:
    progress = UncapturedProgress(request.config.pluginmanager.getplugin("capturemanager"))
    install_sources(kubectl, progress)
    program = source_controller_program(progress)
    with SourceController(program, kubeconfig, tmp_path_factory.mktemp("flux")) as running:
        yield running


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[GitRepository]:
    with GitRepository(tmp_path / "shop") as made:
        yield made


def _of_git(acting: NamespacedKubectl, repository: GitRepository) -> None:
    """Follows the repository's branch, as somebody with Flux does."""
    manifest = {
        "apiVersion": "source.toolkit.fluxcd.io/v1",
        "kind": "GitRepository",
        "metadata": {"name": "shop", "namespace": acting.namespace},
        "spec": {"url": repository.url, "interval": "2s", "ref": {"branch": "main"}},
    }
    acting.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(manifest))


def _from_git(path: str = "orders", kind: str = "GitRepository") -> dict[str, Any]:
    return project_spec(source={"sourceRef": {"kind": kind, "name": "shop", "path": path}})


def _source(acting: NamespacedKubectl) -> dict[str, Any]:
    found: dict[str, Any] = acting.get("project", "orders").get("status", {}).get("source", {})
    return found


def _until_revision(acting: NamespacedKubectl, commit: str) -> dict[str, Any]:
    return eventually(
        f"commit {commit[:8]} is read",
        lambda: (found := _source(acting)).get("revision") == f"main@sha1:{commit}" and found,
        seen=lambda: acting.get("project", "orders").get("status"),
    )


def _deployed(acting: NamespacedKubectl) -> str | None:
    """The version in the Deployment's template."""
    for deployment in acting.workload("deployment", "orders"):
        found: str = deployment["spec"]["template"]["metadata"]["annotations"]["tieline.dev/version"]
        return found
    return None


def _files(acting: NamespacedKubectl, version: str) -> set[str]:
    spec = acting.get("projectversion", version)["spec"]
    return {item["path"] for pack in spec["configMaps"] for item in pack["items"]}


def test_a_project_follows_a_folder_of_a_git_repository(
    controller: SourceController,
    repository: GitRepository,
    kubectl: Kubectl,
    operator_kubeconfig: Path,
    namespace: str,
    tmp_path: Path,
) -> None:
    acting = NamespacedKubectl(kubectl=kubectl, namespace=namespace)
    running = RunningOperator(kubeconfig=operator_kubeconfig, namespaces=(namespace,), log=tmp_path / "log")
    with running:
        acting.apply("Project", "orders", _from_git())
        assert (
            'GitRepository "shop" does not exist'
            in ready(acting.until_ready("project", "orders", "False", "FilesMissing"))["message"]
        )

        first = repository.commit({MAIN: "x = 1\n", "orders/integration/shop.py": "", "README.md": "Shop"})
        _of_git(acting, repository)
        _until_revision(acting, first)
        one = eventually("it is deployed", lambda: _deployed(acting))
        assert _files(acting, one) == {"main.py", "shop.py"}

        # A new file needs no change of a manifest.
        second = repository.commit({"orders/integration/prices.py": "y = 2\n"})
        _until_revision(acting, second)
        two = eventually("the new file is deployed", lambda: (new := _deployed(acting)) != one and new)
        assert _files(acting, str(two)) == {"main.py", "shop.py", "prices.py"}

        # What is no code makes no version, and no rollout.
        third = repository.commit({"README.md": "The shop"})
        _until_revision(acting, third)
        assert _deployed(acting) == two
        assert len(acting.list("projectversion", "tieline.dev/project=orders")) == 2

        # What cannot run is said, and what runs goes on.
        repository.commit({MAIN: None})
        refused = ready(acting.until_ready("project", "orders", "False", "FilesMissing"))
        assert "There is no main.py" in refused["message"]
        assert _deployed(acting) == two
        fifth = repository.commit({MAIN: "x = 3\n"})
        _until_revision(acting, fifth)
        three = eventually("it is deployed again", lambda: (new := _deployed(acting)) != two and new)

    # An operator that starts anew downloads nothing again.
    before = acting.get("project", "orders")["status"]["source"]
    controller.stop()
    with running:
        acting.run("annotate", "project", "orders", "example.org/looked=at")
        acting.apply("Project", "orders", {**_from_git(), "name": "Orders of the shop"})
        eventually(
            "the change is seen",
            lambda: (
                (now := acting.get("project", "orders"))["status"]["observedGeneration"]
                == now["metadata"]["generation"]
            ),
        )
        assert _source(acting) == before
        assert _deployed(acting) == three
        acting.until_environment("orders", "error")  # the image cannot be had
        # Another folder has to be read, and cannot be now.
        acting.apply("Project", "orders", _from_git("orders/integration"))
        away = ready(acting.until_ready("project", "orders", "False", "FilesMissing"))
        assert "cannot be downloaded from source-controller" in away["message"]
        assert _deployed(acting) == three
        controller.start()
        eventually("it is read", lambda: _source(acting).get("path") == "orders/integration")

        for kind in set(SourceKind) - {SourceKind.GIT_REPOSITORY}:
            acting.apply("Project", "orders", _from_git(kind=kind.value))
            eventually(
                f"no {kind} is there",
                lambda kind=kind: (
                    f'{kind.value} "shop" does not exist' in ready(acting.get("project", "orders"))["message"]
                ),
            )
        assert _deployed(acting) == three


def test_files_from_git_and_from_elsewhere_are_not_mixed(kubectl: Kubectl, namespace: str) -> None:
    acting = NamespacedKubectl(kubectl=kubectl, namespace=namespace)
    source = {**_from_git()["source"], "files": [{"filename": "main.py", "content": ""}]}
    manifest = {
        "apiVersion": "tieline.dev/v1alpha1",
        "kind": "Project",
        "metadata": {"name": "mixed", "namespace": namespace},
        "spec": project_spec(source=source),
    }
    refused = kubectl("apply", "-f", "-", stdin=json.dumps(manifest), check=False)
    assert "remove files and configMaps, or sourceRef" in refused.stderr
    with pytest.raises(AssertionError):
        acting.get("project", "mixed")
