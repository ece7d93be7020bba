"""When the outcome of a deploy is known: only from a status that has seen it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tieline_api.dependencies import Dependencies
from tieline_api.errors import ApiError
from tieline_api.use_cases.rollout_wait import (
    rollout_ended,
    suspension_ended,
    wait_for_rollout,
)


def project(
    status: dict[str, Any] | None = None,
    *,
    wanted: str = "v2",
    generation: int = 2,
    seen: int | None = None,
    suspended: bool = False,
) -> dict[str, Any]:
    observed = generation if seen is None else seen
    return {
        "metadata": {"name": "p", "namespace": "acme", "uid": "1", "generation": generation},
        "spec": {"environments": [{"name": "production", "version": wanted, "suspended": suspended}]},
        "status": {
            "observedGeneration": observed,
            "environments": [{"name": "production", **status}] if status else [],
        },
    }


SERVES_V1 = {"status": "running", "desiredVersion": "v1", "version": "v1", "rollout": "complete"}
SERVES_V2 = {"status": "running", "desiredVersion": "v2", "version": "v2", "rollout": "complete"}
STARTS_V2 = {"status": "suspended", "desiredVersion": "v2", "rollout": "progressing"}
FAILED_V2 = {"status": "error", "desiredVersion": "v2", "rollout": "failed", "deployFailure": "Crashed"}
SUSPENDED_V2 = {"status": "suspended", "desiredVersion": "v2"}


@pytest.mark.parametrize(
    ("found", "ended"),
    [
        (project(), False),
        (project(SERVES_V1, seen=1), False),
        (project(SERVES_V2, seen=1), False),
        (project(SUSPENDED_V2, seen=1), False),
        (project(FAILED_V2, seen=1), False),
        (project(STARTS_V2), False),
        (project(SERVES_V2), True),
        (project(FAILED_V2), True),
        (project(SUSPENDED_V2, suspended=True), True),
    ],
)
def test_only_a_status_that_has_seen_the_deploy_has_its_outcome(found: dict[str, Any], ended: bool) -> None:
    assert rollout_ended(found, "production", "v2") is ended


@pytest.mark.parametrize(
    "found",
    [
        project(SERVES_V2, wanted="v3", generation=3, seen=2),
        project({**SERVES_V2, "desiredVersion": "v3"}),
    ],
    ids=["deployed", "followed"],
)
def test_a_deploy_that_was_replaced_has_no_outcome(found: dict[str, Any]) -> None:
    with pytest.raises(ApiError, match="Another deploy"):
        rollout_ended(found, "production", "v2")


@pytest.mark.parametrize(
    ("found", "ended"),
    [
        (project(SUSPENDED_V2, suspended=True, seen=1), False),
        (project({**SERVES_V2, "rollout": None}, suspended=True), False),
        (project(SUSPENDED_V2, suspended=True), True),
    ],
)
def test_an_environment_is_suspended_once_nothing_runs(found: dict[str, Any], ended: bool) -> None:
    assert suspension_ended(found, "production") is ended


def test_a_deploy_during_a_suspension_ends_the_wait() -> None:
    with pytest.raises(ApiError, match="deployed to"):
        suspension_ended(project(STARTS_V2), "production")


@dataclass
class Changes:
    """Each wait brings the next state of the project into the cache."""

    states: list[dict[str, Any] | None]
    now: dict[str, Any] | None = None
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait(self, _namespace: str, _seconds: float) -> None:
        self.now = self.states.pop(0)

    def get(self, _namespace: str, _name: str) -> dict[str, Any] | None:
        return self.now

    @property
    def platform(self) -> Dependencies:
        cluster = SimpleNamespace(changes=self, projects=self)
        return cast(Dependencies, SimpleNamespace(cluster=cluster, stopping=self.stopping))


async def test_a_cache_that_is_behind_is_not_the_outcome() -> None:
    written = project(SERVES_V1, seen=1)
    older = project(SERVES_V1, wanted="v1", generation=1)
    last = project(FAILED_V2)
    changes = Changes([older, project(SERVES_V1, seen=1), project(STARTS_V2), last])
    assert await wait_for_rollout(changes.platform, written, "production", seconds=60) is last
    assert changes.states == []


async def test_a_deleted_project_ends_the_wait() -> None:
    written = project(SERVES_V1, seen=1)
    assert await wait_for_rollout(Changes([None]).platform, written, "production", seconds=60) is written
