"""An object that is deleted while it is being reconciled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.unit.operator.fake_cluster import FakeCluster
from tests.unit.operator.objects import system
from tests.unit.operator.reconcile_loop import ReconcileLoop
from tieline_core.kubernetes import Applied, Resource
from tieline_core.kubernetes import resources as r


class Vanishing(FakeCluster):
    """Somebody deletes each object just before it is written."""

    async def apply(
        self, resource: Resource, obj: Mapping[str, Any], *, subresource: str | None = None, **more: Any
    ) -> Applied:
        self.remove(resource, obj["metadata"]["name"])
        return await super().apply(resource, obj, subresource=subresource, **more)


@pytest.mark.parametrize(
    "labels", [{}, {"tieline.dev/id": "01JD3Y7M5RZX9KQW8T2V4N6P0A"}], ids=["id", "status"]
)
async def test_writing_to_an_object_that_has_just_gone_is_no_failure(labels: dict[str, str]) -> None:
    obj = system()
    obj["metadata"]["labels"] = labels
    there = ReconcileLoop(Vanishing(obj))

    await there.once(r.SYSTEMS, obj["metadata"]["name"])

    assert there.cluster.writes == 0
    assert there.requeue_after is None
