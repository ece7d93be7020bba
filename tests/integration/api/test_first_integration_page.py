"""docs/first-integration.md, block by block, with the operator and the API of this checkout at work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster.kubectl import Kubectl
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Server
from tests.integration.docs.reader import Reader
from tests.integration.operator.cluster_objects import NamespacedKubectl, ready
from tests.integration.operator.running_operator import RunningOperator
from tests.unit.docs.doc_pages import page

pytestmark = pytest.mark.cluster

PAGE = page("docs/first-integration.md")


@pytest.fixture
def reader(kubectl: Kubectl, crds_installed: None, server: Server, tmp_path: Path) -> Iterator[Reader]:
    following = Reader(
        tmp_path,
        kubectl,
        namespace="birch",
        organisation="01M7ZB1RCH0000000000000000",
        variables={"TIELINE_URL": server.url},
    )
    yield following
    kubectl("delete", "namespace", following.namespace, "--ignore-not-found", "--wait=false")


@pytest.fixture
def operator(reader: Reader, operator_kubeconfig: Path, tmp_path: Path) -> Iterator[RunningOperator]:
    running = RunningOperator(
        kubeconfig=operator_kubeconfig,
        namespaces=(reader.namespace,),
        log=tmp_path / "operator.log",
        variables={"TIELINE_EGRESS_ALLOWED": "*.svc,*.svc.cluster.local"},  # as the demo has it
    )
    yield running
    running.stop()


def versions(acting: NamespacedKubectl) -> dict[str, Any]:
    """What each project's environment should run."""
    projects = acting.list("projects")
    found = [(one["spec"]["name"], one.get("status", {}).get("environments", [{}])) for one in projects]
    return {name: environments[0].get("desiredVersion") for name, environments in found}


def test_who_follows_the_page_has_the_integration_twice(
    reader: Reader, kubectl: Kubectl, operator: RunningOperator
) -> None:
    (manifests,) = PAGE.blocks("yaml")
    assert manifests.mark == "first.yaml"
    reader.save(PAGE, "yaml")
    organisation, *blocks, tidy_up = PAGE.blocks("sh")
    assert "create namespace" in organisation.text
    assert "delete namespace" in tidy_up.text
    reader.do(organisation)
    operator.start()
    printed = [reader.do(block) for block in blocks]

    acting = NamespacedKubectl(kubectl=kubectl, namespace=reader.namespace)
    assert len(acting.list("projects")) == 2
    eventually(
        "both are deployed",
        lambda: set(versions(acting)) == {"First", "First by REST"} and all(versions(acting).values()),
        seen=lambda: versions(acting),
    )

    def not_ready() -> list[Any]:
        found = [one for kind in ("system", "connection", "connectiontemplate") for one in acting.list(kind)]
        assert len(found) == 6
        return [ready(one) for one in found if ready(one).get("status") != "True"]

    eventually("all else is ready", lambda: not not_ready(), seen=not_ready)
    # What REST shows of the project, and never of the key.
    (by_rest,) = [text for block, text in zip(blocks, printed, strict=True) if block.mark == "rest"]
    assert '"name":"First by REST"' in by_rest
    assert "demo-shop-key-not-a-secret" not in by_rest
    reader.do(tidy_up)
