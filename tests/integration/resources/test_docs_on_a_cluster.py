"""Every manifest of the documentation, tried on a real API server without storing it."""

from __future__ import annotations

import pytest
import yaml

from tests.harness.kubectl import Kubectl
from tests.unit.docs.reading_pages import Page, pages

pytestmark = pytest.mark.cluster

WITH_MANIFESTS = [
    read
    for read in pages()
    if any(manifest["apiVersion"].startswith("tieline.dev/") for manifest in read.manifests())
]


@pytest.mark.parametrize("read", WITH_MANIFESTS, ids=lambda one: one.name)
def test_the_api_server_takes_every_manifest(read: Page, kubectl: Kubectl, namespace: str) -> None:
    ours = [one for one in read.manifests() if one["apiVersion"].startswith("tieline.dev/")]
    for manifest in ours:
        manifest["metadata"] = {**manifest["metadata"], "namespace": namespace}
    # Strict: a field that the definitions do not have is refused.
    kubectl(
        "apply",
        "--server-side",
        "--dry-run=server",
        "--validate=strict",
        "-f",
        "-",
        stdin=yaml.safe_dump_all(ours),
    )
    assert len(WITH_MANIFESTS) > 10
