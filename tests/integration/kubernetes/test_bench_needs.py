"""Benchmarks on a cluster that lacks what they use."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import prerequisites
from tests.harness.cluster.kubectl import Kubectl
from tieline_core.kubernetes import Kube

pytestmark = pytest.mark.cluster


async def test_what_a_benchmark_needs_is_installed_where_it_is_missing(
    kubectl: Kubectl, kubeconfig: Path, crds_installed: None
) -> None:
    kubectl("delete", "clusterrole", "tieline-admin", "--ignore-not-found")
    async with await Kube.connect(kubeconfig=kubeconfig) as kube:
        assert "tieline-admin" in await prerequisites.install(kube)
        assert await prerequisites.install(kube) == []
    rules = kubectl("get", "clusterrole", "tieline-admin", "-o", "jsonpath={.rules[*].resources}").stdout
    assert "systems" in rules


async def test_without_a_cluster_a_benchmark_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(SystemExit, match="make demo"):
        async with prerequisites.cluster():
            pass
