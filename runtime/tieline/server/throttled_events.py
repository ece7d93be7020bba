"""Events of throttled tasks: each takes a place in a line, and waits for its turn before its code runs.

The line (``tieline.events.throttle``) is one message for each limit, changed by compare-and-swap, so all pods have the
same one. An event gets its time from the line once, and is stored until then.
"""

import asyncio
import json
import logging
from collections.abc import Callable
from dataclasses import replace
from weakref import WeakValueDictionary

from tieline.events.event import EventTask
from tieline.events.queue import EventQueue, EventsUnavailableError
from tieline.events.throttle import Line, LineTooLongError, ThrottleRule, Turn
from tieline.server.event_attempt import Attempt
from tieline.server.event_settlement import EventSettlement
from tieline.server.event_tasks import Task
from tieline.telemetry import metrics
from tieline_common.backoff import exponential, jitter
from tieline_protocol.events import EventMetadata

logger = logging.getLogger("tieline.run")

_ATTEMPTS = 12
_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 1.0
_STARTED = "started"
"""The value of ``EventMetadata.throttled`` once a run has had its turn. Before, it is the run's place."""


class ThrottledEvents:
    """Has events wait until their task may start another run."""

    def __init__(self, queue: EventQueue, settlement: EventSettlement, *, clock: Callable[[], float]) -> None:
        self._queue = queue
        self._settlement = settlement
        self._clock = clock
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def settle(self, attempt: Attempt, task: Task | None) -> metrics.Outcome | None:
        """What became of the attempt; None where its code is to run now."""
        if not isinstance(task, EventTask) or task.throttle is None or not _needs_turn(attempt.metadata):
            return None
        rule = task.throttle
        index = task.throttle_index(_parsed(attempt.delivery.payload) if rule.key else None)
        try:
            turn = await self._settlement.settled(lambda: self._ask(rule, index, _place(attempt.metadata)))
        except LineTooLongError as error:
            logger.error("%s is a dead letter: %s", attempt.what, error)
            return await self._settlement.dead_letter(attempt, error)
        if turn.until is not None:
            return await self._settlement.throttle(attempt, turn.until / 1000, str(turn.place))
        attempt.metadata = replace(attempt.metadata, throttled=_STARTED)
        return None

    async def _ask(self, rule: ThrottleRule, index: str, place: int | None) -> Turn:
        # Events of one pod take turns here, so they do not make each other's writes fail.
        lock = self._locks.setdefault(index, asyncio.Lock())
        async with lock:
            for number in range(1, _ATTEMPTS + 1):
                now = round(self._clock() * 1000)
                kept = await self._queue.waits.line(index)
                line, turn = Line.decode(kept.content).ask(rule, now, place)
                if await self._queue.waits.keep_line(
                    index, line.encode(), line.seconds(rule, now), expected=kept.number
                ):
                    return turn
                await asyncio.sleep(jitter(exponential(number, first=_FIRST_PAUSE, cap=_LONGEST_PAUSE)))
        raise EventsUnavailableError(
            f"Other pods changed the line of a throttled task {_ATTEMPTS} times in a row"
        )


def _needs_turn(metadata: EventMetadata) -> bool:
    """Whether the run has not started yet. A retry needs none."""
    if metadata.throttled is not None:
        return metadata.throttled != _STARTED
    return metadata.attempt == 1


def _place(metadata: EventMetadata) -> int | None:
    text = metadata.throttled or ""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else None


def _parsed(payload: bytes) -> object:
    try:
        return json.loads(payload)
    except (ValueError, RecursionError):
        return None
