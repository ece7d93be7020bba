"""A namespace that is being deleted while things run in it."""

from __future__ import annotations

from tests.unit.operator.fake_cluster import FakeCluster
from tests.unit.operator.objects import NOW, namespace, project
from tests.unit.operator.reconcile_loop import ReconcileLoop
from tieline_core.identity.ids import format_time
from tieline_core.kubernetes import resources as r


async def test_what_vanishes_with_its_namespace_is_not_made_again_and_is_no_failure() -> None:
    there = ReconcileLoop(FakeCluster(project()))
    there.cluster.put(r.NAMESPACES, namespace())
    await there.until_quiet()
    there.kubelet()
    await there.until_quiet()
    going = namespace()
    going["metadata"]["deletionTimestamp"] = format_time(NOW)
    there.cluster.put(r.NAMESPACES, going)
    there.cluster.objects[r.DEPLOYMENTS].clear()
    there.cluster.objects[r.PROJECT_VERSIONS].clear()

    assert await there.until_quiet() == 0
    assert there.ready(r.PROJECTS, "order-sync")[:2] == ("True", "Running")
