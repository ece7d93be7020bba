"""Garbage collection goes on after any failure."""

import asyncio
import logging

import pytest

from tieline_core.kubernetes.errors import Unavailable
from tieline_core.kubernetes.periodic_gc import run_periodically


async def test_a_sweep_that_fails_is_logged_and_the_next_one_runs(caplog: pytest.LogCaptureFixture) -> None:
    """A bug in one sweep must not end garbage collection until the process restarts."""
    outcomes: list[Exception | int] = [KeyError("metadata"), Unavailable("away"), ValueError("bad"), 3]
    swept = asyncio.Event()

    async def sweep() -> int:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        swept.set()
        return outcome

    caplog.set_level(logging.INFO)
    task = asyncio.create_task(run_periodically(sweep, seconds=0.001, what="old things"))
    waiting = asyncio.create_task(swept.wait())
    await asyncio.wait({task, waiting}, timeout=5, return_when=asyncio.FIRST_COMPLETED)
    assert swept.is_set()
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING", "ERROR", "INFO"]
    assert "KeyError" in caplog.text
