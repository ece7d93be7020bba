"""The organisation's quota of events a second, which pods of all its environments share."""

import asyncio
import logging
import math
import time
from collections.abc import Callable

import aiohttp

from tieline.configuration.pod_api import UNREACHABLE, PodApi
from tieline.errors import reason
from tieline.events.queue import QueueFullError
from tieline_protocol.event_rates import PATH, RateLease

logger = logging.getLogger("tieline.events")

_TIMEOUT = aiohttp.ClientTimeout(total=2, connect=1)
_AWAY_SECONDS = 5.0
_SECOND = 1.0


class EventRate:
    """Counts events that are published. While the API cannot be asked, this pod counts alone."""

    def __init__(self, api: PodApi | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._clock = clock
        self._left = 0
        self._valid_until = -math.inf
        self._refused_until = -math.inf
        self._alone_until = -math.inf
        """The end of the second for which this pod has taken the whole quota."""
        self._away_until = -math.inf
        self._lock = asyncio.Lock()

    async def check(self, quota: int) -> None:
        """Counts an event. Raises QueueFullError for one too many; ``quota`` 0 is none."""
        if not quota or self._counted():
            return
        async with self._lock:
            if self._counted():
                return
            if self._clock() >= self._refused_until:
                lease = await self._lease(quota)
                now = self._clock()
                if lease.count:
                    self._left, self._valid_until = lease.count - 1, now + lease.seconds
                    return
                self._refused_until = now + lease.seconds
        raise QueueFullError(
            f"The organisation publishes more than {quota} events a second (quota eventsPerSecond): publish again in a "
            "second, and more slowly; an administrator of the cluster can raise the quota"
        )

    def _counted(self) -> bool:
        if self._left <= 0 or self._clock() >= self._valid_until:
            return False
        self._left -= 1
        return True

    async def _lease(self, quota: int) -> RateLease:
        if self._api is None or self._clock() < self._away_until:
            return self._own(quota)
        try:
            answer = await self._api.request("POST", PATH, limits=_TIMEOUT)
            if answer.status == 200:
                return RateLease.from_json(answer.json())
            problem = f"the API answered {answer.status}"
        except (*UNREACHABLE, ValueError) as error:
            problem = reason(error)
        logger.warning("This pod counts events alone, since the quota cannot be asked for: %s", problem)
        self._away_until = self._clock() + _AWAY_SECONDS
        return self._own(quota)

    def _own(self, quota: int) -> RateLease:
        now = self._clock()
        if now < self._alone_until:
            return RateLease(0, self._alone_until - now)
        self._alone_until = now + _SECOND
        return RateLease(quota, _SECOND)
