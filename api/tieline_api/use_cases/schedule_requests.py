"""Asking pods to run a schedule now: the request is kept at the Project, and pods are notified at once."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime

from tieline_api import errors
from tieline_api.activator.targets import target_of
from tieline_api.conversion.schedules import (
    REQUEST_LASTS,
    REQUESTS,
    ScheduleRequest,
    requests_of,
    requests_text,
)
from tieline_api.dependencies import Dependencies
from tieline_api.state.schedules import ScheduleProgress
from tieline_core.objects import Object
from tieline_core.resources.objects import ProjectObject

MAX_WAITING = 100
"""Requests of a project that no pod has begun with."""
_AT_ONCE = 8
_RETRY_SECONDS = 60.0

Progress = Callable[[str, str], Awaitable[ScheduleProgress]]
"""How far the schedule of an environment (both by name) is."""


async def request_run(
    platform: Dependencies, project: ProjectObject, wanted: ScheduleRequest, progress: Progress
) -> bool:
    """Whether it was added: one that waits already is not asked for twice. ApiError 429 where too many wait."""
    begun = await _begun(requests_of(project), progress)

    def change(live: ProjectObject, mine: Object) -> None:
        now = datetime.now(UTC)
        waiting = [one for one in requests_of(live) if one.id not in begun and now - one.at < REQUEST_LASTS]
        if any(one.same_run(wanted) for one in waiting):
            raise _AlreadyAskedError
        if len(waiting) >= MAX_WAITING:
            raise errors.too_many_requests(
                f"{MAX_WAITING} runs of schedules of this project are requested and have not started: "
                "see that its pods run, and try again later",
                retry_after=_RETRY_SECONDS,
            )
        annotations = mine["metadata"].setdefault("annotations", {})
        annotations[REQUESTS] = requests_text([*waiting, wanted])

    metadata = project["metadata"]
    place = (metadata["namespace"], metadata["name"])
    try:
        await platform.writer.change_in_turn(platform.cluster.projects, *place, change)
    except _AlreadyAskedError:
        return False
    await platform.wakes.try_to_wake(target_of(project, wanted.environment))
    return True


class _AlreadyAskedError(Exception):
    """Nothing is to be written."""


async def _begun(requests: Sequence[ScheduleRequest], progress: Progress) -> frozenset[str]:
    """The ids of those that pods have begun with."""
    gate = asyncio.Semaphore(_AT_ONCE)

    async def of(place: tuple[str, str]) -> frozenset[str]:
        async with gate:
            return (await progress(*place)).claimed

    places = {(one.environment, one.schedule) for one in requests}
    return frozenset().union(*await asyncio.gather(*map(of, places)))
