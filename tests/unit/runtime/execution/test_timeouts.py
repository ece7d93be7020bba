"""Time-outs of runs: each block is stopped when its own time is over, and nobody else's cancellation is lost."""

import asyncio

import pytest

from tieline.execution.timeouts import Deadlines


async def within(deadlines: Deadlines, work: asyncio.Event) -> str:
    with deadlines.begin() as deadline:
        await work.wait()
    assert not deadline.expired
    return "done"


async def test_what_takes_too_long_is_stopped_and_the_others_go_on() -> None:
    deadlines = Deadlines(0.05)
    never, soon = asyncio.Event(), asyncio.Event()
    first = asyncio.create_task(within(deadlines, never))
    second = asyncio.create_task(within(deadlines, soon))
    await asyncio.sleep(0)
    soon.set()
    assert await second == "done"
    with pytest.raises(TimeoutError):
        await first
    third = asyncio.create_task(within(deadlines, never))
    with pytest.raises(TimeoutError):
        await third


async def test_none_is_stopped_before_its_time() -> None:
    deadlines = Deadlines(0.2)
    loop = asyncio.get_running_loop()

    async def stopped_after() -> float:
        began = loop.time()
        with pytest.raises(TimeoutError):
            await within(deadlines, asyncio.Event())
        return loop.time() - began

    tasks = []
    for _ in range(3):
        tasks.append(asyncio.create_task(stopped_after()))
        await asyncio.sleep(0.05)
    # The loop's clock may run up to its resolution ahead of a timer.
    assert all(taken > 0.19 for taken in await asyncio.gather(*tasks))


async def test_without_a_time_nothing_is_stopped() -> None:
    with Deadlines(0).begin() as deadline:
        await asyncio.sleep(0.01)
    assert not deadline.expired


async def test_a_block_that_others_cancel_is_cancelled() -> None:
    task = asyncio.create_task(within(Deadlines(60), asyncio.Event()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()


async def test_a_task_that_is_cancelled_as_its_time_ends_stays_cancelled() -> None:
    deadlines = Deadlines(60)

    async def both() -> None:
        with deadlines.begin() as deadline:
            deadline.expire()
            task.cancel()
            await asyncio.Event().wait()

    task = asyncio.create_task(both())
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()


async def test_code_may_have_time_outs_of_its_own() -> None:
    with Deadlines(60).begin() as deadline:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await asyncio.Event().wait()
        await asyncio.sleep(0)
    assert not deadline.expired


async def test_what_code_raises_while_it_is_stopped_is_reported() -> None:
    deadline = Deadlines(0.01).begin()

    async def fails_as_it_ends() -> None:
        with deadline:
            try:
                await asyncio.Event().wait()
            finally:
                raise ValueError("cleaning up")

    with pytest.raises(ValueError, match="cleaning up"):
        await fails_as_it_ends()
    assert deadline.expired
    # The task may go on: nothing of the deadline is left in it.
    await asyncio.sleep(0)
