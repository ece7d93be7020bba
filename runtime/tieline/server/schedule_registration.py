"""Telling the platform which schedules the code has, so that people can see, pause and run them."""

import asyncio
import logging
from collections.abc import Iterable, Mapping

import aiohttp

from tieline.configuration.pod_api import UNREACHABLE, PodApi
from tieline.errors import reason
from tieline.scheduling.schedules import Schedule
from tieline_common.backoff import exponential, jitter

logger = logging.getLogger("tieline.schedules")

_PATH = "/internal/v1/environment/schedules"
_TIMEOUT = aiohttp.ClientTimeout(total=10, connect=3)
_FIRST_BACKOFF = 1.0
_LONGEST_BACKOFF = 60.0
_REFUSED = frozenset({400, 413, 422})


async def register(
    api: PodApi, version: str, schedules: Iterable[Schedule], *, first_backoff: float = _FIRST_BACKOFF
) -> None:
    """Tell the API of the code's schedules, and try until it has taken them. Schedules run all the same."""
    body = {"version": version, "schedules": [_described(one) for one in schedules]}
    failures = 0
    while (problem := await _refused(api, body)) is not None:
        if not failures:
            logger.warning("The schedules were not registered with the platform, trying again: %s", problem)
        failures += 1
        pause = exponential(failures, first=first_backoff, cap=_LONGEST_BACKOFF)
        await asyncio.sleep(jitter(pause, 0.5, 1.0))


async def _refused(api: PodApi, body: Mapping[str, object]) -> str | None:
    """Why it is to be registered again; None when that is done or would not help."""
    try:
        answer = await api.request("PUT", _PATH, body=body, limits=_TIMEOUT)
    except UNREACHABLE as error:
        return reason(error)
    if 200 <= answer.status < 300:
        return None
    if answer.status in _REFUSED:
        logger.error("The platform does not show the schedules: the API answered %d", answer.status)
        return None
    return f"the API answered {answer.status}"


def _described(schedule: Schedule) -> dict[str, str]:
    return {
        "name": schedule.name,
        "cron": schedule.cron.expression,
        "timezone": schedule.cron.zone.key,
        "activations": schedule.activations,
    }
