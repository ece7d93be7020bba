"""An event that the engine hands out again while the same pod runs it, as an engine does that was killed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from tests.harness.processes.event_pods import EventEnvironment, running_environment, until_logged
from tests.harness.processes.nats_server import NatsServer
from tests.harness.processes.running_runtime import RunningRuntime
from tests.harness.session.waiting import eventually_async
from tieline_protocol.event_streams import KEY_TOKEN, PODS, queued_parts

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
    async with running_environment(engine, tmp_path, CODE) as found:
        yield found


@pytest.mark.parametrize("task", ["order", "booking"])
async def test_it_is_run_once_and_does_not_come_back(environment: EventEnvironment, task: str) -> None:
    pod = await _running(environment, task)
    if task == "booking":
        await _copy(environment, token=True)
    else:
        await _forget_deliveries(environment)
    await _until_delivered(environment)
    _end(environment)
    await until_logged(pod, "came twice, and was not begun again")
    await environment.until_nothing_waits()
    assert environment.lines() == ["begun 1", "end", "over"]


async def test_another_message_of_the_same_run_waits_and_is_not_lost(environment: EventEnvironment) -> None:
    """As a retry does that is due before its attempt is settled."""
    await _running(environment, "order")
    await _copy(environment, token=False)
    await _until_delivered(environment)
    assert environment.lines() == ["begun 1"]
    _end(environment)
    await environment.until_nothing_waits()
    assert environment.lines() == ["begun 1", "end", "over", "begun 1", "over"]


async def _running(environment: EventEnvironment, task: str) -> RunningRuntime:
    pod = environment.pod()
    async with aiohttp.ClientSession() as http, http.post(f"{pod.url}/publish/{task}") as answer:
        assert answer.status == 200
    await environment.until_written("begun 1")
    return pod


def _end(environment: EventEnvironment) -> None:
    with environment.done.open("a") as file:
        file.write("end\n")


async def _copy(environment: EventEnvironment, *, token: bool) -> None:
    """Replaces the message that the pod holds by a copy, which the engine delivers for the first time."""
    jetstream, queue = environment.admin.jetstream(), environment.streams.queue
    info = await jetstream.stream_info(queue, subjects_filter=">")
    (subject,) = [one for one in info.state.subjects or {} if (queued_parts(one)[0] == KEY_TOKEN) == token]
    message = await jetstream.get_msg(queue, subject=subject)
    assert message.seq is not None
    await jetstream.delete_msg(queue, message.seq)
    headers = {name: value for name, value in (message.headers or {}).items() if name != "Nats-Msg-Id"}
    await jetstream.publish(subject, message.data or b"", headers=headers or None)


async def _forget_deliveries(environment: EventEnvironment) -> None:
    """Makes the consumer anew, which then delivers the message that the pod holds as if for the first time."""
    jetstream, queue = environment.admin.jetstream(), environment.streams.queue
    info = await jetstream.consumer_info(queue, PODS)
    await jetstream.delete_consumer(queue, PODS)
    await jetstream.add_consumer(queue, info.config)


async def _until_delivered(environment: EventEnvironment) -> None:
    jetstream, queue = environment.admin.jetstream(), environment.streams.queue

    async def is_delivered() -> bool:
        consumer = await jetstream.consumer_info(queue, PODS)
        last = (await jetstream.stream_info(queue)).state.last_seq
        return bool(consumer.num_ack_pending == 1 and consumer.delivered.stream_seq == last)

    await eventually_async("the message to be delivered", is_delivered, within=30)
