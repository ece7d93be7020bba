"""A server that leaves waits until nobody calls any more."""

from __future__ import annotations

import asyncio
import time

from tieline_common.silence import until_silent

LONG = 60.0


async def test_it_ends_when_nobody_has_called() -> None:
    await asyncio.wait_for(until_silent(lambda: 7, seconds=0.05, longest=LONG), 30)


async def test_each_call_begins_the_silence_anew() -> None:
    calls = 0
    waiting = asyncio.create_task(until_silent(lambda: calls, seconds=0.5, longest=LONG))
    for _ in range(60):
        calls += 1
        await asyncio.sleep(0.02)
    assert not waiting.done()
    await asyncio.wait_for(waiting, 30)


async def test_it_ends_while_they_call_after_the_longest_time() -> None:
    calls = iter(range(100_000))
    await asyncio.wait_for(until_silent(lambda: next(calls), seconds=LONG, longest=0.1), 30)


async def test_time_without_a_processor_is_no_silence() -> None:
    calls = 0
    waiting = asyncio.create_task(until_silent(lambda: calls, seconds=0.5, longest=LONG))
    await asyncio.sleep(0)
    time.sleep(0.7)  # noqa: ASYNC251 - as a process that got no processor: what comes meanwhile is counted later

    def counted() -> None:
        nonlocal calls
        calls += 1

    asyncio.get_running_loop().call_later(0.15, counted)
    await asyncio.sleep(0.2)
    assert not waiting.done(), "it did not see what came while it was stopped"
    await asyncio.wait_for(waiting, 30)
