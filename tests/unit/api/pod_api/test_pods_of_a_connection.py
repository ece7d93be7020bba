"""How many pods share the limits of a connection."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from tieline_api.cluster.cluster_cache import ClusterCache
from tieline_api.pod_api.configuration import pods_of_connection
from tieline_core.kubernetes import Kube

ENVIRONMENTS: tuple[dict[str, Any], ...] = (
    {"name": "production"},
    {"name": "staging", "runtime": {"replicas": 2}},
    {"name": "old", "suspended": True},
)


def obj(object_name: str, version: int = 1, **spec: Any) -> dict[str, Any]:
    metadata = {
        "name": object_name,
        "namespace": "acme",
        "uid": object_name,
        "resourceVersion": str(version),
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    return {"metadata": metadata, "spec": spec}


def environment(replicas: int, version: int = 1) -> dict[str, Any]:
    """The Environment of production, as an autoscaler leaves it."""
    return obj(
        "orders.production",
        version,
        projectRef={"name": "orders"},
        environment="production",
        replicas=replicas,
    )


@pytest.fixture
async def cluster() -> ClusterCache:
    """A connection that three environments use."""
    cache = ClusterCache(cast(Kube, None))
    cache.projects.observe(obj("orders", name="orders", environments=list(ENVIRONMENTS)))
    for one in ENVIRONMENTS:
        cache.templates.observe(
            obj(
                f"shop-{one['name']}",
                name="shop",
                projectRef={"name": "orders"},
                environment=one["name"],
                connectionRef={"name": "shop"},
            )
        )
    return cache


async def test_pods_that_an_autoscaler_adds_count(cluster: ClusterCache) -> None:
    connection = obj("shop")
    assert pods_of_connection(cluster, connection) == 3, "the Environment is not there yet"
    cluster.environments.observe(environment(5))
    assert pods_of_connection(cluster, connection) == 7


async def test_pods_learn_at_once_that_there_are_more_of_them(cluster: ClusterCache) -> None:
    cluster.environments.observe(environment(1))
    waiting = asyncio.create_task(cluster.changes.wait("acme", 60.0))
    await asyncio.sleep(0)
    cluster.environments.observe({**environment(1, 2), "status": {"readyReplicas": 1}})
    await asyncio.sleep(0)
    assert not waiting.done(), "its status changes often, and says nothing to them"
    cluster.environments.observe(environment(2, 3))
    await waiting
