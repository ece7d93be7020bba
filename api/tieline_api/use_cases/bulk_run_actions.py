"""What can be done with many runs at once: run again, cancel, discard."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import chain

from tieline_api.dependencies import Dependencies
from tieline_api.errors import ApiError
from tieline_api.runs.model import Run, RunFilter
from tieline_api.use_cases.run_actions import cancel, discard, replay, why_not_again
from tieline_protocol.run_records import ENDED

MOST = 10_000
"""Runs that one request acts on."""
_AT_ONCE = 8
"""Each may have an input of 8 MiB in memory."""


@dataclass(frozen=True)
class Affected:
    """What was done with many runs."""

    count: int
    skipped: int
    more: bool


async def replay_all(platform: Dependencies, wanted: RunFilter, *, dry_run: bool) -> Affected:
    """Runs again all runs of a filter that can be, and were not yet. Raises ApiError."""
    return await _with_all(
        platform,
        wanted,
        applies=lambda run: run.replayed_by is None and run.discarded_at is None and not why_not_again(run),
        act=lambda run: replay(platform, wanted.organisation, run, once=True),
        dry_run=dry_run,
        oldest_first=True,
    )


async def cancel_all(platform: Dependencies, wanted: RunFilter, *, dry_run: bool) -> Affected:
    """Cancels all runs of a filter that have not ended. Raises ApiError."""
    return await _with_all(
        platform,
        wanted,
        applies=lambda run: run.status not in ENDED,
        act=lambda run: cancel(platform, wanted.organisation, run),
        dry_run=dry_run,
    )


async def discard_all(platform: Dependencies, wanted: RunFilter, *, dry_run: bool) -> Affected:
    """Discards the dead letters of all runs of a filter that are dead. Raises ApiError."""
    return await _with_all(
        platform,
        wanted,
        applies=lambda run: run.status == "dead" and run.discarded_at is None,
        act=lambda run: discard(platform, wanted.organisation, run),
        dry_run=dry_run,
    )


async def _with_all(
    platform: Dependencies,
    wanted: RunFilter,
    *,
    applies: Callable[[Run], bool],
    act: Callable[[Run], Awaitable[object]],
    dry_run: bool,
    oldest_first: bool = False,
) -> Affected:
    async with platform.runs.bulk:
        found = await platform.runs.actionable(wanted, MOST + 1, oldest_first=oldest_first)
        more, found = len(found) > MOST, found[:MOST]
        chosen = [run for run in found if applies(run)]
        done = len(chosen) if dry_run else await _each(chosen, act)
        return Affected(done, len(found) - done, more)


async def _each(runs: Sequence[Run], act: Callable[[Run], Awaitable[object]]) -> int:
    """How many of the runs it was done with; those that refuse are left out. What ends it says how many were.

    Runs of one key follow one another in their order; several keys go on at the same time.
    """
    groups = _by_key(runs)
    waiting = iter(groups)
    done = 0

    async def work() -> None:
        nonlocal done
        for run in chain.from_iterable(waiting):
            try:
                await act(run)
            except ApiError as error:
                if error.status == 409:
                    continue
                raise
            done += 1

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(_AT_ONCE, len(groups))):
                group.create_task(work())
    except* ApiError as failed:
        first = failed.exceptions[0]
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        if isinstance(first, ApiError):
            first.extra["count"] = done
            raise first from None
    return done


def _by_key(runs: Sequence[Run]) -> list[list[Run]]:
    groups: dict[tuple[str | None, ...], list[Run]] = {}
    for run in runs:
        one = (run.environment, run.task, run.user, run.key) if run.key else (run.environment, run.id)
        groups.setdefault(one, []).append(run)
    return list(groups.values())
