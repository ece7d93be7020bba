"""Asking for runs while others write the same Project."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from tieline_api.activator.wakes import Wakes
from tieline_api.cluster.writer import Writer
from tieline_api.conversion.schedules import ScheduleRequest, requests_of
from tieline_api.errors import ApiError
from tieline_api.state.schedules import ScheduleProgress
from tieline_api.use_cases.schedule_requests import MAX_WAITING, request_run
from tieline_core.identity.ids import new_id
from tieline_core.kubernetes import Applied, Conflict, Resource
from tieline_core.kubernetes.resources import PROJECTS

PRESSES = 60


class Server:
    """An API server with one Project: it takes what was computed for its present version."""

    def __init__(self) -> None:
        self.project: dict[str, Any] = {
            "metadata": {"name": "orders", "namespace": "acme", "resourceVersion": "1"},
            "spec": {},
        }
        self.writes = 0

    async def get(self, _resource: Resource, _name: str, _namespace: str) -> dict[str, Any]:
        await asyncio.sleep(0)
        return self.project

    async def apply(self, _resource: Resource, wanted: dict[str, Any], *, field_manager: str) -> Applied:
        await asyncio.sleep(0)
        if wanted["metadata"]["resourceVersion"] != self.project["metadata"]["resourceVersion"]:
            raise Conflict("changed meanwhile", status=409)
        self.writes += 1
        metadata = {**self.project["metadata"], **wanted["metadata"], "resourceVersion": str(self.writes + 1)}
        self.project = {"metadata": metadata, "spec": {}}
        return Applied(object=self.project, created=False)


class Informer:
    resource = PROJECTS

    def observe(self, _obj: dict[str, Any]) -> None: ...


async def _shorter(seconds: float) -> None:
    """This server answers much faster than a real one."""
    await asyncio.sleep(seconds / 10)


async def _nothing_begun(_environment: str, _schedule: str) -> ScheduleProgress:
    return ScheduleProgress()


async def _press(server: Server, users: Sequence[str], *, replicas: int = 2) -> list[bool | BaseException]:
    """What each press is told: all at the same moment, through the replicas in turn."""
    cluster = SimpleNamespace(projects=Informer())
    platforms: list[Any] = [
        SimpleNamespace(
            cluster=cluster,
            writer=Writer(server, pause=_shorter),  # type: ignore[arg-type]
            wakes=Wakes(server),  # type: ignore[arg-type]
        )
        for _ in range(replicas)
    ]

    def wanted(user: str) -> ScheduleRequest:
        return ScheduleRequest(
            id=new_id(), environment="production", schedule="sync", at=datetime.now(UTC), user=user
        )

    presses = [
        request_run(platforms[number % replicas], server.project, wanted(user), _nothing_begun)
        for number, user in enumerate(users)
    ]
    return await asyncio.gather(*presses, return_exceptions=True)


@pytest.mark.parametrize("users", [PRESSES, 3], ids=["each for another user", "for three users"])
async def test_none_of_many_that_press_at_once_is_refused_and_none_is_added_twice(users: int) -> None:
    server = Server()
    told = await _press(server, [f"user-{number % users}" for number in range(PRESSES)])
    assert Counter(told) == Counter({True: users, False: PRESSES - users})
    assert sorted({str(one.user) for one in requests_of(server.project)}) == sorted(
        f"user-{number}" for number in range(users)
    )
    assert server.writes == users


async def test_a_press_too_many_is_told_to_come_back_later() -> None:
    server = Server()
    told = await _press(server, [f"user-{number}" for number in range(MAX_WAITING + 1)])
    (refused,) = [one for one in told if isinstance(one, BaseException)]
    assert isinstance(refused, ApiError)
    assert (refused.status, refused.headers["Retry-After"]) == (429, "60")
    assert len(requests_of(server.project)) == MAX_WAITING
