"""Coroutines of a run that go on side by side, and are awaited together."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from tieline.events.steps import MAX_STEPS, SuspendedRun


async def side_by_side(work: Sequence[Coroutine[Any, Any, Any]]) -> list[Any]:
    """The results, in the order of ``work``.

    It returns or raises once each has ended, sleeps or waits: so every step under way is recorded, and each wait has
    begun. Raises the first error in the order of ``work``; without one, the SuspendedRun with the earliest time.
    """
    if len(work) > MAX_STEPS:
        for one in work:
            one.close()
        raise ValueError(f"At most {MAX_STEPS:,} go on side by side, not {len(work):,}")
    if not work:
        return []
    # Tasks start in order, so steps of the same name get their occurrences in the order of ``work``.
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        await asyncio.wait(tasks)
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
    # asyncio logs exceptions that are never retrieved.
    errors = [None if task.cancelled() else task.exception() for task in tasks]
    for task, error in zip(tasks, errors, strict=True):
        if not isinstance(error, SuspendedRun):
            task.result()
    suspended = [error for error in errors if isinstance(error, SuspendedRun)]
    if suspended:
        raise min(suspended, key=lambda one: one.until)
    return [task.result() for task in tasks]
