"""A cluster of these tests' own: they install, upgrade and remove what others work with."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import CLUSTER, KEEP, sole_use_of
from tests.harness.cluster.kubectl import Kubectl
from tests.harness.cluster.manifest_tools import manifest_tools
from tests.harness.cluster.releases import Helm, Release, previous_release, this_release
from tests.harness.session.uncaptured_progress import UncapturedProgress
from tieline_cluster.deployment.kubectl import kubectl_for
from tieline_cluster.progress import Progress
from tieline_cluster.providers import Cluster, ClusterProvider, choose_provider

_NAME = f"{CLUSTER}-install"


@pytest.fixture(scope="session")
def empty_provider(request: pytest.FixtureRequest) -> ClusterProvider:
    kind = os.environ.get("TIELINE_TEST_PROVIDER", "auto")
    if kind == "existing":
        pytest.skip("installs and removes the platform: needs a cluster of its own")
    capture = request.config.pluginmanager.getplugin("capturemanager")
    options = {} if KEEP else {"install": True, "fsync": False}
    return choose_provider(kind, name=_NAME, progress=UncapturedProgress(capture), **options)


@pytest.fixture(scope="session")
def empty_cluster(empty_provider: ClusterProvider) -> Iterator[Cluster]:
    """A cluster without Tieline."""
    with sole_use_of(_NAME):
        yield empty_provider.up()
        if not KEEP:
            empty_provider.down()


@pytest.fixture
def kubectl(empty_cluster: Cluster) -> Iterator[Kubectl]:
    """``kubectl`` on a cluster where nothing of Tieline is left, nor will be."""
    found = kubectl_for(empty_cluster, Progress())
    chosen = Kubectl(argv=found.argv, kubeconfig=empty_cluster.kubeconfig, context=empty_cluster.context)
    _sweep(chosen, wait=True)
    yield chosen
    _sweep(chosen, wait=False)


def _sweep(kubectl: Kubectl, *, wait: bool) -> None:
    """Without ``wait`` for the deletions: the next test does, if there is one."""
    kinds = (
        "clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings,"
        "customresourcedefinitions,namespaces"
    )
    ours = [
        name
        for name in kubectl("get", kinds, "-o", "name").stdout.split()
        if name.endswith(".tieline.dev") or name.partition("/")[2].startswith(("tieline-", "org-"))
    ]
    if ours:
        kubectl("delete", *ours, "--ignore-not-found", f"--wait={str(wait).lower()}", timeout=240)


@pytest.fixture
def helm(request: pytest.FixtureRequest, kubectl: Kubectl, tmp_path: Path) -> Helm:
    tools = manifest_tools(UncapturedProgress(request.config.pluginmanager.getplugin("capturemanager")))
    return Helm(program=tools.helm, kubectl=kubectl, home=tmp_path)


@pytest.fixture(scope="session")
def this(empty_provider: ClusterProvider, empty_cluster: Cluster) -> Release:
    return this_release(empty_provider)


@pytest.fixture(scope="session")
def previous(
    empty_provider: ClusterProvider, empty_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Release:
    return previous_release(empty_provider, tmp_path_factory.mktemp("previous"))
