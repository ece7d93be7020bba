"""What becomes of an attempt: it has ended, is tried again, or is a dead letter. Queue and history are notified.

While the engine is away they are notified again. A pod that ends gives up what is not settled by then: the event comes
again elsewhere. So does, after a while, what the engine refuses to store.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from tieline.errors import RateLimitedError, TielineError, own_frames, reached_limit, reason
from tieline.events.child_ends import end_wait_of_parent
from tieline.events.history import HistoryWriter
from tieline.events.queue import (
    EventQueue,
    EventsUnavailableError,
    EventTooLargeError,
    MessageTooLargeError,
    QueueFullError,
)
from tieline.events.retry import Reject, RetryLater
from tieline.events.run_store import RunTakenOver
from tieline.events.wait_store import OpenWait
from tieline.execution.progress import shown
from tieline.server.event_attempt import Attempt
from tieline.server.queue_retries import RETRY_SECONDS, retried
from tieline.server.run_history import masked_error, masked_input, masked_results, masked_tags
from tieline.telemetry.metrics import Outcome
from tieline.telemetry.redaction import Redactor
from tieline.telemetry.spans import Span
from tieline_common.backoff import exponential, jitter
from tieline_protocol import run_records
from tieline_protocol.child_runs import ChildEnd
from tieline_protocol.events import EventMetadata
from tieline_protocol.run_records import (
    POD_DIED,
    InvalidRecordsError,
    RunError,
    RunRecord,
    RunStatus,
    StepRecord,
    WaitsFor,
)

logger = logging.getLogger("tieline.run")
T = TypeVar("T")

_RESCHEDULE_SECONDS = 2.5
"""For an event whose code was stopped since the pod ends."""
_BEGIN_SECONDS = 2.0
_MAX_CLAIMED_STEPS = 100
"""Of a run with more, the record of its end is kept without them for other pods."""
_MAX_DEFERRAL_SECONDS = 30 * 86400
"""How long RetryLater may put an event off: it would hold up its key for ever."""
_FIRST_REFUSAL = 10.0
_LONGEST_REFUSAL = 600.0
_COMPLAIN_SECONDS = 60.0
_LONGEST_SPREAD = 120.0
_NO_ROOM_FOR_DEAD_LETTERS = (
    "There is no room for dead letters: delete or replay dead letters. Until then, events of this environment that "
    "failed for good stay queued"
)
_NO_ROOM_FOR_RETRIES = (
    "There is no room for retries: let queued events run, and delete dead letters. Until then, events of this "
    "environment that are to be tried again stay as they are"
)


class KeptFailureError(TielineError):
    """Why an event is to be a dead letter, which there was no room for when it failed."""

    def __init__(self, message: str, name: str | None) -> None:
        super().__init__(message)
        self.name = name
        """Of the class of the error."""


class CancelledByEventError(TielineError):
    """Why a run is cancelled: which event did it."""


class SupersededError(TielineError):
    """Why a run is cancelled: a newer event of its task came within the time for which it is debounced."""


class EventSettlement:
    """Settles attempts: ``succeed``, ``fail``, ``cancel``, ``wait`` or ``dead_letter`` decides each for good."""

    def __init__(
        self,
        queue: EventQueue,
        history: HistoryWriter,
        *,
        redact: Callable[[], Redactor],
        version: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._queue = queue
        self._history = history
        self._redact = redact
        self._version = version
        self._clock = clock
        self._complain_at: dict[str, float] = {}
        self.retries = 0
        """Attempts that failed and are tried again."""
        self.dead = 0
        """Events that became dead letters."""

    def queued(
        self,
        metadata: EventMetadata,
        attempts: int,
        *,
        until: float | None = None,
        waits_for: WaitsFor | None = None,
    ) -> None:
        """The event was taken, and is queued again: where its publisher did not know that it belongs, or for a time."""
        mask = self._redact().for_run
        record = RunRecord(
            id=metadata.run,
            kind=metadata.kind,
            task=metadata.task,
            status="queued",
            attempt=0,
            attempts=attempts,
            queued_at=metadata.queued_at,
            at=self._clock(),
            user=metadata.user,
            version=self._version,
            key=metadata.key and mask(metadata.key),
            shared_key=metadata.shared_key,
            event_id=metadata.event_id and mask(metadata.event_id),
            next_attempt_at=until,
            waits_for=waits_for,
            replay_of=metadata.replay_of,
            parent=metadata.parent.run if metadata.parent else None,
        )
        self._history.add(record)

    async def begin(self, attempt: Attempt) -> None:
        """The attempt is under way.

        A pod that died may have written nothing of its attempt, and the next one may die at once as well. So what is
        known by now is stored before the code runs, unless the engine takes too long.
        """
        running = self._record(attempt, "running")
        if not attempt.interruptions:
            self._history.add(running)
            return
        died = replace(
            running,
            status="waiting",
            attempt=attempt.number - 1,
            started_at=None,
            ended_at=attempt.started_at,
            trace_id="",
            version="",
            error=replace(POD_DIED, message=attempt.died_of or POD_DIED.message),
        )
        self._history.add(died)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_BEGIN_SECONDS):
                await self._history.write(running)

    def report_progress(self, attempt: Attempt) -> None:
        """Show how far an attempt is that is under way, without its steps: its last record has them."""
        record = replace(self._record(attempt, "running"), steps=())
        if record.progress is not None and not attempt.decided:
            self._history.add(record)
            self.log_progress(attempt)

    def log_progress(self, attempt: Attempt) -> None:
        """Write into the log how far an attempt is."""
        progress = attempt.progress.record(attempt.number, self._redact().for_run)
        if progress is not None:
            logger.info("Progress: %s", shown(progress))

    async def succeed(self, attempt: Attempt) -> Outcome:
        """The code has run to its end."""
        attempt.decided = True
        await self._end(attempt, "succeeded", None)
        await self.settled(attempt.delivery.done)
        return "succeeded"

    async def fail(self, attempt: Attempt, error: Exception, span: Span) -> Outcome:
        """The code raised, or was stopped by its limit."""
        attempt.decided = True
        metadata, what = attempt.metadata, attempt.what
        if (limit := reached_limit(error)) is not None:
            spread = min(limit.retry_after, _LONGEST_SPREAD) / 4
            error = RetryLater(str(limit), after=limit.retry_after + jitter(spread, 0.0, 2.0))
        if isinstance(error, RetryLater) and self._clock() - metadata.queued_at > _MAX_DEFERRAL_SECONDS:
            error = Reject(f"It was put off for {_MAX_DEFERRAL_SECONDS // 86400} days: {error}")
        if isinstance(error, RetryLater):
            logger.info("%s is run again after %g seconds: %s", what, error.after, error)
            return await self.wait(attempt, attempt.number, self._clock() + error.after, waits_for="retry")
        span.fail(error)
        outcome: Outcome = "timed_out" if isinstance(error, TimeoutError) else "failed"
        if isinstance(error, Reject | EventTooLargeError):
            logger.error("%s was rejected, and is a dead letter: %s", what, reason(error))
            await self.dead_letter(attempt, error)
            return outcome
        if attempt.number >= attempt.retry.attempts:
            logger.error(
                "%s failed in its last attempt, %d, and is a dead letter: %s",
                what, attempt.number, reason(error), exc_info=own_frames(error),
            )  # fmt: skip
            await self.dead_letter(attempt, error)
            return outcome
        delay = max(attempt.retry.delay(attempt.number), _asked_for(error))
        logger.warning(
            "%s failed in attempt %d of %d, and is tried again in %g seconds: %s",
            what, attempt.number, attempt.retry.attempts, round(delay, 1), reason(error), exc_info=own_frames(error),
        )  # fmt: skip
        self.retries += 1
        await self.wait(attempt, attempt.number + 1, self._clock() + delay, error, waits_for="retry")
        return outcome

    async def cancel(self, attempt: Attempt) -> Outcome:
        """Somebody, or an event, has cancelled the run."""
        attempt.decided = True
        error = _cancelled_by(attempt)
        # The code asks for cancellation by events. One by a person deserves a warning.
        level = logging.WARNING if error is None else logging.INFO
        logger.log(level, "%s was cancelled%s", attempt.what, f": {error}" if error else "")
        await self._end(attempt, "cancelled", error)
        await self.settled(attempt.delivery.done)
        return "cancelled"

    async def supersede(self, attempt: Attempt, by: EventMetadata) -> Outcome:
        """A newer event of its task has taken the place of the event."""
        attempt.decided = True
        error = SupersededError(f"Superseded by a newer event (run {by.run})")
        logger.info("%s was not run: %s", attempt.what, error)
        await self._end(attempt, "cancelled", error)
        await self.settled(attempt.delivery.done)
        return "cancelled"

    async def debounce(self, attempt: Attempt, until: float, wait: OpenWait) -> Outcome:
        """Have its first attempt handed out again at a time, unless a newer event ends the wait."""
        attempt.decided = True
        metadata = replace(
            attempt.metadata, interruptions=0, has_steps=True, debounced=f"{wait.index} {wait.name}"
        )
        self.queued(metadata, attempt.retry.attempts, until=until, waits_for="debounce")
        waits = [replace(wait, until=until), *attempt.waits_until(until)]
        await self._store_until(attempt, metadata, until, waits)
        return "waiting"

    async def throttle(self, attempt: Attempt, until: float, place: str) -> Outcome:
        """Have it handed out again when its turn comes. The death of a pod that had it counts as an attempt."""
        attempt.decided = True
        metadata = replace(
            attempt.metadata, attempt=attempt.number, interruptions=0, has_steps=True, throttled=place
        )
        self.queued(metadata, attempt.retry.attempts, until=until, waits_for="throttle")
        await self._store_until(attempt, metadata, until, attempt.waits_until(until))
        return "waiting"

    async def reschedule(self, attempt: Attempt) -> Outcome:
        """The code was stopped, since the pod ends."""
        logger.warning("%s was stopped: the pod ends. Another one begins it again", attempt.what)
        await self.wait(attempt, attempt.number, self._clock(), seconds=_RESCHEDULE_SECONDS)
        return "interrupted"

    async def wait(
        self,
        attempt: Attempt,
        number: int,
        until: float,
        error: Exception | None = None,
        *,
        waits_for: WaitsFor | None = None,
        seconds: float = RETRY_SECONDS,
    ) -> Outcome:
        """Have it handed out again as attempt ``number``. ``waits_for`` is None for a pod."""
        attempt.decided = True
        metadata = replace(
            attempt.metadata,
            attempt=number,
            interruptions=0,
            published=attempt.events.published if attempt.events else attempt.metadata.published,
            has_steps=attempt.any_steps,
        )
        _check_held(attempt)
        record = self._record(attempt, "waiting", error, next_attempt_at=until, waits_for=waits_for)
        self._history.add(record)
        await self._store_until(attempt, metadata, until, attempt.waits_until(until), seconds=seconds)
        return "waiting" if error is None else "failed"

    async def _store_until(
        self,
        attempt: Attempt,
        metadata: EventMetadata,
        until: float,
        open_waits: Sequence[OpenWait],
        *,
        seconds: float = RETRY_SECONDS,
    ) -> None:
        waits = True

        async def store() -> None:
            nonlocal waits
            _check_held(attempt)
            waits = await attempt.delivery.wait(metadata, until, open_waits)

        try:
            await self.settled(store, seconds=seconds)
        except (QueueFullError, MessageTooLargeError) as refused:
            await self._released(attempt, refused)
        if not waits:
            await self._cancelled_meanwhile(attempt)

    async def settle_ended(self, attempt: Attempt) -> bool:
        """Whether another pod has run it to its end. Then nothing more becomes of it, and the history has that end."""
        first = await self.settled(lambda: self._queue.runs.end_of(attempt.metadata.run))
        if first is None:
            return False
        logger.warning("%s has ended already, and is not repeated", attempt.what)
        await self._write_first_end(attempt, _claimed(first))
        await self.settled(attempt.delivery.done)
        return True

    async def _end_wait_of_parent(self, attempt: Attempt, end: ChildEnd) -> None:
        """Tell the run that waits for this one, if one does. It is repeated until the event is acknowledged."""
        for parent in attempt.metadata.waiting_runs:
            await self.settled(partial(end_wait_of_parent, self._queue, parent, end, self._clock()))

    async def _write_first_end(self, attempt: Attempt, claimed: Sequence[RunRecord]) -> None:
        """Whoever claimed it may have died before the history had it. There it counts once, however often it comes."""
        payload = masked_input(attempt.delivery.payload, self._redact())
        for record in claimed:
            request = attempt.metadata.request
            await self._history.write(replace(record, input=payload, request=request, result=None))
        run = attempt.metadata.run
        end = ChildEnd.of(claimed[0]) if claimed else ChildEnd(child=run, status="failed")
        await self._end_wait_of_parent(attempt, end)

    async def dead_letter(self, attempt: Attempt, error: Exception) -> Outcome:
        """Make a dead letter of it. While there is no room for one, it waits for that."""
        attempt.decided = True
        _check_held(attempt)
        if await self.settle_ended(attempt):
            return "interrupted"
        if attempt.metadata.members:
            # Each of its events becomes a dead letter.
            await self._end(attempt, "failed", error)
            await self.settled(attempt.delivery.done)
            return "failed"
        metadata = replace(attempt.metadata, attempt=attempt.number, failure_type=self._failure(error).type)
        text = self._redact().for_run(reason(error))

        async def store() -> None:
            _check_held(attempt)
            await attempt.delivery.dead_letter(metadata, text)

        try:
            # First of all: whoever finds a run that has ended does not look for its dead letter.
            await self.settled(store)
        except (QueueFullError, MessageTooLargeError) as refused:
            await self._set_aside(attempt, error, refused)
            return "failed"
        self.dead += 1
        await self._end(attempt, "dead", error)
        await self.settled(attempt.delivery.done)
        return "failed"

    async def settled(self, call: Callable[[], Awaitable[T]], *, seconds: float = RETRY_SECONDS) -> T:
        """See ``retried``."""
        return await retried(call, seconds=seconds)

    async def _set_aside(self, attempt: Attempt, error: Exception, refused: EventsUnavailableError) -> None:
        """Keep an event that failed for good, and why, until there is room for its dead letter."""
        self._complain(_NO_ROOM_FOR_DEAD_LETTERS, refused)
        failure = self._failure(error)
        refusals = attempt.metadata.refusals + 1
        until = self._clock() + jitter(exponential(refusals, first=_FIRST_REFUSAL, cap=_LONGEST_REFUSAL))
        metadata = replace(
            attempt.metadata,
            attempt=attempt.number,
            interruptions=0,
            has_steps=attempt.any_steps,
            failure=failure.message[:1000],
            failure_type=failure.type,
            refusals=refusals,
        )

        waits = True

        async def store() -> None:
            nonlocal waits
            _check_held(attempt)
            waits = await attempt.delivery.set_aside(metadata, until)

        record = self._record(attempt, "waiting", error, next_attempt_at=until, waits_for="retry")
        self._history.add(record)
        try:
            await self.settled(store)
        except (QueueFullError, MessageTooLargeError) as also_refused:
            await self._released(attempt, also_refused)
        if not waits:
            await self._cancelled_meanwhile(attempt)

    async def _cancelled_meanwhile(self, attempt: Attempt) -> None:
        """Whoever cancelled it may have written that for an earlier attempt."""
        logger.warning("%s was cancelled and no longer waits", attempt.what)
        await self._end(attempt, "cancelled", None)

    async def _released(self, attempt: Attempt, refused: EventsUnavailableError) -> None:
        """The engine keeps the event as it was, and hands it out after a while."""
        self._complain(_NO_ROOM_FOR_RETRIES, refused)
        await attempt.delivery.release()

    def _complain(self, what: str, refused: EventsUnavailableError) -> None:
        """One line for all events that there is no room for, from time to time."""
        now = time.monotonic()
        if now >= self._complain_at.get(what, 0):
            self._complain_at[what] = now + _COMPLAIN_SECONDS
            logger.error("%s. %s", what, reason(refused))

    async def _end(self, attempt: Attempt, status: RunStatus, error: Exception | None) -> None:
        """Write how it has ended, unless another pod has ended it before."""
        record = self._record(attempt, status, error, with_input=True)
        # Where another pod may have begun with it, or may begin, that one is to see that it has ended.
        had_attempts = attempt.may_have_begun or attempt.any_steps or not attempt.delivery.held
        claims = had_attempts or status != "succeeded" or bool(attempt.metadata.waiting_runs)
        ended = replace(record, result=attempt.result if status == "succeeded" else None)
        if claims and (first := await self._claim_end(ended)) is not None:
            statuses = "".join(f": {one.status}" for one in first)
            logger.warning("%s has ended in another pod before%s", attempt.what, statuses)
            await self._write_first_end(attempt, first)
            return
        await self._history.write(record)
        await self._end_wait_of_parent(attempt, ChildEnd.of(ended))
        if claims:
            await self.settled(lambda: self._queue.runs.forget_steps(record.id))
        is_pending = attempt.metadata.debounced is not None
        has_waited = is_pending or (attempt.waits is not None and attempt.waits.has_waited)
        if has_waited or (attempt.cancellation is not None and had_attempts):
            await self.settled(lambda: self._queue.waits.forget(record.id, attempt.waits_until(0)))

    async def _claim_end(self, record: RunRecord) -> list[RunRecord] | None:
        """How a run has ended before, empty where that is not known; None where this is its first end."""
        steps = record.steps if len(record.steps) <= _MAX_CLAIMED_STEPS else ()
        content = run_records.encode(
            [replace(record, input=None, request=None, step_results=None, steps=steps)]
        )
        first = await self.settled(lambda: self._queue.runs.claim_end(record.id, content))
        return None if first is None else _claimed(first)

    def _failure(self, error: Exception) -> RunError:
        failure = masked_error(error, self._redact())
        return (
            replace(failure, type=error.name or failure.type)
            if isinstance(error, KeptFailureError)
            else failure
        )

    def _record(
        self,
        attempt: Attempt,
        status: RunStatus,
        error: Exception | None = None,
        *,
        next_attempt_at: float | None = None,
        waits_for: WaitsFor | None = None,
        with_input: bool = False,
    ) -> RunRecord:
        metadata, now, redact = attempt.metadata, self._clock(), self._redact()
        mask = redact.for_run
        steps: tuple[StepRecord, ...] = tuple(
            replace(
                step,
                name=mask(step.name),
                error=step.error and mask(step.error),
                approval=step.approval and replace(step.approval, comment=mask(step.approval.comment)),
            )
            for step in (attempt.steps.records if attempt.steps else attempt.woken)
        )
        return RunRecord(
            id=metadata.run,
            kind=metadata.kind,
            task=metadata.task,
            status=status,
            attempt=attempt.number,
            attempts=attempt.retry.attempts,
            queued_at=metadata.queued_at,
            at=now,
            user=metadata.user,
            activation_id=attempt.activation.id if attempt.activation else "",
            version=self._version,
            key=metadata.key and mask(metadata.key),
            shared_key=metadata.shared_key,
            event_id=metadata.event_id and mask(metadata.event_id),
            batch=metadata.batch,
            started_at=attempt.started_at,
            ended_at=None if status == "running" else now,
            next_attempt_at=next_attempt_at,
            waits_for=waits_for,
            error=self._failure(error) if error else None,
            trace_id=attempt.trace_id,
            replay_of=metadata.replay_of,
            parent=metadata.parent.run if metadata.parent else None,
            steps=steps,
            input=masked_input(attempt.delivery.payload, redact) if with_input else None,
            request=metadata.request if with_input else None,
            step_results=masked_results(attempt.steps.done, redact) if with_input and attempt.steps else None,
            tags=masked_tags(attempt.tags, redact),
            progress=attempt.progress.record(attempt.number, mask),
        )


def _claimed(content: bytes) -> list[RunRecord]:
    """The end that a run was claimed with; none where that is not known."""
    try:
        return run_records.decode(content) if content else []
    except InvalidRecordsError:
        return []


def _cancelled_by(attempt: Attempt) -> CancelledByEventError | None:
    """Names the event that has cancelled the run; None where somebody else has."""
    event = attempt.cancellation.event if attempt.cancellation else None
    if event is None:
        return None
    return CancelledByEventError(f"Cancelled by the event {event.task} (run {event.run})")


def _check_held(attempt: Attempt) -> None:
    """Raises RunTakenOver: what another pod may have begun with is no longer this pod's to record."""
    if not attempt.delivery.held:
        raise RunTakenOver


def _asked_for(error: Exception) -> float:
    """The seconds that a system has asked for before its next request."""
    return error.retry_after or 0.0 if isinstance(error, RateLimitedError) else 0.0
