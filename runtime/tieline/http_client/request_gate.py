"""Keeps requests within the limits of their connections; those of connections without limits pass by."""

import asyncio
import logging
from collections.abc import Callable
from time import monotonic

from tieline.configuration.snapshot import Connection
from tieline.errors import LimitReachedError, until
from tieline.http_client.limit_queue import LimitQueue
from tieline.http_client.limit_sources import LimitSource
from tieline.run_deadline import run_deadline
from tieline.telemetry.limit_metrics import LimitMetrics
from tieline_protocol.request_limits import MAX_PAUSE_SECONDS, RequestLimits

logger = logging.getLogger("tieline.limits")

_MANY = 1000
_COMPLAIN_SECONDS = 60.0
_RESERVED_SECONDS = 0.25
_RESERVED_PART = 0.05
_LATER_SECONDS = 5.0


class LimitGate:
    """The queues of all connections with limits that this process sends requests through."""

    def __init__(self, source: LimitSource, *, pod: str, metrics: LimitMetrics | None = None) -> None:
        """``pod`` tells this process apart from all others that share the limits."""
        self._source = source
        self._pod = pod
        self.metrics = metrics or LimitMetrics()
        self._queues: dict[str, LimitQueue] = {}
        self._complain_at = float("-inf")

    @property
    def waiting(self) -> int:
        """Requests that wait for their turn."""
        return sum(queue.waiting for queue in self._queues.values())

    async def enter(self, connection: Connection, *, is_hop: bool = False) -> Callable[[], None]:
        """See RequestGate."""
        limits = connection.limits
        if limits is None:
            return _nothing
        queue = self._queue(connection, limits)
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            await queue.take(_end_of_waiting(began), is_hop=is_hop)
        except TimeoutError:
            self.metrics.gave_up(connection.template, loop.time() - began)
            paused = queue.paused_seconds
            raise LimitReachedError(
                template=connection.template,
                limits=str(limits),
                waited=loop.time() - began,
                paused=paused,
                retry_after=max(paused, _LATER_SECONDS),
            ) from None
        went = loop.time()
        self.metrics.went(connection.template, went - began)
        return _Once(lambda: queue.release(is_hop=is_hop, after=loop.time() - went))

    def pause(self, connection: Connection, seconds: float) -> None:
        """See RequestGate."""
        if connection.limits is None or seconds <= 0:
            return
        self.metrics.paused(connection.template)
        logger.warning(
            "The limits of the system of template %s are reached: all pods wait, and send requests again %s",
            connection.template,
            until(min(seconds, MAX_PAUSE_SECONDS)),
        )
        self._queue(connection, connection.limits).pause(seconds)

    def _queue(self, connection: Connection, limits: RequestLimits) -> LimitQueue:
        # Connections of your own machine may have no ids.
        key = connection.id or f"template {connection.template}"
        queue = self._queues.get(key)
        if queue is None:
            if len(self._queues) >= _MANY:
                self._queues = {name: one for name, one in self._queues.items() if not one.is_idle}
            queue = self._queues[key] = LimitQueue(key, limits, self._source, self._pod, self._complain)
        queue.limits = limits
        return queue

    def _complain(self, why: str) -> None:
        self.metrics.alone += 1
        now = monotonic()
        if now >= self._complain_at:
            self._complain_at = now + _COMPLAIN_SECONDS
            logger.warning("Limits are not coordinated, this pod keeps to its share of them: %s", why)


class _Once:
    """Calls something the first time that it is called."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable[[], None]) -> None:
        self._call: Callable[[], None] | None = call

    def __call__(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call()


def _nothing() -> None:
    """What has no limit is not counted."""


def _end_of_waiting(now: float) -> float | None:
    """A little before the run's end, so that the run can tell why it did not get on."""
    deadline = run_deadline.get()
    if deadline is None:
        return None
    return deadline - min(_RESERVED_SECONDS, max(0.0, deadline - now) * _RESERVED_PART)
