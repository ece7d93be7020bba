"""An organisation whose Secrets are not read yet."""

from __future__ import annotations

from tests.unit.operator.fake_cluster import FakeCluster
from tests.unit.operator.objects import NAMESPACE, namespace, project
from tests.unit.operator.reconcile_loop import ReconcileLoop
from tieline_core.kubernetes import resources as r


async def test_nothing_is_decided_while_secrets_are_unread() -> None:
    there = ReconcileLoop(FakeCluster(project()))
    there.cluster.put(r.NAMESPACES, namespace())
    there.cluster.unread = {NAMESPACE}
    assert await there.until_quiet() == 0
    assert there.cluster.writes == 0
    there.cluster.unread = set()
    await there.until_quiet()
    assert there.cluster[r.DEPLOYMENTS].list()
