"""What the operator's probes say, and when."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from pytest_aiohttp import AiohttpClient

from tieline_operator.health import application


@dataclass
class Replica:
    started: bool = True
    leading: bool = False
    silent: list[str] = field(default_factory=list)

    def dead(self) -> list[str]:
        return self.silent


@pytest.mark.parametrize(
    ("replica", "health", "readiness", "told"),
    [
        (Replica(started=False), 200, 503, "Still reading the cluster"),
        (Replica(), 200, 200, "Waiting for the Lease"),
        (Replica(leading=True), 200, 200, "Leading"),
        (Replica(leading=True, silent=["pods", "projects"]), 503, 503, "Nothing is heard of pods, projects"),
    ],
    ids=["starting", "waiting for the Lease", "leading", "with a dead watch"],
)
async def test_a_replica_says_what_it_is_and_waiting_is_ready_but_deaf_is_not_healthy(
    aiohttp_client: AiohttpClient, replica: Replica, health: int, readiness: int, told: str
) -> None:
    client = await aiohttp_client(application(replica))
    answers = [await client.get(path) for path in ("/healthz", "/readyz")]
    assert [answer.status for answer in answers] == [health, readiness]
    assert {(await answer.text()).strip() for answer in answers} == {told}
