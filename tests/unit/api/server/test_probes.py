"""What the API's probes say, and when."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web
from pytest_aiohttp import AiohttpClient

from tieline_api.server.probes import add_probes


@pytest.mark.parametrize(
    ("state", "health", "readiness", "told"),
    [
        ({}, 200, 200, "ok"),
        ({"ready": False}, 200, 503, "still reading the cluster"),
        ({"silence": 100.0}, 200, 200, "ok"),
        ({"silence": 181.0}, 200, 503, "not been heard from"),
        ({"ended": ["projects"], "silence": 181.0}, 503, 503, "not been heard from"),
        ({"stopping": True}, 200, 503, "stopping"),
    ],
    ids=["usual", "starting", "Kubernetes away", "deaf for long", "with a watch that has ended", "stopping"],
)
async def test_the_api_is_unhealthy_only_where_a_restart_helps(
    aiohttp_client: AiohttpClient, state: dict[str, Any], health: int, readiness: int, told: str
) -> None:
    stopping = asyncio.Event()
    if state.pop("stopping", False):
        stopping.set()
    platform: Any = SimpleNamespace(
        stopping=stopping,
        settings=SimpleNamespace(stale_seconds=90),
        cluster=SimpleNamespace(**{"ready": True, "silence": 0.0, "ended": []} | state),
    )
    app = web.Application()
    add_probes(app, platform)
    client = await aiohttp_client(app)
    answers = [await client.get(path) for path in ("/healthz", "/readyz")]
    assert [answer.status for answer in answers] == [health, readiness]
    assert told in await answers[1].text()
    if health == 503:
        assert "watch of projects has ended" in await answers[0].text()
