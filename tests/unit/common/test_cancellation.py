"""Tasks that are cancelled end, whatever they do."""

from __future__ import annotations

import asyncio

import pytest

from tieline_common import cancellation
from tieline_common.cancellation import cancel_and_wait


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
