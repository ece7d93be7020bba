"""Two pods that have one run at the same time: a step that one of them has recorded is not begun by the other one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.harness.processes.nats_server import NatsServer
from tieline.events.engine.connection import EngineConnection
from tieline.events.engine.storage import EngineStorage
from tieline.events.run_store import RunTakenOver
from tieline.events.steps import RunSteps, StepsChanged
from tieline_core.engine.streams import StreamLimits
from tieline_core.identity.ids import new_id
from tieline_protocol.event_streams import EventStreams

LIMITS = StreamLimits(queue_bytes=1 << 24, runs_bytes=1 << 24)


@asynccontextmanager
async def _pod(engine: NatsServer, streams: EventStreams, credentials: Path) -> AsyncIterator[EngineStorage]:
    connection = EngineConnection(urls=[engine.url], credentials_file=credentials, streams=streams)
    running = asyncio.create_task(connection.run())
    await connection.connected.wait()
    try:
        yield EngineStorage(connection)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await connection.close()


@pytest.fixture
async def pods(engine: NatsServer, tmp_path: Path) -> AsyncIterator[list[EngineStorage]]:
    streams, now = EventStreams(new_id(), new_id()), datetime.now(UTC)
    await engine.make_environment(streams, LIMITS)
    credentials = tmp_path / "engine.creds"
    credentials.write_text(engine.trust.pod_credentials(streams, at=now, expires=now + timedelta(hours=1)))
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(_pod(engine, streams, credentials)) for _ in range(2)]


def attempt(pod: EngineStorage, run: str, *, retried: bool = False, version: str = "v1") -> RunSteps:
    """An attempt of a pod that believes that it alone has the run."""
    return RunSteps(
        pod.runs, run, may_have_results=retried, held=lambda: True, clock=pod.clock, version=version
    )


@pytest.mark.parametrize("retried", [False, True], ids=["as if for the first time", "as a retry"])
async def test_what_is_recorded_too_late_is_refused_and_done_once_more(
    pods: list[EngineStorage], retried: bool
) -> None:
    run = new_id()
    first, second = attempt(pods[0], run), attempt(pods[1], run, retried=retried)
    await first.finish(await first.begin("fetch"), 1)
    late = await first.begin("book")
    fetched = await second.begin("fetch")
    assert fetched.result == b"1"
    await second.finish(fetched, None)
    again = await second.begin("book")
    assert again.result is None
    with pytest.raises(RunTakenOver):
        await first.finish(late, "of the first")
    assert await second.finish(again, "of the second") == "of the second"
    third = attempt(pods[0], run, retried=True)
    assert (await third.begin("fetch")).result == b"1"
    assert (await third.begin("book")).result == b'"of the second"'


async def test_what_is_recorded_in_time_is_not_done_again(pods: list[EngineStorage]) -> None:
    run = new_id()
    first, second = attempt(pods[0], run), attempt(pods[1], run)
    await first.finish(await first.begin("book"), 1)
    assert (await second.begin("book")).result == b"1"


async def test_an_attempt_whose_run_has_ended_elsewhere_records_nothing(pods: list[EngineStorage]) -> None:
    run = new_id()
    first, second = attempt(pods[0], run), attempt(pods[1], run)
    late = await first.begin("book")
    await second.finish(await second.begin("book"), 1)
    await pods[1].runs.forget_steps(run)
    with pytest.raises(RunTakenOver):
        await first.finish(late, 2)
    with pytest.raises(RunTakenOver):
        await attempt(pods[0], run).begin("book")


async def test_other_steps_than_those_recorded_are_refused(pods: list[EngineStorage]) -> None:
    run = new_id()
    first = attempt(pods[0], run, version="v1")
    for name in ("fetch", "book"):
        await first.finish(await first.begin(name, work="w1"), name)
    second = attempt(pods[1], run, version="v2", retried=True)
    assert (await second.begin("fetch", work="w1")).result == b'"fetch"'
    with pytest.raises(
        StepsChanged, match=r"Step 2 of this run is 'book', which version v1 .* asks for 'pay'"
    ):
        await second.begin("pay", work="w1")
    third = attempt(pods[0], run, version="v2", retried=True)
    with pytest.raises(StepsChanged, match="another function or other arguments"):
        await third.begin("fetch", work="w2")


async def test_all_attempts_agree_about_a_patch(pods: list[EngineStorage]) -> None:
    run = new_id()
    first = attempt(pods[0], run, version="v1")
    assert await first.patched("from the beginning")
    await first.finish(await first.begin("fetch"), 1)
    for number, version in ((0, "v2"), (1, "v3")):
        later = attempt(pods[number], run, version=version, retried=True)
        assert await later.patched("from the beginning")
        assert not await later.patched("before the fetch")
        await later.finish(await later.begin("fetch"), None)
        assert await later.patched("after the fetch")


async def test_a_patch_is_not_answered_by_two_attempts(pods: list[EngineStorage]) -> None:
    run = new_id()
    first, second = attempt(pods[0], run), attempt(pods[1], run)
    await first.finish(await first.begin("fetch"), 1)
    assert not await second.patched("new")
    with pytest.raises(RunTakenOver):
        await first.patched("new")


async def test_steps_of_one_attempt_side_by_side(pods: list[EngineStorage]) -> None:
    run = new_id()
    steps = attempt(pods[0], run)

    async def do(number: int) -> int:
        done: int = await steps.finish(await steps.begin(f"step {number}"), number)
        return done

    assert await asyncio.gather(*(do(number) for number in range(20))) == list(range(20))
    kept = await pods[0].subjects(pods[0].streams.runs, pods[0].streams.all_of_run(run))
    assert len(kept) == 21
    await pods[0].runs.forget_steps(run)
    assert await pods[0].subjects(pods[0].streams.runs, pods[0].streams.all_of_run(run)) == {
        pods[0].streams.ended(run)
    }
