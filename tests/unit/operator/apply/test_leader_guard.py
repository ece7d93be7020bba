"""A replica that does not lead any more writes nothing, however far its work had got."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.unit.operator.fake_cluster import FakeCluster
from tieline_core.kubernetes.resources import DEPLOYMENTS
from tieline_operator.apply.leader_guard import LeaderGuardedClient, NotLeaderError

MANIFEST = {"kind": "Deployment", "metadata": {"name": "orders", "namespace": "acme"}}

WRITES: dict[str, Callable[[LeaderGuardedClient], Awaitable[Any]]] = {
    "create": lambda kube: kube.create(DEPLOYMENTS, MANIFEST),
    "apply": lambda kube: kube.apply(DEPLOYMENTS, MANIFEST, field_manager="tieline-operator", force=True),
    "delete": lambda kube: kube.delete(DEPLOYMENTS, "orders", "acme", uid="1"),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("left", [0.0, -3.0])
async def test_nothing_is_written_without_leadership(
    write: Callable[[LeaderGuardedClient], Awaitable[Any]], left: float
) -> None:
    cluster = FakeCluster()
    with pytest.raises(NotLeaderError, match="no longer leads"):
        await write(LeaderGuardedClient(cluster, lambda: left))
    assert cluster.writes == 0


async def test_a_write_gets_through_while_leadership_is_sure() -> None:
    cluster = FakeCluster()
    fenced = LeaderGuardedClient(cluster, lambda: 5.0)
    await WRITES["create"](fenced)
    await WRITES["delete"](fenced)
    assert cluster.requests == {"create": 1, "delete": 1}


async def test_a_write_that_hangs_is_cut_off_before_another_may_lead(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster()

    async def hang(*_: Any, **__: Any) -> Any:
        await asyncio.Event().wait()

    monkeypatch.setattr(cluster, "apply", hang)
    with pytest.raises(NotLeaderError, match="cut off"):
        await asyncio.wait_for(WRITES["apply"](LeaderGuardedClient(cluster, lambda: 0.02)), 5)
