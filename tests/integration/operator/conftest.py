"""An operator of this package's own, which works in two namespaces only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation, make_organisation
from tests.integration.operator.cluster_objects import NamespacedKubectl
from tests.integration.operator.running_operator import RunningOperator


@pytest.fixture(scope="module")
def organisations(kubectl: Kubectl, crds_installed: None) -> Iterator[tuple[Organisation, Organisation]]:
    """One with the restricted Pod Security standard enforced, and one whose quota allows no pods."""
    usual, crowded = make_organisation(kubectl), make_organisation(kubectl)
    kubectl("create", "quota", "none", "--hard=pods=0", namespace=crowded.namespace)
    yield usual, crowded
    kubectl("delete", "namespace", usual.namespace, crowded.namespace, "--wait=false")


@pytest.fixture(scope="module")
def operator(
    operator_kubeconfig: Path,
    organisations: tuple[Organisation, Organisation],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[RunningOperator]:
    """The operator, at work."""
    running = RunningOperator(
        kubeconfig=operator_kubeconfig,
        namespaces=tuple(organisation.namespace for organisation in organisations),
        log=tmp_path_factory.mktemp("operator") / "log",
    )
    with running:
        yield running


@pytest.fixture
def acting(
    kubectl: Kubectl, organisations: tuple[Organisation, Organisation], operator: RunningOperator
) -> NamespacedKubectl:
    """A user of the usual organisation."""
    return NamespacedKubectl(kubectl=kubectl, namespace=organisations[0].namespace)


@pytest.fixture
def acting_crowded(
    kubectl: Kubectl, organisations: tuple[Organisation, Organisation], operator: RunningOperator
) -> NamespacedKubectl:
    """A user of the organisation without room for pods."""
    return NamespacedKubectl(kubectl=kubectl, namespace=organisations[1].namespace)
