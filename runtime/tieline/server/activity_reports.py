"""Reports to the platform whether the pod works, where its environment may sleep: a pod that works is not stopped."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import aiohttp

from tieline.configuration.pod_api import UNREACHABLE, PodApi
from tieline.errors import reason
from tieline_common.backoff import exponential, jitter

logger = logging.getLogger("tieline.activity")

_PATH = "/internal/v1/environment/activity"
_TIMEOUT = aiohttp.ClientTimeout(total=10, connect=3)
_FIRST_PAUSE = 1.0


@dataclass
class ActivityReports:
    """Reports now and then, once the configuration asks for it."""

    api: PodApi
    seconds: Callable[[], float | None]
    """Between two reports; None where nobody wants any."""
    busy: Callable[[], bool]
    """Whether something runs, or waits to run."""
    ended: Callable[[], int]
    """How many runs have ended."""
    begin: Callable[[], Awaitable[None]]
    """Done before the first report: the platform wants to know what wakes the environment, too."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def configured(self) -> None:
        """There is another configuration."""
        self._changed.set()

    async def run(self) -> None:
        """Report until cancelled."""
        reported, failures, begun = 0, 0, False
        while True:
            seconds = self.seconds()
            if seconds is None:
                self._changed.clear()
                await self._changed.wait()
                continue
            if not begun:
                await self.begin()
                begun = True
            ended = self.ended()
            problem = await self._send(self.busy() or ended != reported)
            if problem is None:
                reported, failures = ended, 0
                await asyncio.sleep(jitter(seconds, 0.8, 1.0))
                continue
            if not failures:
                logger.warning("The platform does not know whether this pod works, trying again: %s", problem)
            failures += 1
            await asyncio.sleep(jitter(exponential(failures, first=_FIRST_PAUSE, cap=seconds)))

    async def _send(self, working: bool) -> str | None:
        """Why it is to be reported again."""
        try:
            answer = await self.api.request("PUT", _PATH, body={"working": working}, limits=_TIMEOUT)
        except UNREACHABLE as error:
            return reason(error)
        return None if answer.status < 500 and answer.status != 429 else f"the API answered {answer.status}"
