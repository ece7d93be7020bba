"""Pods whose environment has no streams yet, and pods that need none."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from tests.harness.processes.event_pods import LIMITS, EventEnvironment
from tests.harness.processes.nats_server import NatsServer
from tests.harness.session.waiting import eventually_async
from tests.integration.engine.test_signed_webhooks import CONNECTIONS, signed
from tieline_core.engine.streams import ensure_history
from tieline_core.identity.ids import new_id
from tieline_protocol.event_streams import EventStreams

WITH_EVENTS = """
import os
from pathlib import Path
from tieline import Context, Integration, Request

integration = Integration()


@integration.webhook("orders", delivery="queued")
async def orders(ctx: Context, request: Request) -> None:
    with Path(os.environ["DONE"]).open("a") as file:
        file.write(f"{await request.text()}\\n")
"""
WITHOUT_EVENTS = """
import sys
from tieline import Context, Integration

integration = Integration()


@integration.webhook("balance", connection="stripe")
async def balance(ctx: Context) -> dict:
    return {"duplicate": ctx.delivery.is_duplicate, "client": "nats" in sys.modules}
"""


@pytest.fixture
async def environment(engine: NatsServer, tmp_path: Path) -> AsyncIterator[EventEnvironment]:
    """An environment with an account, and without streams."""
    streams = EventStreams(new_id(), new_id())
    await engine.make_account(streams, LIMITS)
    admin = await engine.admin()
    await ensure_history(admin.jetstream(), streams.organisation, LIMITS)
    own = await engine.environment(streams)
    found = EventEnvironment(engine, admin, own, tmp_path, WITH_EVENTS, CONNECTIONS, streams=streams)
    yield found
    found.stop()
    await own.close()
    await admin.close()


def clients_of(engine: NatsServer, streams: EventStreams) -> list[str]:
    """The names of the clients of an environment's account."""
    account = engine.trust.environment_account(streams)
    url = f"http://{engine.host}:{engine.monitoring_port}/connz?auth=1&limit=1000"
    with urllib.request.urlopen(url, timeout=5) as answer:
        return [
            one.get("name", "") for one in json.load(answer)["connections"] if one.get("account") == account
        ]


async def test_a_pod_is_not_ready_before_its_streams_are_there_and_until_then_refuses_politely(
    environment: EventEnvironment,
) -> None:
    pod = environment.pod(ready=False)

    async def connected() -> bool:
        return environment.streams.environment in await asyncio.to_thread(
            clients_of, environment.engine, environment.streams
        )

    await eventually_async("it connects", connected)
    async with aiohttp.ClientSession() as http:

        async def reason() -> str:
            try:
                async with http.get(f"http://127.0.0.1:{pod.health_port}/readyz") as response:
                    return await response.text()
            except aiohttp.ClientError:
                return ""

        async def waits() -> bool:
            return "streams" in await reason()

        await eventually_async("it waits for the streams", waits)
        async with http.post(f"{pod.url}/orders", data=b"early") as response:
            assert (response.status, (await response.json())["code"]) == (503, "unavailable")
            assert response.headers["Retry-After"]
        await environment.engine.make_environment(environment.streams, LIMITS)
        await eventually_async("ready", lambda: asyncio.to_thread(pod.ready))
        async with http.post(f"{pod.url}/orders", data=b"later") as response:
            assert response.status == 202

        async def done() -> bool:
            return environment.lines() == ["later"]

        await eventually_async("it runs", done, within=20)


async def test_an_engine_that_is_away_keeps_no_pod_from_becoming_ready(environment: EventEnvironment) -> None:
    pod = environment.pod(TIELINE_ENGINE_URL="nats://127.0.0.1:1")
    assert pod.ready()


async def test_code_without_events_loads_no_client_of_the_engine_and_notices_repetitions_alone(
    environment: EventEnvironment,
) -> None:
    environment.code = WITHOUT_EVENTS
    pod = environment.pod()
    body = b'{"id":"evt_1"}'
    headers = signed(body, at=time.time())
    answers = []
    async with aiohttp.ClientSession() as http:
        for _ in range(2):
            async with http.post(f"{pod.url}/balance", data=body, headers=headers) as response:
                answers.append((response.status, await response.json()))
    assert answers == [
        (200, {"duplicate": False, "client": False}),
        (200, {"duplicate": True, "client": False}),
    ]
    assert environment.streams.environment not in clients_of(environment.engine, environment.streams)
    log = pod.log.read_text()
    assert "repeated one is not known" not in log
    assert "may not be noticed" not in log
