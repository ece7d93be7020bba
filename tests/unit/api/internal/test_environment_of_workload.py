"""Which environment a pod's ServiceAccount belongs to, by what the operator has recorded."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tieline_api.cache.cluster_cache import ClusterCache
from tieline_api.cache.indexes import by_workload, key
from tieline_api.internal.configuration import environment_of_workload
from tieline_core.identity.names import legacy_workload_name, workload_name


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
    world = cast("ClusterCache", Projects(*projects))
    place = environment_of_workload(world, "acme", workload)
    return f"{place[0]['metadata']['name']}/{place[1]}" if place else None


NAME, LEGACY = workload_name("orders", "production"), legacy_workload_name("orders", "production")


def test_the_recorded_name_decides() -> None:
    assert found(NAME, project("orders", production=NAME)) == "orders/production"
    assert found(LEGACY, project("orders", production=NAME)) is None
    assert found(LEGACY, project("orders", production=LEGACY)) == "orders/production"
    assert found(NAME, project("orders", production=LEGACY)) is None


def test_what_an_earlier_release_recorded_has_the_earlier_name() -> None:
    assert found(LEGACY, project("orders", production=None)) == "orders/production"
    assert found(NAME, project("orders", production=None)) is None


def test_an_environment_that_is_not_recorded_yet_may_have_either_name() -> None:
    assert found(NAME, project("orders")) == "orders/production"
    assert found(LEGACY, project("orders")) == "orders/production"


def test_a_status_cannot_claim_the_workload_of_another_project() -> None:
    thief = project("thief", production=NAME)
    assert found(NAME, project("orders", production=NAME), thief) == "orders/production"
    assert found(NAME, thief) is None


@pytest.fixture
def colliding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two projects whose earlier names are the same."""
    monkeypatch.setattr(
        "tieline_core.identity.names.legacy_workload_name", lambda _project, _environment: LEGACY
    )


@pytest.mark.usefixtures("colliding")
def test_a_project_with_a_colliding_name_is_told_nothing_about_another() -> None:
    orders, other = project("orders", production=LEGACY), project("other")
    assert found(LEGACY, other, orders) == "orders/production"
    assert found(LEGACY, project("orders"), other) is None, "of neither, until one is recorded"
