"""Events of debounced tasks: each waits for a while, and a newer one supersedes it.

An event that waits is a run with a wait (``tieline_protocol.waits``) for newer events of its task, at an index of its
own. So whichever of the two comes first finds the other, and the outcome of the wait is written once.
"""

import json
import logging
from collections.abc import Callable
from dataclasses import replace

from tieline.errors import reason
from tieline.events.debounce import DebounceRule
from tieline.events.event import EventTask
from tieline.events.matching import EventMatching
from tieline.events.queue import Delivery, EventQueue, EventsUnavailableError
from tieline.events.run_store import RunTakenOver
from tieline.events.wait_store import LEAST_KEEP_SECONDS, KeptEvent, OpenWait, Outcome, pending_wait
from tieline.server.event_attempt import Attempt
from tieline.server.event_settlement import EventSettlement
from tieline.server.event_tasks import Task
from tieline.telemetry import metrics
from tieline_protocol.events import EventMetadata
from tieline_protocol.waits import MAX_KEEP_SECONDS, DebounceWait

logger = logging.getLogger("tieline.run")


class DebouncedEvents:
    """Has events wait before their code runs, and settles those that a newer one supersedes."""

    def __init__(self, queue: EventQueue, settlement: EventSettlement, *, clock: Callable[[], float]) -> None:
        self._queue = queue
        self._matching = EventMatching(queue, {})
        self._settlement = settlement
        self._clock = clock

    async def leave_key(self, task: Task | None, delivery: Delivery) -> bool:
        """Whether an event of a debounced task was taken out of the order of its key. It would hold up newer ones."""
        metadata = delivery.metadata
        if metadata.key is None or _index(task, metadata, delivery.payload) is None:
            return False
        without = replace(metadata, key=None, shared_key=False)
        try:
            # A pod that died may have taken it out before.
            if not (await delivery.interruptions() and await self._goes_on_elsewhere(delivery)):
                await self._settlement.settled(lambda: self._queue.requeue(without, delivery.payload))
            await self._settlement.settled(delivery.done)
        except EventsUnavailableError as error:
            logger.error("An event cannot be debounced, and is tried again later: %s", reason(error))
            await delivery.release()
        return True

    async def settle(self, attempt: Attempt, task: Task | None) -> metrics.Outcome | None:
        """What became of the attempt; None where its code is to run now."""
        wait = pending_wait(attempt.metadata)
        if wait is not None:
            return await self._end(attempt, wait)
        index = _index(task, attempt.metadata, attempt.delivery.payload)
        if index is None or not isinstance(task, EventTask) or task.debounce is None:
            return None
        return await self._begin(attempt, task.debounce, index)

    async def _begin(self, attempt: Attempt, rule: DebounceRule, index: str) -> metrics.Outcome:
        metadata = attempt.metadata
        if attempt.interruptions:
            # The pod that had it died, or hung, before it acknowledged it.
            if await self._is_stored_for_later(attempt.delivery):
                attempt.decided = True
                await self._settlement.settled(attempt.delivery.ack_duplicate)
                return "interrupted"
            if await self._settled_end(attempt):
                return "interrupted"
        unlimited = _wait(index, metadata, limit=0.0)
        newer: KeptEvent | None = None
        limit = self._clock() + rule.timeout if rule.timeout is not None else 0.0

        async def supersede() -> None:
            nonlocal newer, limit
            newer = await self._queue.waits.find(unlimited)
            if newer is not None:
                return
            event = KeptEvent(metadata=metadata, payload=b"")
            keep = min(max(rule.period, LEAST_KEEP_SECONDS), MAX_KEEP_SECONDS)
            for one in await self._matching.supersede(event, index, keep=keep):
                before = DebounceWait.parse(one.name)
                # A burst is run in time, however long it goes on.
                if before is not None and before.limit:
                    limit = min(limit or before.limit, before.limit)

        await self._settlement.settled(supersede)
        if newer is not None:
            return await self._settlement.supersede(attempt, newer.metadata)
        until = self._clock() + rule.period
        wait = _wait(index, metadata, limit=limit)
        return await self._settlement.debounce(attempt, min(until, limit) if limit else until, wait)

    async def _goes_on_elsewhere(self, delivery: Delivery) -> bool:
        """Whether an event that was taken out of its order, and is handed out again, waits without it, or has ended."""
        return await self._is_stored_for_later(delivery) or await self._has_ended(delivery)

    async def _is_stored_for_later(self, delivery: Delivery) -> bool:
        queue, run = self._queue, delivery.metadata.run
        return await self._settlement.settled(
            lambda: queue.is_stored_for_later(run, besides=delivery.message)
        )

    async def _has_ended(self, delivery: Delivery) -> bool:
        return await self._settlement.settled(lambda: self._queue.runs.has_ended(delivery.metadata.run))

    async def _settled_end(self, attempt: Attempt) -> bool:
        """Whether the run has ended before. Then the history has that end, too: who wrote it may have died before.

        Raises EventsUnavailableError where a server is behind, so that the event comes again.
        """
        if not await self._has_ended(attempt.delivery):
            return False
        if not await self._settlement.settle_ended(attempt):
            raise EventsUnavailableError("The event engine does not say yet how a run has ended")
        return True

    async def _end(self, attempt: Attempt, wait: OpenWait) -> metrics.Outcome | None:
        """Its time is over, or a newer event has woken it. The first of the two counts."""
        waits = self._queue.waits

        async def decide() -> Outcome:
            found = await waits.outcome(wait)
            if found is None:
                found = await waits.decide(wait, Outcome(event=await waits.find(wait)))
            return found

        outcome = await self._settlement.settled(decide)
        if not attempt.delivery.held:
            # Another pod may have ended the run meanwhile, and removed the outcome.
            raise RunTakenOver
        if outcome.event is not None:
            return await self._settlement.supersede(attempt, outcome.event.metadata)
        if await self._settled_end(attempt):
            # A run that was woken can come twice, and the other one may have removed the outcome when it ended.
            await self._settlement.settled(lambda: self._queue.runs.forget_steps(wait.run))
            return "interrupted"
        await self._settlement.settled(lambda: waits.close(wait))
        attempt.metadata = replace(attempt.metadata, debounced=None)
        return None


def _index(task: Task | None, metadata: EventMetadata, payload: bytes) -> str | None:
    """Where newer events supersede one; None for an event that has begun, is not debounced, or repeats a run."""
    if not isinstance(task, EventTask) or task.debounce is None or metadata.replay_of is not None:
        return None
    if metadata.attempt > 1 or metadata.has_steps:
        return None
    try:
        return task.debounce_index(json.loads(payload), metadata.user)
    except (ValueError, RecursionError):
        return None


def _wait(index: str, metadata: EventMetadata, *, limit: float) -> OpenWait:
    name = DebounceWait(published=metadata.queued_at, limit=limit).name
    return OpenWait(index=index, run=metadata.run, name=name, until=0.0, since=0.0)
