"""Manifests and commands of the documentation, tried on a real API server."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from typing import Any

import pytest
import yaml

from tests.harness.cluster.kubectl import Kubectl
from tests.unit.docs.doc_pages import Page, pages
from tieline_core.resources import KINDS

pytestmark = pytest.mark.cluster

# Beside those of the kinds: pages whose commands need no more than the kinds' examples.
LOOKING = {"docs/operations.md", "examples/gitops/README.md"}
WITH_MANIFESTS = [
    read
    for read in pages()
    if any(manifest["apiVersion"].startswith("tieline.dev/") for manifest in read.manifests())
]


@pytest.mark.parametrize("read", WITH_MANIFESTS, ids=lambda one: one.name)
def test_the_api_server_takes_every_manifest(read: Page, kubectl: Kubectl, namespace: str) -> None:
    # Strict: a field that the definitions do not have is refused.
    manifests = yaml.safe_dump_all(ours(read, namespace))
    kubectl("apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-", stdin=manifests)


def test_commands_that_look_at_things_work(kubectl: Kubectl, namespace: str) -> None:
    kinds = [read for read in pages() if read.path.parent.name == "kinds"]
    assert len(kinds) == len(KINDS), "each kind has a page"
    examples = [manifest for read in kinds for manifest in ours(read, namespace)]
    kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(examples))
    looking = [*kinds, *(read for read in pages() if read.name in LOOKING)]
    commands = [block.text for read in looking for block in read.blocks("sh")]
    assert len(commands) > len(kinds)
    context = ["--context", kubectl.context] if kubectl.context else []
    program = shlex.join((*kubectl.argv, *context, "-n", namespace))
    for command in commands:
        done = subprocess.run(
            ["bash", "-euc", re.sub(r"kubectl (?:-n \S+ )?", f"{program} ", command).replace("-n acme", "")],
            env={**os.environ, "KUBECONFIG": str(kubectl.kubeconfig)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stderr}"


def ours(read: Page, namespace: str) -> list[dict[str, Any]]:
    """The page's manifests of our kinds, for a namespace."""
    found = [one for one in read.manifests() if one["apiVersion"].startswith("tieline.dev/")]
    return [{**one, "metadata": {**one["metadata"], "namespace": namespace}} for one in found]
