"""Replicas of the API share an organisation's quota of requests through a real nats-server."""

from __future__ import annotations

from pathlib import Path

from tests.harness.processes.nats_server import running_nats_server
from tests.harness.session.waiting import eventually_async
from tieline_api.engine.connection import Engine
from tieline_api.engine.limit_store import LimitStore
from tieline_api.engine.rate_quotas import REQUESTS, RateQuotas
from tieline_api.errors import ApiError

ACME = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


async def test_replicas_accept_no_more_than_the_quota_together(tmp_path: Path) -> None:
    with running_nats_server(tmp_path) as server:
        engines = [Engine((server.url,), server.credentials_file()) for _ in range(2)]
        for engine in engines:
            await engine.start()

        async def connected() -> bool:
            return all(engine.connected for engine in engines)

        await eventually_async("the engine", connected)
        # Clocks that stand still: all of it is in one second.
        replicas = [RateQuotas(LimitStore(engine), REQUESTS, clock=lambda: 100.0) for engine in engines]
        accepted = 0
        for number in range(80):
            try:
                await replicas[number % 2].hit(ACME, 40)
            except ApiError as error:
                refused = error.status
            else:
                accepted += 1
        assert 36 <= accepted <= 40
        assert refused == 429
        assert 36 <= await replicas[0].used(ACME) <= 40
        for engine in engines:
            await engine.stop()
