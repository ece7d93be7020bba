"""Events end waits of other runs before their own task runs. An event without a task does nothing else."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

from tieline.events.child_ends import end_wait_of_parent
from tieline.events.matching import EventMatching
from tieline.events.queue import EventQueue
from tieline.events.retry import Reject
from tieline.events.wait_store import Wait
from tieline.server.event_attempt import Attempt
from tieline.server.event_settlement import EventSettlement
from tieline.telemetry.metrics import Outcome
from tieline_protocol.approvals import ANSWER_TASK, InvalidApprovalError
from tieline_protocol.child_runs import ENDED_TASK, ChildEnd, InvalidChildEndError
from tieline_protocol.events import EventMetadata
from tieline_protocol.run_records import StepRecord
from tieline_protocol.signals import SIGNAL_TASK, InvalidSignalError
from tieline_protocol.waits import WaitRule

logger = logging.getLogger("tieline.run")

_EndWaits = Callable[[EventMetadata, bytes], Awaitable[Sequence[Wait]]]
_OF_PLATFORM = {ANSWER_TASK: "An answer to an approval", SIGNAL_TASK: "A signal"}
_MOST_WOKEN = 100
"""Woken runs that the record of an event names."""


class EndedWaits:
    """Ends waits, and settles the events that have no task."""

    def __init__(
        self,
        queue: EventQueue,
        settlement: EventSettlement,
        own: Mapping[str, Sequence[WaitRule]],
        *,
        clock: Callable[[], float],
    ) -> None:
        """``own`` are the rules of this version's code, by the events' names."""
        self._queue = queue
        self._matching = EventMatching(queue, own)
        self._settlement = settlement
        self._clock = clock

    async def end_before_move(self, metadata: EventMetadata, payload: bytes) -> None:
        """End the waits for the first attempt of an event that is about to be queued behind its key."""
        try:
            await self._end(metadata, payload, has_task=True)
        except Reject as error:
            logger.warning("Event %s ends no waits: %s", metadata.task, error)

    async def end(self, attempt: Attempt, *, has_task: bool) -> Outcome | None:
        """End the waits for an event. None where its task is to run, or no runs can wait for it."""
        metadata = attempt.metadata
        if metadata.kind == "event" and metadata.task == ANSWER_TASK:
            return await self._end_by_platform(attempt, self._matching.end_approval)
        if metadata.kind == "event" and metadata.task == SIGNAL_TASK:
            return await self._end_by_platform(attempt, self._matching.end_signal)
        if metadata.kind == "event" and metadata.task == ENDED_TASK:
            return await self._end_child(attempt)
        # Of an event with a task, the first attempt ends the waits. Each event of a batch has ended its own.
        is_later = metadata.attempt > 1 or metadata.has_steps or metadata.batch
        if metadata.kind != "event" or (has_task and is_later):
            return None
        started_at = self._clock()
        try:
            woken = await self._end(metadata, attempt.delivery.payload, has_task=has_task)
        except Reject as error:
            if has_task:
                logger.warning("%s ends no waits: %s", attempt.what, error)
                return None
            logger.error("%s is a dead letter: %s", attempt.what, error)
            return await self._settlement.dead_letter(attempt, error)
        if woken is None:
            return None
        logger.info("%s woke %d waiting runs", attempt.what, len(woken))
        if has_task:
            return None
        attempt.woken = [
            StepRecord(
                name=f"{'cancels' if wait.cancels else 'woke'} {wait.run}",
                occurrence=1,
                started_at=started_at,
                ended_at=self._clock(),
            )
            for wait in woken[:_MOST_WOKEN]
        ]
        return await self._settlement.succeed(attempt)

    async def _end_by_platform(self, attempt: Attempt, work: _EndWaits) -> Outcome:
        """Wake the run that an answer or a signal is for. The history has neither by itself."""
        woken: Sequence[Wait] = ()
        try:
            woken = await self._settlement.settled(lambda: work(attempt.metadata, attempt.delivery.payload))
        except (InvalidApprovalError, InvalidSignalError) as error:
            logger.warning("%s was dropped: %s", _OF_PLATFORM[attempt.metadata.task], error)
        attempt.decided = True
        await self._settlement.settled(attempt.delivery.done)
        what = _OF_PLATFORM[attempt.metadata.task]
        if woken:
            logger.info("%s woke %d waiting runs", what, len(woken))
        else:
            logger.info("%s is kept: no run waits for it yet", what)
        return "succeeded"

    async def _end_child(self, attempt: Attempt) -> Outcome:
        """Wake the runs that wait for a child, or a batch, which the platform has ended."""
        try:
            end = ChildEnd.decode(attempt.delivery.payload)
        except InvalidChildEndError as error:
            logger.warning("An end of a child run was dropped: %s", error)
        else:
            at = attempt.metadata.queued_at
            for waiting in attempt.metadata.waiting_runs:
                await self._settlement.settled(partial(end_wait_of_parent, self._queue, waiting, end, at))
        attempt.decided = True
        await self._settlement.settled(attempt.delivery.done)
        return "succeeded"

    async def _end(self, metadata: EventMetadata, payload: bytes, *, has_task: bool) -> Sequence[Wait] | None:
        """The waits that the event ended; None where no runs can wait for it.

        Repeats it while the engine is unavailable. If the engine has no room, the event is delivered again later.
        """
        woken: list[Wait] | None = None

        async def end() -> None:
            nonlocal woken
            if await self._matching.concerns(metadata.task, has_task=has_task):
                woken = [*(woken or ()), *await self._matching.end_waits(metadata, payload)]

        await self._settlement.settled(end)
        return woken
