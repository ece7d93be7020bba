"""The platform as users have it: images built from this checkout, deployed by kustomize, real pods."""

from __future__ import annotations

import pytest

from tests.harness.kubectl import Kubectl, Organisation
from tests.harness.world import OVERLAY, Platform, Rest, World, eventually, http


@pytest.fixture(scope="session")
def platform(kubectl: Kubectl, platform_images: None, crds_installed: None) -> Platform:
    """Operator and API of this checkout, rolled out."""
    kubectl("apply", "--server-side", "--force-conflicts", "-k", str(OVERLAY))
    for deployment in ("tieline-operator", "tieline-api"):
        kubectl("rollout", "restart", f"deployment/{deployment}", namespace="tieline-system")
    for deployment in ("tieline-operator", "tieline-api"):
        kubectl(
            "rollout",
            "status",
            f"deployment/{deployment}",
            "--timeout=240s",
            namespace="tieline-system",
            timeout=250,
        )
    address = kubectl(
        "get", "service", "tieline-api", "-o", "jsonpath={.spec.clusterIP}", namespace="tieline-system"
    ).stdout
    url = f"http://{address}"
    eventually("the API ready", lambda: http("GET", f"{url}/readyz").status == 200, within=60)
    return Platform(kubectl=kubectl, url=url)


@pytest.fixture
def rest(platform: Platform, organisation: Organisation) -> Rest:
    """The API as an administrator of the test's organisation."""
    kubectl, namespace = platform.kubectl, organisation.namespace
    kubectl("create", "serviceaccount", "admin", namespace=namespace)
    kubectl(
        "create",
        "rolebinding",
        "admin",
        "--clusterrole=tieline-admin",
        f"--serviceaccount={namespace}:admin",
        namespace=namespace,
    )
    token = kubectl("create", "token", "admin", "--duration=1h", namespace=namespace).stdout.strip()
    client = Rest(url=platform.url, token=token, organisation=organisation.id)
    eventually("the organisation known", lambda: client("GET", "/projects").status == 200, within=30)
    return client


@pytest.fixture
def world(platform: Platform, organisation: Organisation) -> World:
    return World(kubectl=platform.kubectl, namespace=organisation.namespace)
