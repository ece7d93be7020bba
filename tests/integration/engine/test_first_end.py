"""A run ends once: where two pods bring it to an end, the first end that is recorded counts, and the letter agrees."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from tests.harness.processes.event_pods import EventEnvironment, running_environment, until_logged
from tests.harness.processes.nats_server import NatsServer
from tests.harness.processes.running_runtime import RunningRuntime
from tests.harness.session.waiting import eventually_async
from tieline_protocol.event_streams import subject_parts
from tieline_protocol.run_records import ENDED

CODE = """
import asyncio, os
from pathlib import Path
from tieline import Context, Event, Integration, Reject, Request, Retry

integration = Integration()
DONE = Path(os.environ["DONE"])


def write(text):
    with DONE.open("a") as file:
        file.write(f"{text}\\n")


async def told(text):
    while text not in DONE.read_text().splitlines():
        await asyncio.sleep(0.05)


@integration.event("order", retry=Retry(attempts=5, first=0.1))
async def order(ctx: Context, event: Event) -> None:
    write(f"begun {event.attempt}")
    await told(f"end {event.attempt}")
    write(f"over {event.attempt}")
    if event.attempt > 1:
        raise Reject("nobody wants it")


@integration.webhook("publish")
async def publish(ctx: Context, request: Request) -> dict:
    return {"run": await ctx.publish("order", {})}
"""


@pytest.fixture
async def environment(engine: NatsServer, tmp_path: Path) -> AsyncIterator[EventEnvironment]:
    async with running_environment(engine, tmp_path, CODE) as found:
        yield found


async def test_a_pod_that_hung_does_not_end_a_run_that_is_a_dead_letter(
    environment: EventEnvironment,
) -> None:
    run, hung = await _taken_over(environment)
    _tell(environment, "end 2")
    await _ended_as(environment, run, "dead")
    hung.signal(signal.SIGCONT)
    _tell(environment, "end 1")
    await until_logged(hung, "has ended in another pod before: dead")
    await environment.until_nothing_waits()
    assert set(await _ends(environment, run)) == {"dead"}
    assert await _letters(environment) == [run]


async def test_a_run_that_a_pod_ended_late_becomes_no_dead_letter(environment: EventEnvironment) -> None:
    run, hung = await _taken_over(environment)
    hung.signal(signal.SIGCONT)
    _tell(environment, "end 1")
    await _ended_as(environment, run, "succeeded")
    _tell(environment, "end 2")
    await until_logged(environment.pods[1], "has ended already, and is not repeated")
    await environment.until_nothing_waits()
    assert set(await _ends(environment, run)) == {"succeeded"}
    assert await _letters(environment) == []


async def _taken_over(environment: EventEnvironment) -> tuple[str, RunningRuntime]:
    """A run of which one pod, which hangs, does the first attempt, and another one the second."""
    hung = environment.pod()
    async with aiohttp.ClientSession() as http, http.post(f"{hung.url}/publish") as answer:
        run: str = (await answer.json())["run"]
    await environment.until_written("begun 1")
    hung.signal(signal.SIGSTOP)
    environment.pod()
    await environment.until_written("begun 2")
    return run, hung


def _tell(environment: EventEnvironment, text: str) -> None:
    with environment.done.open("a") as file:
        file.write(f"{text}\n")


async def _ended_as(environment: EventEnvironment, run: str, status: str) -> None:
    async def has_ended() -> bool:
        return status in await _ends(environment, run)

    await eventually_async(f"the run to be {status}", has_ended, within=30)


async def _ends(environment: EventEnvironment, run: str) -> list[str]:
    return [one.status for one in await environment.history() if one.id == run and one.status in ENDED]


async def _letters(environment: EventEnvironment) -> list[str]:
    streams = environment.streams
    info = await environment.admin.jetstream().stream_info(streams.dead_letters, subjects_filter=">")
    return [subject_parts(subject)[0] for subject in info.state.subjects or {}]
