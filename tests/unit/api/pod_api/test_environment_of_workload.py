"""Which environment a pod's ServiceAccount belongs to, by the names of projects and environments."""

from __future__ import annotations

from typing import Any, cast

from tieline_api.cluster.cluster_cache import ClusterCache
from tieline_api.cluster.indexes import by_workload, key
from tieline_api.pod_api.configuration import environment_of_workload
from tieline_core.identity.names import workload_name


class Projects:
    """The caches, as far as the question needs them."""

    def __init__(self, *projects: dict[str, Any]) -> None:
        self.projects = projects

    def referring(self, cache: Any, index: str, namespace: str, *parts: str) -> list[dict[str, Any]]:
        assert index == "workload"
        return [project for project in cache if key(namespace, *parts) in by_workload(project)]


def project(name: str, **recorded: str | None) -> dict[str, Any]:
    """A project whose status has the environments of ``recorded``, each with the name of its workload."""
    environments = [
        {"name": environment, **({"workload": workload} if workload else {})}
        for environment, workload in recorded.items()
    ]
    return {
        "metadata": {
            "name": name,
            "namespace": "acme",
            "uid": name,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"environments": [{"name": "production"}]},
        "status": {"environments": environments} if environments else {},
    }


def found(workload: str, *projects: dict[str, Any]) -> str | None:
    cluster = cast("ClusterCache", Projects(*projects))
    place = environment_of_workload(cluster, "acme", workload)
    return f"{place[0]['metadata']['name']}/{place[1]}" if place else None


NAME = workload_name("orders", "production")


def test_the_names_of_project_and_environment_decide() -> None:
    assert found(NAME, project("other"), project("orders")) == "orders/production"
    assert found(workload_name("orders", "staging"), project("orders")) is None


def test_a_status_cannot_claim_the_workload_of_another_project() -> None:
    thief = project("thief", production=NAME)
    assert found(NAME, project("orders", production=NAME), thief) == "orders/production"
    assert found(NAME, thief) is None
