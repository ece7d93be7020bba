"""What refers to an object, asked of Kubernetes: the caches may be behind those of another replica."""

from __future__ import annotations

from typing import Any

import pytest

from tieline_api.cluster.cluster_cache import ClusterCache
from tieline_core.kubernetes import KubeError, Resource, Unavailable

TEMPLATES = [("second", "orders", 2), ("other", "invoices", 1), ("first", "orders", 1)]


def _template(name: str, project: str, second: int) -> dict[str, Any]:
    created = f"2026-01-01T00:00:0{second}Z"
    metadata = {"name": name, "namespace": "acme", "uid": f"uid-{name}", "creationTimestamp": created}
    return {"metadata": metadata, "spec": {"projectRef": {"name": project}}}


class _Kubernetes:
    """Selects by fields, or says that it does not."""

    def __init__(self, refusal: KubeError | None = None) -> None:
        self.refusal = refusal
        self.asked: list[str | None] = []

    async def list(
        self, resource: Resource, namespace: str, *, field_selector: str | None = None
    ) -> list[dict[str, Any]]:
        assert (resource.plural, namespace) == ("connectiontemplates", "acme")
        self.asked.append(field_selector)
        if field_selector and self.refusal:
            raise self.refusal
        project = field_selector.removeprefix("spec.projectRef.name=") if field_selector else None
        found = [_template(*one) for one in TEMPLATES]
        return [one for one in found if project in (None, one["spec"]["projectRef"]["name"])]


async def _found(kubernetes: Any) -> list[str]:
    cluster = ClusterCache(kubernetes)
    found = await cluster.referring_now(cluster.templates, "projectRef", "acme", "orders")
    return [one["metadata"]["name"] for one in found]


async def test_what_no_cache_knows_yet_is_found_oldest_first() -> None:
    kubernetes = _Kubernetes()
    assert await _found(kubernetes) == ["first", "second"]
    assert kubernetes.asked == ["spec.projectRef.name=orders"]


async def test_a_server_that_does_not_select_by_fields_is_asked_for_all() -> None:
    refusal = KubeError("field label not supported: spec.projectRef.name", status=400, reason="BadRequest")
    assert await _found(_Kubernetes(refusal)) == ["first", "second"]


async def test_a_server_that_does_not_answer_is_no_reason_to_believe_that_nothing_refers() -> None:
    with pytest.raises(Unavailable):
        await _found(_Kubernetes(Unavailable("away", status=503)))
