"""Runs a schedule at once, whatever its times say: for ``tieline run --once``, and for tests."""

import asyncio
from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from tieline.scheduling.records import STATIC
from tieline.scheduling.schedules import Schedule, ScheduledRun
from tieline.serving.counts import Outcome
from tieline.serving.runs import Runner
from tieline.serving.scheduled import ScheduledRuns


async def run_now(
    schedule: Schedule,
    *,
    scheduled: ScheduledRuns,
    runner: Runner,
    users: Iterable[str],
    user: str | None = None,
    due: datetime | None = None,
    attempt: int = 1,
) -> Counter[Outcome]:
    """How the runs ended: for one user, or for all that the schedule is for, as many at once as it says.

    What they left in the background is waited for.
    """
    run = ScheduledRun(schedule=schedule.name, due=due or datetime.now(schedule.cron.zone), attempt=attempt)
    names = [user] if user is not None else [STATIC] if schedule.activations == "static" else list(users)
    before = _outcomes(runner, schedule)
    places = asyncio.Semaphore(schedule.parallel)

    async def in_place(name: str) -> None:
        async with places:
            await scheduled.run(schedule, run, name)

    await asyncio.gather(*map(in_place, names))
    await settled(runner)
    return _outcomes(runner, schedule) - before


async def settled(runner: Runner) -> None:
    """Wait until nothing runs in the background any more."""
    while runner.background.pending:  # noqa: ASYNC110  (it knows no events)
        await asyncio.sleep(0.002)


def _outcomes(runner: Runner, schedule: Schedule) -> Counter[Outcome]:
    return Counter(
        {
            outcome: count
            for (kind, task, outcome), count in runner.counts.runs.items()
            if (kind, task) == ("schedule", schedule.name)
        }
    )
