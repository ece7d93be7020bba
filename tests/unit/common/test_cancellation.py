"""Tasks that are cancelled end, whatever they do, and threads before them where that is asked for."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tieline_common import cancellation
from tieline_common.cancellation import cancel_and_wait, finish_in_thread


async def test_a_task_that_drops_its_first_cancellation_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cancellation, "_AGAIN_SECONDS", 0.01)
    dropped = []

    async def stubborn() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            dropped.append(True)
        await asyncio.Event().wait()

    task = asyncio.create_task(stubborn())
    await asyncio.sleep(0)
    await cancel_and_wait(task, None)
    assert task.cancelled()
    assert dropped == [True]


async def test_the_error_of_a_task_that_had_failed_is_dropped() -> None:
    async def failing() -> None:
        raise RuntimeError

    task = asyncio.create_task(failing())
    await asyncio.wait({task})
    await cancel_and_wait(task)
    assert task.done()


async def test_no_tasks_need_no_wait() -> None:
    await cancel_and_wait()


async def test_a_cancelled_task_ends_after_the_thread_that_it_waits_for() -> None:
    began, may_end, ended = threading.Event(), threading.Event(), []

    def work(name: str) -> None:
        began.set()
        may_end.wait(10)
        ended.append(name)

    task = asyncio.create_task(finish_in_thread(work, "taken"))
    await asyncio.to_thread(began.wait, 10)
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0.01)
        assert not task.done()
    may_end.set()
    await asyncio.wait({task})
    assert task.cancelled()
    assert ended == ["taken"]


async def test_what_a_thread_returns_or_raises_is_passed_on() -> None:
    assert await finish_in_thread(int, "7") == 7
    with pytest.raises(ValueError, match="invalid literal"):
        await finish_in_thread(int, "x")
