"""Every kind is in all the places that it needs: the steps of "Add a kind" in CONTRIBUTING.md."""

from __future__ import annotations

import re
from typing import cast

import pytest

from tests.harness.cluster.kubectl import ROOT
from tieline_api.cluster.cluster_cache import ClusterCache
from tieline_core.kubernetes import Kube
from tieline_core.kubernetes import resources as r
from tieline_core.resources import KINDS
from tieline_core.resources.kinds import CustomResource
from tieline_operator.cache.indexers import PRIMARY_RESOURCES

KNOWN = {
    one.kind: one for one in vars(r).values() if isinstance(one, r.Resource) and one.group == "tieline.dev"
}
ROLES = (ROOT / "deploy/helm/tieline/templates/roles.yaml").read_text(encoding="utf-8")
CONTROLLER = (ROOT / "operator/tieline_operator/controller/controller.py").read_text(encoding="utf-8")
REST_CACHES = {cache.resource for cache in ClusterCache(cast(Kube, None)).caches}


def missing(kind: type[CustomResource]) -> list[str]:
    """What is left to do for a kind, as places to change."""
    info = kind.kind_info
    resource = KNOWN.get(info.name)
    if resource is None:
        return [f"core/tieline_core/kubernetes/resources.py: the Resource of {info.name}"]
    (constant,) = [name for name, one in vars(r).items() if one is resource]
    there = {
        "core/tieline_core/kubernetes/resources.py: the plural": resource.plural == info.plural,
        "crds/ and the chart's copy: run make manifests": (ROOT / f"crds/{info.plural}.yaml").exists(),
        "operator/tieline_operator/cache/indexers.py: PRIMARY_RESOURCES": resource in PRIMARY_RESOURCES,
        "operator/tieline_operator/controller/controller.py: reconcilers": f"r.{constant}.kind:"
        in CONTROLLER,
        "api/tieline_api/cluster/cluster_cache.py: a cache": resource in REST_CACHES,
        "deploy/helm/tieline/templates/roles.yaml: a role": re.search(rf"\b{info.plural}\b", ROLES)
        is not None,
        f"docs/kinds/{info.name.lower()}.md": (ROOT / f"docs/kinds/{info.name.lower()}.md").exists(),
    }
    return [place for place, done in there.items() if not done]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_kind_is_in_every_place(kind: type[CustomResource]) -> None:
    assert missing(kind) == []


def test_every_resource_of_ours_has_a_kind() -> None:
    assert KNOWN.keys() == {kind.kind_info.name for kind in KINDS}
