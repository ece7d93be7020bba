"""Notifies the operator of environments that may sleep: that they work, or that they are to wake.

It writes annotations of the Environment, which the operator watches, and each of them at most once in a while.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Literal

from tieline_api.activator.targets import Target
from tieline_common.bounded_dict import BoundedDict
from tieline_core.identity.ids import format_time
from tieline_core.identity.names import ACTIVE_ANNOTATION, REPORTED_ANNOTATION, environment_object_name
from tieline_core.kubernetes import Kube, KubeError
from tieline_core.kubernetes.resources import ENVIRONMENTS

logger = logging.getLogger("tieline.activator")

_REPORTS = 4
"""Reports of a pod in the time after which its environment sleeps."""
_MOST = 10_000
_TRY_SECONDS = 3.0
"""Who has published an event waits no longer for Kubernetes."""
_Kind = Literal["wake", "works", "idle"]


def report_seconds(idle_seconds: int) -> float:
    """Seconds between two reports of a pod."""
    return idle_seconds / _REPORTS


class Wakes:
    """Writes the annotations of this replica."""

    def __init__(
        self,
        kube: Kube,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._kube = kube
        self._clock = clock
        self._now = now
        self._written: BoundedDict[tuple[Target, _Kind], float] = BoundedDict(_MOST)

    async def wake(self, target: Target) -> None:
        """Has the operator start pods, where there are none. Raises KubeError.

        An environment that was woken stays awake for a while: until then it is not written again.
        """
        await self._write_once(target, "wake", report_seconds(target.idle_seconds), ACTIVE_ANNOTATION)

    async def try_to_wake(self, target: Target | None) -> None:
        """As ``wake``, where it may fail: the operator looks at all queues by itself, too."""
        if target is None:
            return
        try:
            async with asyncio.timeout(_TRY_SECONDS):
                await self.wake(target)
        except (KubeError, TimeoutError) as error:
            logger.warning("An environment is not woken at once: %s", str(error) or type(error).__name__)

    async def report(self, target: Target, *, works: bool) -> None:
        """A pod of the environment works, or does not. Raises KubeError.

        Reports of several pods within half the time between two of one pod are written once.
        """
        quiet = report_seconds(target.idle_seconds) / 2
        if works:
            await self._write_once(target, "works", quiet, ACTIVE_ANNOTATION, REPORTED_ANNOTATION)
        else:
            await self._write_once(target, "idle", quiet, REPORTED_ANNOTATION)

    async def _write_once(self, target: Target, kind: _Kind, quiet: float, *annotations: str) -> None:
        now = self._clock()
        if now - self._written.get((target, kind), float("-inf")) < quiet:
            return
        self._written[target, kind] = now
        at = format_time(self._now())
        try:
            await self._kube.patch(
                ENVIRONMENTS,
                environment_object_name(target.project, target.environment),
                target.namespace,
                {"metadata": {"annotations": dict.fromkeys(annotations, at)}},
                field_manager="tieline-api-activity",
            )
        except BaseException:
            self._written.pop((target, kind), None)
            raise
