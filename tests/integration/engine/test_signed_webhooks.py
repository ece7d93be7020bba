"""Signed requests, and repeated ones, at several pods that share an engine."""

from __future__ import annotations

import hmac
import time
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from tests.harness.processes.event_pods import EventEnvironment, event_environment, running_environment
from tests.harness.processes.nats_server import NatsServer
from tests.harness.session.waiting import eventually_async
from tieline_core.engine.publisher import publish_event
from tieline_core.engine.streams import StreamLimits
from tieline_core.identity.ids import new_id
from tieline_protocol.events import EventMetadata, WebhookRequest

KEY = "whsec_test_secret"
CODE = """
import os
from pathlib import Path
from tieline import Context, Integration, Request

integration = Integration()


@integration.webhook("payments/{account}", connection="stripe", delivery="queued")
async def payments(ctx: Context, request: Request) -> None:
    with Path(os.environ["DONE"]).open("a") as file:
        file.write(f"{request.match_info['account']} {await request.text()}\\n")


@integration.webhook("balance", connection="stripe")
async def balance(ctx: Context) -> dict:
    return {"duplicate": ctx.delivery.is_duplicate}
"""
CONNECTIONS = f"""
connections:
  stripe:
    baseUrl: https://api.stripe.com
    credentials:
      - type: string
        authScheme: {{type: hmac, hmac: {{preset: stripe}}}}
        data: {{value: {KEY}}}
"""


@pytest.fixture
async def environment(engine: NatsServer, tmp_path: Path) -> AsyncIterator[EventEnvironment]:
    async with running_environment(engine, tmp_path, CODE) as found:
        found.connections = CONNECTIONS
        yield found


def signed(body: bytes, *, at: float | None = None) -> dict[str, str]:
    sent = f"{at or time.time():.0f}"
    digest = hmac.new(KEY.encode(), sent.encode() + b"." + body, "sha256").hexdigest()
    return {"Stripe-Signature": f"t={sent},v1={'0' * 64},v1={digest}"}


async def test_a_replay_at_another_pod_is_a_duplicate(environment: EventEnvironment) -> None:
    first, second = environment.pod(), environment.pod()
    body = b'{"id":"evt_1"}'
    headers = signed(body)
    async with aiohttp.ClientSession() as http:

        async def send(
            url: str, headers: dict[str, str] = headers, body: bytes = body
        ) -> tuple[int, dict[str, object]]:
            async with http.post(url, data=body, headers=headers) as response:
                return response.status, await response.json()

        status, answer = await send(f"{first.url}/payments/acct_1")
        assert (status, set(answer)) == (202, {"runId"})
        for url in (f"{second.url}/payments/acct_1", f"{first.url}/payments/acct_2"):
            assert await send(url) == (202, {"duplicate": True})

        assert await send(f"{first.url}/balance") == (200, {"duplicate": False})
        assert await send(f"{second.url}/balance") == (200, {"duplicate": True})

        for wrong, words in (
            ({}, "it has no header Stripe-Signature"),
            (signed(body + b" "), "no signature matches"),
            (signed(body, at=time.time() - 400), "at most 300 are accepted"),
        ):
            status, answer = await send(f"{first.url}/payments/acct_1", wrong)
            assert status == 401
            assert words in str(answer["message"])
            assert KEY not in str(answer)

    async def done() -> bool:
        return environment.lines() == ['acct_1 {"id":"evt_1"}']

    await eventually_async("run once", done, within=20)
    again = EventMetadata(
        run=new_id(),
        kind="webhook",
        task="payments/{account}",
        queued_at=time.time(),
        request=WebhookRequest(method="POST", path="/payments/acct%2F3"),
    )
    await publish_event(environment.admin.jetstream(), environment.streams, again, b"again", seconds=5)

    async def done_again() -> bool:
        return environment.lines()[1:] == ["acct/3 again"]

    await eventually_async("run again", done_again, within=20)
    remembered = [subject for subject in await _subjects(environment) if ".~delivery." in subject]
    assert len(remembered) == 2
    assert "evt_1" not in str(remembered)
    metrics = first.metrics() + second.metrics()
    assert 'task="payments/{account}"' in metrics
    assert "acct_1" not in metrics


async def _subjects(environment: EventEnvironment) -> list[str]:
    info = await environment.admin.jetstream().stream_info(environment.streams.runs, subjects_filter=">")
    return list(info.state.subjects or {})


async def test_remembered_requests_leave_room_for_the_results_of_steps(
    engine: NatsServer, tmp_path: Path
) -> None:
    admin = await engine.admin()
    limits = StreamLimits(runs_bytes=1 << 20)
    environment = await event_environment(engine, admin, tmp_path, CODE, limits=limits)
    environment.connections = CONNECTIONS
    jetstream, streams = environment.admin.jetstream(), environment.streams
    await jetstream.publish(streams.run_state(new_id()), b"x" * 600_000)
    first, second = environment.pod(), environment.pod()

    async def remembered() -> int:
        return len([one for one in await _subjects(environment) if ".~delivery." in one])

    async with aiohttp.ClientSession() as http:

        async def is_duplicate(url: str, headers: dict[str, str]) -> bool:
            async with http.post(f"{url}/balance", headers=headers) as response:
                assert response.status == 200
                return bool((await response.json())["duplicate"])

        now = time.time()
        for number in range(5):
            headers = signed(b"", at=now - number)
            assert not await is_duplicate(first.url, headers), "accepted nevertheless"
            assert await is_duplicate(first.url, headers), "the pod itself knows"
            assert not await is_duplicate(second.url, headers), "as the documentation says"
        assert await remembered() == 0
        assert first.log.read_text().count("Requests are remembered by this pod alone") == 1
        await jetstream.publish(streams.step(new_id(), "fetch", 0), b"x" * 300_000)  # there is room for steps

        await jetstream.purge_stream(streams.runs)
        sent = 10

        async def remembered_again() -> bool:
            nonlocal sent
            sent += 1
            await is_duplicate(first.url, signed(b"", at=time.time() - sent))
            return await remembered() > 0

        await eventually_async("remembered again", remembered_again, within=30)
    environment.stop()
    await environment.admin.close()
    await admin.close()
