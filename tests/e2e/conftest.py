"""The platform as users have it: images built from this checkout, deployed by kustomize, real pods."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.cluster import package_index
from tests.harness.cluster.deployed_platform import Platform, Rest, Tenant, administrator
from tests.harness.cluster.kubectl import ROOT, Kubectl, Organisation
from tieline_cluster.deployment.kubectl import kubectl_for
from tieline_cluster.deployment.platform import deploy
from tieline_cluster.progress import Progress
from tieline_cluster.providers import Cluster, ClusterProvider


@pytest.fixture(scope="session")
def platform(
    provider: ClusterProvider, cluster: Cluster, kubectl: Kubectl, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Platform]:
    """Operator and API of this checkout, rolled out."""
    # Tests of the API alone leave projects whose code cannot run: deployed now, their pods would start over and over.
    kubectl("delete", "projects.tieline.dev", "--all", "--all-namespaces", "--wait=false", check=False)
    deployed = deploy(
        checkout=ROOT,
        work=tmp_path_factory.mktemp("deploy"),
        provider=provider,
        cluster=cluster,
        kubectl=kubectl_for(cluster, Progress()),
        progress=Progress(),
        settings={**package_index.SETTINGS, "TIELINE_HEALTHY_SECONDS": "3"},
    )
    yield Platform(kubectl=kubectl, url=deployed.url, images=dict(deployed.images))
    for deployment in ("tieline-operator", "tieline-api"):
        kubectl("scale", "deployment", deployment, "--replicas=0", namespace="tieline-system")


@pytest.fixture
def rest(platform: Platform, organisation: Organisation) -> Rest:
    """The API as an administrator of the test's organisation."""
    return administrator(platform, organisation)


@pytest.fixture
def tenant(platform: Platform, organisation: Organisation) -> Tenant:
    return Tenant(kubectl=platform.kubectl, namespace=organisation.namespace)
