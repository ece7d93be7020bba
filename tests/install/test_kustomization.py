"""The kustomizations: upgraded under load, and removed by the commands of docs/install.md."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.harness.clients.constant_load import ConstantLoad
from tests.harness.cluster.kubectl import Kubectl
from tests.harness.cluster.releases import PLATFORM_NAMESPACE, Release, declared, settled
from tests.harness.session.waiting import eventually
from tests.install.organisation import populated, rolled_for_the_engine
from tests.unit.docs.doc_pages import page
from tieline_cluster.deployment.platform import OVERLAY, with_images

pytestmark = pytest.mark.e2e


def _apply(kubectl: Kubectl, release: Release, images: dict[str, str], work: Path) -> None:
    overlay = with_images(release.checkout / OVERLAY, images=images, work=work, configure=True)
    # The definitions first: kubectl knows no order among what it is given.
    kubectl("apply", "--server-side", "-k", str(release.checkout / "crds"))
    kubectl("apply", "--server-side", "-k", str(overlay))
    for deployment in ("tieline-operator", "tieline-api"):
        kubectl(
            *("rollout", "status", f"deployment/{deployment}", "--timeout=120s"),
            namespace=PLATFORM_NAMESPACE,
            timeout=150,
        )


def _commands(mark: str) -> list[list[str]]:
    """The page's commands with ``mark`` in them, without their ``kubectl``."""
    blocks = [block.text for block in page("docs/install.md").blocks("console")]
    lines = [line for block in blocks for line in block.splitlines() if re.search(mark, line)]
    return [shlex.split(line)[1:] for line in lines]


def test_a_kustomization_is_applied_over_the_previous_release_and_removed_as_the_page_says(
    kubectl: Kubectl, previous: Release, this: Release, tmp_path: Path
) -> None:
    runtime = previous.images["runtime"]
    _apply(kubectl, previous, {**previous.images, "runtime": runtime}, tmp_path / "previous")
    tenant = populated(kubectl)
    settled(kubectl)
    with ConstantLoad(tenant.environment("orders")["publicUrl"]) as load:
        eventually("calls answered", lambda: load.answered["one"])
        # The platform alone. It brings the engine, so environments get pods with credentials for it, once. What else
        # this release writes once is in the changelog.
        _apply(kubectl, this, {**this.images, "runtime": runtime}, tmp_path / "this")
        eventually("pods with credentials for the engine", lambda: rolled_for_the_engine(tenant))
        kubectl(
            *("rollout", "status", "statefulset/tieline-engine", "--timeout=120s"),
            namespace=PLATFORM_NAMESPACE,
            timeout=150,
        )
        # The operator writes once more what it reads of an engine that is back.
        settled(kubectl)

        before = declared(kubectl, tenant.namespace)
        removal = _commands("^kubectl delete (namespace|clusterroles)")
        assert len(removal) == 2
        for command in removal:
            kubectl(*command)
        assert declared(kubectl, tenant.namespace) == before
        calls = load.total
        eventually("calls answered without a platform", lambda: load.total > calls + 100)
    assert not load.lost, (len(load.lost), load.lost[:20])

    # Without the definitions nothing that was made of them is left.
    names = kubectl("get", "crd", "-o", "name").stdout.split()
    kubectl("delete", *(name for name in names if name.endswith(".tieline.dev")))
    eventually("the environment is gone", lambda: not _environments(kubectl, tenant.namespace))


def _environments(kubectl: Kubectl, namespace: str) -> list[str]:
    return kubectl("get", "deployments,services,pods", "-o", "name", namespace=namespace).stdout.split()
