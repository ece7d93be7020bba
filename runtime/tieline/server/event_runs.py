"""Runs of events and of queued webhooks: tried until they succeed, are rejected, or have no attempt left.

Direct webhooks and schedules come here too when a run of one is run again: once.
"""

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from tieline.configuration.snapshot import Activation
from tieline.configuration.users import Users, UsersUnavailableError
from tieline.context import activation_key
from tieline.errors import TielineError, reason
from tieline.events.event import EventTask, KeyTooLongError
from tieline.events.history import HistoryWriter
from tieline.events.queue import Delivery, EventQueue, EventsUnavailableError
from tieline.events.run_cancellation import CancelledByEvent, run_cancellation
from tieline.events.run_store import Interruption, RunTakenOver
from tieline.events.steps import SuspendedRun
from tieline.events.wait_store import suspended_for
from tieline.execution.fair_limiter import Slot
from tieline.server.debounced_events import DebouncedEvents
from tieline.server.ended_waits import EndedWaits
from tieline.server.event_attempt import Attempt
from tieline.server.event_batches import batch_rule_of
from tieline.server.event_calls import EventCalls
from tieline.server.event_settlement import EventSettlement, KeptFailureError
from tieline.server.event_tasks import EventTasks, Task, retry_of
from tieline.server.invoker import Invoker
from tieline.server.throttled_events import ThrottledEvents
from tieline.telemetry import logs
from tieline.telemetry.logs import current_activation
from tieline.telemetry.metrics import Outcome, RunMetrics
from tieline.telemetry.redaction import current_redactor
from tieline.telemetry.spans import Value
from tieline_common.backoff import jitter
from tieline_protocol.events import EventMetadata
from tieline_protocol.run_records import WaitsFor

logger = logging.getLogger("tieline.run")

_SUSPECT = 2
"""Deaths after which a pod runs an event with no other such one beside it: that one would count as its victim."""
MAX_INTERRUPTIONS = 3
"""Pods that may die with an event: the next one would die with it too."""
_LOOK_UP_SECONDS = 5.0
"""How long an event waits when its user's activation cannot be looked up."""


class PodDiedError(TielineError):
    """The pods that ran the event died."""


class UnknownActivationError(TielineError):
    """The event is for a user who has no activation in this environment."""


class EventRuns:
    """Runs deliveries within the limits. ``run`` is a queue's handler."""

    def __init__(
        self,
        calls: Invoker,
        *,
        tasks: EventTasks,
        queue: EventQueue,
        history: HistoryWriter,
        users: Users,
        counts: RunMetrics,
        timeout: float,
        version: str,
        clock: Callable[[], float] = time.time,
        waits_for_batches: bool = True,
    ) -> None:
        """``timeout`` is in seconds, for tasks that have none of their own. ``waits_for_batches``: see EventBatches."""
        self._calls = calls
        self._tasks = tasks
        self._queue = queue
        self._settlement = EventSettlement(
            queue, history, redact=lambda: calls.tracer.redact, version=version, clock=clock
        )
        self._ended_waits = EndedWaits(queue, self._settlement, tasks.waits, clock=clock)
        self._debounced = DebouncedEvents(queue, self._settlement, clock=clock)
        self._throttled = ThrottledEvents(queue, self._settlement, clock=clock)
        self._code = EventCalls(
            calls,
            tasks=tasks,
            queue=queue,
            timeout=timeout,
            version=version,
            clock=clock,
            waits_for_batches=waits_for_batches,
        )
        self._users = users
        self._counts = counts
        self._clock = clock
        self._running: dict[str, tuple[Attempt, asyncio.Task[bool]]] = {}
        self._suspects = asyncio.Lock()

    @property
    def retries(self) -> int:
        """Attempts that failed and are tried again."""
        return self._settlement.retries

    @property
    def dead(self) -> int:
        """Events that became dead letters."""
        return self._settlement.dead

    def cancel(self, run: str) -> None:
        """Stop a run, if it is running here. One whose code has ended ends as it was going to."""
        attempt, task = self._running.get(run, (None, None))
        if attempt is not None and task is not None and not attempt.decided:
            attempt.cancelled = True
            task.cancel()

    def interruption(self, run: str, reason: str) -> Interruption | None:
        """What to keep of a run in whose middle this process ends; None for one that is not under way here.

        May be called in any thread.
        """
        found = self._running.get(run)
        if found is None:
            return None
        return Interruption(attempt=found[0].number, reason=self._calls.tracer.redact.for_run(reason))

    def run_of(self, task: asyncio.Task[Any]) -> tuple[str, str] | None:
        """The run's id, and what a task runs; None for a task that is not a run's own. May be called in any thread."""
        runs = list(self._running.items())
        return next(((run, attempt.what) for run, (attempt, one) in runs if one is task), None)

    async def run(self, delivery: Delivery) -> None:
        """Run an event once, and settle what becomes of it."""
        metadata = delivery.metadata
        if not delivery.held:
            # It was on its way for so long that somebody else has it by now.
            return
        task = self._tasks.find(metadata)
        if await self._debounced.leave_key(task, delivery):
            return
        if isinstance(task, EventTask) and await self._queued_behind_its_key(task, delivery):
            return
        if isinstance(task, EventTask) and await self._queued_in_its_lane(task, delivery):
            return
        deaths = await delivery.interruptions()
        if await self._handed_back(delivery):
            return
        # Of an event that waits for others, or for their batch, no code runs: it is not what a pod died of.
        is_member = batch_rule_of(task, metadata, delivery.payload) is not None
        kills = 0 if is_member else deaths
        attempt = Attempt(
            metadata=metadata,
            delivery=delivery,
            number=metadata.attempt + kills,
            retry=retry_of(task),
            started_at=self._clock(),
            interruptions=kills,
            was_handed_out=deaths > 0,
        )
        running = asyncio.ensure_future(self._run(attempt, task, kills))
        self._running[metadata.run] = (attempt, running)
        try:
            await running
        except asyncio.CancelledError:
            # The pod ends; what the run does about it is waited for.
            running.cancel()
            await asyncio.wait((running,), timeout=5)
        finally:
            if self._running.get(metadata.run) == (attempt, running):
                del self._running[metadata.run]

    async def _handed_back(self, delivery: Delivery) -> bool:
        """Waits for an attempt of the same run that is under way here. Whether it has settled the same message.

        An engine that was killed hands a message out twice. A retry comes while its attempt is still being settled.
        """
        run = delivery.metadata.run
        while (under_way := self._running.get(run)) is not None:
            attempt, earlier = under_way
            await asyncio.wait((earlier,))
            if self._running.get(run) == under_way:
                del self._running[run]
            is_settled = not earlier.cancelled() and earlier.exception() is None and earlier.result()
            if is_settled and attempt.delivery.message == delivery.message:
                logger.info("%s came twice, and was not begun again", attempt.what)
                # Where the engine is away, it comes again.
                with contextlib.suppress(EventsUnavailableError):
                    await delivery.ack_duplicate()
                return True
        return False

    async def _queued_behind_its_key(self, task: EventTask, delivery: Delivery) -> bool:
        """Whether an event that came without its key, or as if it were shared or not, was put into its key's queue.

        Publishers by REST do not know the code.
        """
        given = delivery.metadata
        try:
            key = given.key or task.key_of(json.loads(delivery.payload) if task.key else None)
        except (ValueError, RecursionError):
            # It is rejected when it runs.
            return False
        is_first = given.attempt == 1 and not given.has_steps
        is_shared = task.shared_key if is_first else given.shared_key
        if key is None or (key == given.key and is_shared == given.shared_key):
            return False
        # It stays behind this key, also where a pod of another version shares keys in another way: each move back would
        # be taken for a duplicate, and be lost.
        is_moved = given.key is not None
        metadata = replace(given, key=key, shared_key=is_shared, has_steps=given.has_steps or is_moved)
        try:
            if is_first and is_moved:
                # Behind its key it looks as if it had been begun.
                await self._ended_waits.end_before_move(given, delivery.payload)
            await self._queued_elsewhere(task, delivery, metadata)
        except EventsUnavailableError as error:
            logger.error(
                "An event cannot be queued behind its key, and is tried again later: %s", reason(error)
            )
            await delivery.release()
        return True

    async def _queued_in_its_lane(self, task: EventTask, delivery: Delivery) -> bool:
        """Whether an event that came among those of a higher priority, and would wait here, was put among its own.

        Publishers by REST do not know the code. Here it would hold up those that go before it.
        """
        given = delivery.metadata
        if task.priority >= given.priority:
            return False
        is_new = given.attempt == 1 and not given.has_steps and given.key is None and given.failure is None
        if not is_new or task.debounce is not None or not self._calls.turns.is_full:
            return False
        # If this pod dies before it acknowledges the event, whoever runs one of the two sees that the other has ended.
        metadata = replace(given, priority=task.priority, has_steps=True)
        try:
            await self._ended_waits.end_before_move(given, delivery.payload)
            await self._queued_elsewhere(task, delivery, metadata)
        except EventsUnavailableError as error:
            logger.error("An event cannot be queued by its priority, and comes again: %s", reason(error))
            await delivery.release()
        return True

    async def _queued_elsewhere(self, task: EventTask, delivery: Delivery, metadata: EventMetadata) -> None:
        await self._settlement.settled(lambda: self._queue.requeue(metadata, delivery.payload))
        await self._settlement.settled(delivery.done)
        self._settlement.queued(metadata, task.retry.attempts)

    async def _run(self, attempt: Attempt, task: Task | None, kills: int) -> bool:
        """Whether it is known what became of the event."""
        metadata = attempt.metadata
        logs.begin_run(metadata.run)
        if attempt.may_have_begun and await self._settlement.settle_ended(attempt):
            logs.end_run()
            return True
        started = time.perf_counter()
        outcome: Outcome = "interrupted"
        kind = metadata.kind
        try:
            if metadata.failure is not None:
                failure = KeptFailureError(metadata.failure, metadata.failure_type)
                outcome = await self._settlement.dead_letter(attempt, failure)
                return True
            if kills:
                attempt.died_of = await self._died_of(attempt)
            if kills and (kills >= MAX_INTERRUPTIONS or attempt.number > attempt.retry.attempts):
                error = _died(kills, attempt.died_of)
                # This attempt is not begun: the one before was the last.
                attempt.number, attempt.started_at = attempt.number - 1, None
                logger.error("%s %s is a dead letter: %s", kind.capitalize(), metadata.task, error)
                outcome = await self._settlement.dead_letter(attempt, error)
                return True
            if attempt.may_have_begun and await self._queue.runs.is_cancelled(metadata.run):
                # The pod that ran it did not hear of it, or died before it had said so.
                outcome = await self._settlement.cancel(attempt)
                return True
            if await self._is_cancelled_by_event(attempt, task):
                outcome = await self._settlement.cancel(attempt)
                return True
            ended = await self._settled_before_code(attempt, task)
            if ended is not None:
                outcome = ended
                return True
            async with self._suspects if kills >= _SUSPECT else contextlib.nullcontext():
                outcome = await self._in_turn(attempt, task)
        except asyncio.CancelledError:
            outcome = await self._stopped(attempt)
        except RunTakenOver:
            logger.warning(
                "%s %s was given up: another pod may have begun with it, because the event engine was out of reach",
                kind.capitalize(),
                metadata.task,
            )
        except EventsUnavailableError as error:
            # It was handed out by the engine, and is again once nobody renews its lease.
            logger.error("%s %s comes again: %s", kind.capitalize(), metadata.task, reason(error))
            await attempt.delivery.release()
        finally:
            self._report(attempt, outcome, time.perf_counter() - started)
            logs.end_run()
        return outcome != "interrupted"

    async def _settled_before_code(self, attempt: Attempt, task: Task | None) -> Outcome | None:
        """What became of an attempt whose code does not run now; None where it does."""
        outcome = await self._ended_waits.end(attempt, has_task=task is not None)
        if outcome is None and (error := _key_problem(task, attempt)) is not None:
            logger.error("%s was rejected, and is a dead letter: %s", attempt.what, error)
            outcome = await self._settlement.dead_letter(attempt, error)
        if outcome is None:
            outcome = await self._debounced.settle(attempt, task)
        if outcome is None:
            outcome = await self._throttled.settle(attempt, task)
        return outcome

    async def _is_cancelled_by_event(self, attempt: Attempt, task: Task | None) -> bool:
        """Whether an event cancels the run, as far as is known before its code runs."""
        attempt.cancellation = run_cancellation(
            self._queue.waits,
            task.cancel_on if isinstance(task, EventTask) else None,
            attempt.metadata,
            attempt.delivery.payload,
            key_hash=attempt.delivery.key_hash,
            began_wait=attempt.may_have_begun,
        )
        return attempt.cancellation is not None and await attempt.cancellation.look()

    async def _stopped(self, attempt: Attempt) -> Outcome:
        """The run's task was cancelled: by somebody, or because the pod ends."""
        if attempt.decided:
            logger.warning("%s was not settled before the pod ended, and comes again elsewhere", attempt.what)
            return "interrupted"
        if attempt.cancelled:
            return await self._settlement.cancel(attempt)
        try:
            return await self._settlement.reschedule(attempt)
        except (EventsUnavailableError, RunTakenOver):
            logger.warning("%s could not be handed on, and comes again elsewhere", attempt.what)
            return "interrupted"

    def _report(self, attempt: Attempt, outcome: Outcome, seconds: float) -> None:
        metadata = attempt.metadata
        kind: Literal["webhook", "event", "schedule"] = (
            metadata.kind if metadata.kind in ("webhook", "schedule") else "event"
        )
        self._counts.add(kind, metadata.task, outcome, seconds)
        fields: dict[str, Value] = {
            kind: metadata.task,
            "attempt": attempt.number,
            "outcome": outcome,
            **({"user": metadata.user} if metadata.user else {}),
            "durationMs": round(seconds * 1000, 3),
        }
        what = "queued webhook" if kind == "webhook" else kind
        logger.info("Ran %s %s", what, metadata.task, extra={"fields": fields})

    async def _died_of(self, attempt: Attempt) -> str:
        try:
            found = await self._queue.runs.interruption(attempt.metadata.run)
        except EventsUnavailableError:
            return ""
        return found.reason if found is not None and found.attempt == attempt.number - 1 else ""

    async def _in_turn(self, attempt: Attempt, task: Task | None) -> Outcome:
        metadata, turns = attempt.metadata, self._calls.turns
        try:
            attempt.activation = await self._activation(metadata.user)
        except UsersUnavailableError:
            logger.warning("%s waits: the activation of its user cannot be looked up", metadata.task)
            until = self._clock() + jitter(_LOOK_UP_SECONDS)
            return await self._settlement.wait(attempt, attempt.number, until)
        if attempt.activation is None:
            return await self._settlement.dead_letter(
                attempt,
                UnknownActivationError("There is no activation of its user in this environment"),
            )
        current_activation.set(attempt.activation.id or None)
        key = activation_key(attempt.activation)
        await turns.wait(key, priority=_priority(task), bounded=False)
        slot = Slot(turns, key)
        attempt.started_at = self._clock()
        return await self._traced(attempt, attempt.activation, task, slot)

    async def _traced(
        self, attempt: Attempt, activation: Activation, task: Task | None, slot: Slot
    ) -> Outcome:
        metadata = attempt.metadata
        headers = {"traceparent": metadata.traceparent} if metadata.traceparent else None
        with self._calls.tracer.run(
            metadata.task,
            execution_id=metadata.run,
            task=metadata.task,
            kind="CONSUMER",
            headers=headers,
            activation=activation.id,
            user=activation_key(activation),
        ) as span:
            attempt.trace_id = span.trace_id
            attributes: dict[str, Value] = {
                "messaging.system": "tieline",
                "messaging.operation.type": "process",
                "messaging.destination.name": metadata.task,
                "run.attempt": attempt.number,
                "run.kind": metadata.kind,
            }
            span.update(attributes)
            error: Exception | None = None
            until: float | None = None
            try:
                if not attempt.delivery.held:
                    raise RunTakenOver
                await attempt.delivery.begins(attempt.interruptions)
                await self._settlement.begin(attempt)
                attempt.progress.follow(lambda: self._settlement.report_progress(attempt))
                error = await self._code.call(attempt, task, slot)
            except SuspendedRun as suspended:
                until = suspended.until
            except CancelledByEvent:
                pass
            finally:
                if attempt.progress.stop():
                    self._settlement.log_progress(attempt)
                # However long it takes to settle it, others may run meanwhile.
                slot.release()
            # Between the end of the code and this line nobody can have cancelled it. Code that catches everything must
            # not end otherwise where an event has cancelled it.
            if attempt.is_cancelled_by_event or (
                attempt.cancelled and (error is not None or until is not None)
            ):
                return await self._settlement.cancel(attempt)
            if until is not None:
                waits_for = self._suspended_for(attempt, task)
                return await self._settlement.wait(attempt, attempt.number, until, waits_for=waits_for)
            if error is None:
                return await self._settlement.succeed(attempt)
            return await self._settlement.fail(attempt, error, span)

    def _suspended_for(self, attempt: Attempt, task: Task | None) -> WaitsFor:
        if batch_rule_of(task, attempt.metadata, attempt.delivery.payload) is not None:
            return "batch"
        return suspended_for(attempt.waits.open if attempt.waits is not None else ())

    async def _activation(self, external_id: str | None) -> Activation | None:
        if external_id is None:
            return self._calls.configuration.current.static
        found = await self._users.find(external_id)
        if found is not None and found.connections:
            current_redactor.set(lambda: found.redactor)
        return found


def _priority(task: Task | None) -> int:
    return task.priority if isinstance(task, EventTask) else 0


def _key_problem(task: Task | None, attempt: Attempt) -> KeyTooLongError | None:
    """Why an event that came without its key cannot be queued behind it."""
    if not isinstance(task, EventTask) or task.key is None or attempt.metadata.key is not None:
        return None
    try:
        task.key_of(json.loads(attempt.delivery.payload))
    except KeyTooLongError as error:
        return error
    except (ValueError, RecursionError):
        return None
    return None


def _died(kills: int, reason: str) -> PodDiedError:
    died = "1 pod" if kills == 1 else f"{kills} pods"
    if reason:
        return PodDiedError(
            f"{died} died while running it. The last one: {reason}. Correct the code, then replay the run"
        )
    return PodDiedError(
        f"{died} died while running it: code that blocks the event loop, a crash, or too little memory. "
        "The environment's message and the pods' logs say which; correct it, then replay the run"
    )
