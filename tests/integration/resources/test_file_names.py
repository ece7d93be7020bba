"""A file's name passes the check for deploys exactly where Kubernetes mounts it."""

from __future__ import annotations

import json

import pytest

from tests.harness.cluster.kubectl import Kubectl
from tieline_protocol.files import name_problem

pytestmark = pytest.mark.cluster

NAMES = [
    "main.py",
    "shop/orders.py",
    ".env",
    "a/..b",
    "a/..data/b",
    "a..b",
    "data/é.json",
    "with space.txt",
    "..data",
    "..2026/x.py",
    "..2026_11_23",
    "...",
    "../main.py",
    "a/../b.py",
    "/etc/passwd",
]


def test_kubernetes_mounts_the_names_that_pass_and_no_others(kubectl: Kubectl) -> None:
    """All in one request to the API server: what it refuses it names by its place in the list."""
    items = [{"key": f"k{index}", "path": name} for index, name in enumerate(NAMES)]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "names", "namespace": "default"},
        "spec": {
            "containers": [{"name": "one", "image": "none"}],
            "volumes": [{"name": "files", "configMap": {"name": "files", "items": items}}],
        },
    }
    done = kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(pod), check=False)
    refused = {NAMES[index] for index in range(len(NAMES)) if f".items[{index}].path" in done.stderr}
    assert refused == {name for name in NAMES if name_problem(name)}
