"""Runs a schedule at once, whatever its times say: for ``tieline run --once``, and for tests."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from tieline.scheduling.records import STATIC
from tieline.scheduling.schedules import Schedule, ScheduledRun
from tieline.server.scheduled_runs import ScheduledRuns
from tieline.server.webhook_runs import Runner
from tieline.telemetry.metrics import Outcome

_MOST_NAMED = 20


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """How the runs of a schedule ended."""

    runs: int
    failures: Mapping[str, Outcome] = field(default_factory=dict)
    """How those ended that did not succeed, by their users' external ids; that of the static activation is empty."""

    def __str__(self) -> str:
        """Which users' runs did not succeed, and how.

        >>> str(RunSummary(runs=3, failures={"ann": "failed", "ben": "timed_out"}))
        'failed for ann; timed out for ben (2 of 3 runs)'
        >>> str(RunSummary(runs=1, failures={"": "failed"}))
        'failed'
        """
        texts = []
        for outcome, count in sorted(Counter(self.failures.values()).items()):
            users = [user for user, ended in self.failures.items() if ended == outcome and user]
            more = f" and {count - _MOST_NAMED} more" if count > _MOST_NAMED else ""
            names = f" for {', '.join(users[:_MOST_NAMED])}{more}" if users else ""
            texts.append(f"{outcome.replace('_', ' ')}{names}")
        counted = f" ({len(self.failures)} of {self.runs} runs)" if any(self.failures) else ""
        return "; ".join(texts) + counted


async def run_now(
    schedule: Schedule,
    *,
    scheduled: ScheduledRuns,
    runner: Runner,
    users: Iterable[str],
    user: str | None = None,
    due: datetime | None = None,
    attempt: int = 1,
) -> RunSummary:
    """How the runs ended: for one user, or for all that the schedule is for, as many at once as it says.

    What they left in the background is waited for.
    """
    run = ScheduledRun(schedule=schedule.name, due=due or datetime.now(schedule.cron.zone), attempt=attempt)
    names = [user] if user is not None else [STATIC] if schedule.activations == "static" else list(users)
    slots = asyncio.Semaphore(schedule.parallel)
    failures: dict[str, Outcome] = {}

    async def in_place(name: str) -> None:
        async with slots:
            outcome = await scheduled.run(schedule, run, name)
        if outcome not in ("succeeded", "refused"):
            failures[name] = outcome

    await asyncio.gather(*map(in_place, names))
    await settled(runner)
    # In the order of the users, whatever run ended first.
    return RunSummary(runs=len(names), failures={name: failures[name] for name in names if name in failures})


async def settled(runner: Runner) -> None:
    """Wait until nothing runs in the background any more."""
    while runner.background.pending:  # noqa: ASYNC110  (it knows no events)
        await asyncio.sleep(0.002)
