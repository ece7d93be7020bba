"""Runs of events and of queued webhooks: tried until they succeed, are rejected, or have no attempt left.

Direct webhooks and schedules come here too when a run of one is run again: once.
"""

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal

from aiohttp import web

from tieline.configuration.snapshot import Activation
from tieline.configuration.users import Users, UsersUnavailableError
from tieline.context import WebhookDelivery, activation_key
from tieline.errors import TielineError, reason
from tieline.events.event import Event, EventTask
from tieline.events.history import HistoryWriter
from tieline.events.queue import Delivery, EventQueue, EventsUnavailableError
from tieline.events.retry import Reject, Retry
from tieline.events.run_events import RunEvents
from tieline.events.run_store import RunTakenOver
from tieline.events.steps import RunSteps, SuspendedRun
from tieline.execution.fair_limiter import Slot
from tieline.integration import Webhook
from tieline.run_deadline import begin_deadline
from tieline.scheduling.schedules import Schedule, ScheduledRun
from tieline.server.event_attempt import Attempt
from tieline.server.event_settlement import EventSettlement, KeptFailureError
from tieline.server.invoker import Invoker
from tieline.server.request_bodies import unreadable
from tieline.server.run_history import due_of
from tieline.server.stored_request import stored_request
from tieline.sync import SyncContext, SyncRequest
from tieline.telemetry import logs
from tieline.telemetry.logs import current_activation
from tieline.telemetry.metrics import Outcome, RunMetrics
from tieline.telemetry.redaction import current_redactor
from tieline.telemetry.spans import Value
from tieline_common.backoff import jitter
from tieline_protocol.events import EventMetadata

logger = logging.getLogger("tieline.run")

_SUSPECT = 2
"""Deaths after which a pod runs an event with no other such one beside it: that one would count as its victim."""
MAX_INTERRUPTIONS = 3
"""Pods that may die with an event: the next one would die with it too."""
_LOOK_UP_SECONDS = 5.0
"""How long an event waits when its user's activation cannot be looked up."""
_UNKNOWN = Retry()
_ONCE = Retry(attempts=1)

Task = EventTask | Webhook | Schedule


class PodDiedError(TielineError):
    """The pods that ran the event died."""


class UnknownActivationError(TielineError):
    """The event is for a user who has no activation in this environment."""


class NotInThisVersionError(TielineError):
    """The version that runs has no such task."""


class StoppedItselfError(TielineError):
    """The code ended in a way that means to end the process."""


@dataclass(frozen=True, kw_only=True)
class EventTasks:
    """What events can ask for."""

    events: Mapping[str, EventTask] = field(default_factory=dict)
    webhooks: Mapping[str, Webhook] = field(default_factory=dict)
    schedules: Mapping[str, Schedule] = field(default_factory=dict)
    schedule_timeout: float = 0
    """Seconds, for schedules that have none of their own; 0 is no limit."""
    application: web.Application | None = None
    """Routes the requests of webhooks."""

    def find(self, metadata: EventMetadata) -> Task | None:
        """The task of an event; None where this version has none."""
        if metadata.kind == "webhook":
            return self.webhooks.get(metadata.task)
        if metadata.kind == "schedule":
            return self.schedules.get(metadata.task)
        return self.events.get(metadata.task)


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
    ) -> None:
        """``timeout`` is in seconds, for tasks that have none of their own."""
        self._calls = calls
        self._tasks = tasks
        self._queue = queue
        self._settlement = EventSettlement(
            queue, history, redact=lambda: calls.tracer.redact, version=version, clock=clock
        )
        self._users = users
        self._counts = counts
        self._timeout = timeout
        self._version = version
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

    async def run(self, delivery: Delivery) -> None:
        """Run an event once, and settle what becomes of it."""
        metadata = delivery.metadata
        if not delivery.held:
            # It was on its way for so long that somebody else has it by now.
            return
        task = self._tasks.find(metadata)
        if isinstance(task, EventTask) and await self._queued_behind_its_key(task, delivery):
            return
        kills = await delivery.interruptions()
        if await self._handed_back(delivery):
            return
        attempt = Attempt(
            metadata=metadata,
            delivery=delivery,
            number=metadata.attempt + kills,
            retry=_retry(task),
            started_at=self._clock(),
            interruptions=kills,
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
                    await delivery.hand_back()
                return True
        return False

    async def _queued_behind_its_key(self, task: EventTask, delivery: Delivery) -> bool:
        """Whether an event that came without its key (by REST) was put into its key's queue."""
        if task.key is None or delivery.metadata.key is not None:
            return False
        try:
            key = task.key_of(json.loads(delivery.payload))
        except ValueError:
            return False
        if key is None:
            return False
        metadata = replace(delivery.metadata, key=key)
        try:
            await self._settlement.settled(lambda: self._queue.requeue(metadata, delivery.payload))
            await self._settlement.settled(delivery.done)
        except EventsUnavailableError as error:
            logger.error(
                "An event cannot be queued behind its key, and is tried again later: %s", reason(error)
            )
            await delivery.release()
        return True

    async def _run(self, attempt: Attempt, task: Task | None, kills: int) -> bool:
        """Whether it is known what became of the event."""
        metadata = attempt.metadata
        logs.begin_run(metadata.run)
        if (metadata.has_steps or attempt.number > 1) and await self._settlement.settle_ended(attempt):
            logs.end_run()
            return True
        started = time.perf_counter()
        outcome: Outcome = "interrupted"
        kind = metadata.kind
        try:
            if metadata.failure is not None:
                failure = KeptFailureError(metadata.failure, metadata.failure_type)
                outcome = await self._settlement.bury(attempt, failure)
                return True
            if kills and (kills >= MAX_INTERRUPTIONS or attempt.number > attempt.retry.attempts):
                died = "1 pod" if kills == 1 else f"{kills} pods"
                error = PodDiedError(
                    f"{died} died while running it; find out why (memory, a crash), then replay it"
                )
                logger.error("%s %s is a dead letter: %s", kind.capitalize(), metadata.task, error)
                outcome = await self._settlement.bury(attempt, error)
                return True
            if attempt.number > 1 and await self._queue.runs.is_cancelled(metadata.run):
                # The pod that ran it did not hear of it, or died before it had said so.
                outcome = await self._settlement.cancel(attempt)
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

    async def _stopped(self, attempt: Attempt) -> Outcome:
        """The run's task was cancelled: by somebody, or because the pod ends."""
        if attempt.decided:
            logger.warning("%s was not settled before the pod ended, and comes again elsewhere", attempt.what)
            return "interrupted"
        if attempt.cancelled:
            return await self._settlement.cancel(attempt)
        try:
            return await self._settlement.hand_on(attempt)
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
        logger.info("Ran %s %s", kind, metadata.task, extra={"fields": fields})

    async def _in_turn(self, attempt: Attempt, task: Task | None) -> Outcome:
        metadata, turns = attempt.metadata, self._calls.turns
        try:
            attempt.activation = await self._activation(metadata.user)
        except UsersUnavailableError:
            logger.warning("%s waits: the activation of its user cannot be looked up", metadata.task)
            until = self._clock() + jitter(_LOOK_UP_SECONDS)
            return await self._settlement.wait(attempt, attempt.number, until)
        if attempt.activation is None:
            return await self._settlement.bury(
                attempt,
                UnknownActivationError("There is no activation of its user in this environment"),
            )
        current_activation.set(attempt.activation.id or None)
        key = activation_key(attempt.activation)
        await turns.wait(key, bounded=False)
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
                self._settlement.begin(attempt)
                error = await self._limited(attempt, task, slot)
            except SuspendedRun as suspended:
                until = suspended.until
            finally:
                # However long it takes to settle it, others may run meanwhile.
                slot.release()
            # Between the end of the code and this line nobody can have cancelled it.
            if attempt.cancelled and (error is not None or until is not None):
                return await self._settlement.cancel(attempt)
            if until is not None:
                return await self._settlement.wait(attempt, attempt.number, until)
            if error is None:
                return await self._settlement.succeed(attempt)
            return await self._settlement.fail(attempt, error, span)

    async def _limited(self, attempt: Attempt, task: Task | None, slot: Slot) -> Exception | None:
        """What the code raised; None when it succeeded."""
        usual = self._tasks.schedule_timeout if isinstance(task, Schedule) else self._timeout
        seconds = usual if task is None or task.timeout is None else task.timeout
        try:
            begin_deadline(asyncio.get_running_loop().time(), seconds)
            async with asyncio.timeout(seconds or None) as deadline:
                await self._call(attempt, task, slot)
        except EventsUnavailableError as error:
            return error
        except asyncio.CancelledError:
            task_of_run = asyncio.current_task()
            if task_of_run is None or task_of_run.cancelling():
                raise
            return StoppedItselfError("The code awaited something that was cancelled")
        except SystemExit as exited:
            return StoppedItselfError(
                f"The code ended with SystemExit({exited.code!r}); raise an error instead"
            )
        except Exception as error:
            if isinstance(error, TimeoutError) and deadline.expired():
                return TimeoutError(f"stopped after {seconds:g} seconds")
            return error
        return None

    async def _call(self, attempt: Attempt, task: Task | None, slot: Slot) -> None:
        metadata, activation = attempt.metadata, attempt.activation
        if task is None or activation is None:
            raise NotInThisVersionError(
                f"Version {self._version} has no task {metadata.task!r}; deploy one that has it, or replay the event"
            )
        attempt.steps = RunSteps(
            self._queue.runs,
            metadata.run,
            may_have_results=metadata.has_steps or attempt.number > 1,
            held=lambda: attempt.delivery.held,
            clock=self._clock,
            idempotency_run=metadata.idempotency_run,
        )
        attempt.events = events = RunEvents(
            self._calls.publisher,
            run=metadata.run,
            user=metadata.user,
            steps=attempt.steps,
            published=metadata.published,
        )
        delivery = WebhookDelivery(id=metadata.event_id) if metadata.kind == "webhook" else None
        context = self._calls.context(metadata.run, activation, events, delivery=delivery)
        if isinstance(task, Webhook):
            await self._call_webhook(task, attempt, context, slot)
            return
        event = _scheduled_run(task, attempt) if isinstance(task, Schedule) else self._event(attempt)
        if task.is_async:
            await task.handler(*(context, event)[: task.arguments])
            return
        arguments = (SyncContext(context, asyncio.get_running_loop()), event)
        await self._calls.in_thread(slot, task.handler, *arguments[: task.arguments])

    async def _call_webhook(self, webhook: Webhook, attempt: Attempt, context: Any, slot: Slot) -> None:
        request = await stored_request(attempt.metadata, attempt.delivery.payload, self._tasks.application)
        try:
            if webhook.is_async:
                returned = await webhook.handler(*(context, request)[: webhook.arguments])
            else:
                loop = asyncio.get_running_loop()
                arguments = (SyncContext(context, loop), SyncRequest(request, attempt.delivery.payload, loop))
                returned = await self._calls.in_thread(slot, webhook.handler, *arguments[: webhook.arguments])
        except web.HTTPException as raised:
            returned = raised
        except Exception as error:
            if unread := unreadable(error):
                raise Reject(str(unread)) from error  # the body is the same in every attempt
            raise
        if isinstance(returned, web.StreamResponse) and returned.status >= 500:
            raise TielineError(f"The webhook answered with {returned.status}, which nobody waits for")

    def _event(self, attempt: Attempt) -> Event:
        metadata = attempt.metadata
        try:
            payload = json.loads(attempt.delivery.payload)
        except ValueError as error:
            raise Reject(f"The payload is not JSON: {error}") from None
        return Event(
            id=metadata.event_id or metadata.run,
            run_id=metadata.run,
            task=metadata.task,
            payload=payload,
            key=metadata.key,
            attempt=attempt.number,
            queued_at=datetime.fromtimestamp(metadata.queued_at, UTC),
            replay_of=metadata.replay_of,
        )

    async def _activation(self, external_id: str | None) -> Activation | None:
        if external_id is None:
            return self._calls.configuration.current.static
        found = await self._users.find(external_id)
        if found is not None and found.connections:
            current_redactor.set(lambda: found.redactor)
        return found


def _retry(task: Task | None) -> Retry:
    if task is None:
        return _UNKNOWN
    return _ONCE if isinstance(task, Schedule) else task.retry


def _scheduled_run(schedule: Schedule, attempt: Attempt) -> ScheduledRun:
    try:
        due = due_of(attempt.delivery.payload)
    except ValueError as error:
        raise Reject(str(error)) from None
    return ScheduledRun(
        schedule=schedule.name, due=due.astimezone(schedule.cron.zone), attempt=attempt.number
    )
