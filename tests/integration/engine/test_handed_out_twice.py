"""An event that the engine hands out again while the same pod runs it, as an engine does that was killed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from tests.harness.processes.event_pods import EventEnvironment, event_environment
from tests.harness.processes.nats_server import NatsServer
from tests.harness.processes.running_runtime import RunningRuntime
from tests.harness.session.waiting import eventually_async
from tieline_protocol.event_streams import KEY_TOKEN, subject_parts

CODE = """
import asyncio, os
from pathlib import Path
from tieline import Context, Event, Integration, Request

integration = Integration()
DONE = Path(os.environ["DONE"])


def write(text):
    with DONE.open("a") as file:
        file.write(f"{text}\\n")


async def work(ctx, event):
    write(f"begun {event.attempt}")
    while "end" not in DONE.read_text().splitlines():
        await asyncio.sleep(0.05)
    write("over")


@integration.event("order")
async def order(ctx: Context, event: Event) -> None:
    await work(ctx, event)


@integration.event("booking", key="customer")
async def booking(ctx: Context, event: Event) -> None:
    await work(ctx, event)


@integration.webhook("publish/{task}")
async def publish(ctx: Context, request: Request) -> dict:
    return {"run": await ctx.publish(request.match_info["task"], {"customer": "ann"})}
"""


@pytest.fixture
async def environment(engine: NatsServer, tmp_path: Path) -> AsyncIterator[EventEnvironment]:
    admin = await engine.admin()
    found = await event_environment(engine, admin, tmp_path, CODE)
    yield found
    found.stop()
    await found.admin.close()
    await admin.close()


@pytest.mark.parametrize("task", ["order", "booking"])
async def test_it_is_run_once_and_does_not_come_back(environment: EventEnvironment, task: str) -> None:
    pod = environment.pod()
    async with aiohttp.ClientSession() as http, http.post(f"{pod.url}/publish/{task}") as answer:
        assert answer.status == 200
    await _until_written(environment, "begun 1")
    await _hand_out_again(environment, token=task == "booking")
    await _until_said(pod, "runs here already")
    with environment.done.open("a") as file:
        file.write("end\n")
    await _until_written(environment, "over")

    async def nothing_waits() -> bool:
        return await environment.waits() == 0

    await eventually_async("nothing queued", nothing_waits, within=60)
    assert environment.lines() == ["begun 1", "end", "over"]


async def _hand_out_again(environment: EventEnvironment, *, token: bool) -> None:
    """Replaces the message that the pod holds by a copy, which the engine delivers for the first time."""
    jetstream, queue = environment.admin.jetstream(), environment.streams.queue
    info = await jetstream.stream_info(queue, subjects_filter=">")
    (subject,) = [one for one in info.state.subjects or {} if (subject_parts(one)[0] == KEY_TOKEN) == token]
    message = await jetstream.get_msg(queue, subject=subject)
    assert message.seq is not None
    await jetstream.delete_msg(queue, message.seq)
    headers = {name: value for name, value in (message.headers or {}).items() if name != "Nats-Msg-Id"}
    await jetstream.publish(subject, message.data or b"", headers=headers or None)


async def _until_written(environment: EventEnvironment, text: str) -> None:
    async def is_there() -> bool:
        return text in environment.lines()

    await eventually_async(f"written: {text}", is_there, within=60)


async def _until_said(pod: RunningRuntime, text: str) -> None:
    async def is_there() -> bool:
        return text in pod.log.read_text()

    async def seen() -> object:
        return pod.log.read_text()[-3000:]

    await eventually_async(f"in the log: {text}", is_there, within=30, seen=seen)
