"""The code of a task, called for one attempt of an event."""

import asyncio
from collections.abc import Callable
from typing import Any

from aiohttp import web

from tieline.context import WebhookDelivery
from tieline.errors import TielineError, reason
from tieline.events.batch import BatchRule
from tieline.events.event import Event, EventTask, event_of
from tieline.events.queue import EventQueue, EventsUnavailableError
from tieline.events.retry import Reject
from tieline.events.run_approvals import RunApprovals
from tieline.events.run_children import RunChildren, result_text
from tieline.events.run_events import RunEvents
from tieline.events.run_waits import RunWaits
from tieline.events.steps import RunSteps, StepsChanged, SuspendedRun
from tieline.events.stored_batch import events_of
from tieline.execution.fair_limiter import Slot
from tieline.integration import Webhook
from tieline.run_deadline import begin_deadline
from tieline.scheduling.schedules import Schedule, ScheduledRun
from tieline.server.event_attempt import Attempt
from tieline.server.event_batches import BatchCancelledError, EventBatches, batch_rule_of
from tieline.server.event_tasks import EventTasks, Task
from tieline.server.invoker import Invoker
from tieline.server.request_bodies import reads_json_after_a_mark, unreadable
from tieline.server.run_history import due_of
from tieline.server.stored_request import stored_request
from tieline.sync import SyncContext, SyncRequest


class NotInThisVersionError(TielineError):
    """The version that runs has no such task."""


class StoppedItselfError(TielineError):
    """The code ended in a way that means to end the process."""


class EventCalls:
    """Calls the code within its time."""

    def __init__(
        self,
        calls: Invoker,
        *,
        tasks: EventTasks,
        queue: EventQueue,
        timeout: float,
        version: str,
        clock: Callable[[], float],
        make_steps: Callable[..., RunSteps] = RunSteps,
        waits_for_batches: bool = True,
    ) -> None:
        """``timeout`` is in seconds, for tasks that have none of their own. ``make_steps`` is called as RunSteps.

        ``waits_for_batches``: see EventBatches."""
        self._calls = calls
        self._tasks = tasks
        self._queue = queue
        self._timeout = timeout
        self._version = version
        self._clock = clock
        self._make_steps = make_steps
        self._batches = EventBatches(calls.publisher, calls.turns, clock=clock, waits=waits_for_batches)

    async def call(self, attempt: Attempt, task: Task | None, slot: Slot) -> Exception | None:
        """What the code raised; None when it succeeded. Raises SuspendedRun and CancelledByEvent."""
        try:
            error = await self._called(attempt, task, slot)
        except StepsChanged as changed:
            return changed.error
        except BaseExceptionGroup as group:
            # Of a TaskGroup, whose tasks sleep or have other steps.
            suspended, _ = group.split(SuspendedRun)
            if suspended is not None:
                raise _earliest(suspended) from None
            error = StoppedItselfError(f"The code ended with {reason(_first(group))}")
        # Code that catches everything must not end the run otherwise.
        return (attempt.steps and attempt.steps.changed) or error

    async def _called(self, attempt: Attempt, task: Task | None, slot: Slot) -> Exception | None:
        """What the code raised; None when it succeeded."""
        seconds = self._seconds(attempt, task)
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

    def _seconds(self, attempt: Attempt, task: Task | None) -> float:
        """How long the attempt may take; 0 for as long as it takes."""
        if _batch_rule(attempt, task) is not None:
            # None of its code runs. A batch is gathered and stored within times of its own.
            return 0
        usual = self._tasks.schedule_timeout if isinstance(task, Schedule) else self._timeout
        return usual if task is None or task.timeout is None else task.timeout

    async def _call(self, attempt: Attempt, task: Task | None, slot: Slot) -> None:
        metadata, activation = attempt.metadata, attempt.activation
        if task is None or activation is None:
            raise NotInThisVersionError(
                f"Version {self._version} has no task {metadata.task!r}; deploy one that has it, or replay the event"
            )
        attempt.steps = steps = self._steps_of(attempt)
        attempt.waits = waits = RunWaits(
            self._queue.waits,
            steps,
            run=metadata.run,
            key_hash=attempt.delivery.key_hash,
            clock=self._clock,
        )
        if isinstance(task, EventTask) and (rule := _batch_rule(attempt, task)) is not None:
            await self._join_batch(attempt, task, rule, slot)
            return
        attempt.events = events = self._events_of(attempt, steps, waits)
        delivery = WebhookDelivery(id=metadata.event_id) if metadata.kind == "webhook" else None
        context = self._calls.context(
            metadata.run, activation, events, delivery=delivery, tags=attempt.tags, progress=attempt.progress
        )
        if isinstance(task, Webhook):
            await self._call_webhook(task, attempt, context, slot)
            return
        event = _argument(task, attempt)
        if task.is_async:
            returned = await task.handler(*(context, event)[: task.arguments])
        else:
            arguments = (SyncContext(context, asyncio.get_running_loop()), event)
            returned = await self._calls.in_thread(slot, task.handler, *arguments[: task.arguments])
        if metadata.parent is not None:
            attempt.result = result_text(metadata.task, returned)

    def _steps_of(self, attempt: Attempt) -> RunSteps:
        metadata = attempt.metadata
        return self._make_steps(
            self._queue.runs,
            metadata.run,
            may_have_results=attempt.may_have_begun,
            held=lambda: attempt.delivery.held,
            clock=self._clock,
            version=self._version,
            idempotency_run=metadata.idempotency_run,
            check_cancelled=attempt.cancellation.check if attempt.cancellation else None,
        )

    def _events_of(self, attempt: Attempt, steps: RunSteps, waits: RunWaits) -> RunEvents:
        metadata = attempt.metadata
        return RunEvents(
            self._calls.publisher,
            run=metadata.run,
            user=metadata.user,
            steps=steps,
            waits=waits,
            approvals=RunApprovals(
                waits,
                run=metadata.run,
                task=metadata.task,
                user=metadata.user,
                mask=self._calls.tracer.redact.for_run,
            ),
            children=RunChildren(
                waits,
                self._calls.publisher,
                self._queue,
                metadata=metadata,
                key_hash=attempt.delivery.key_hash,
            ),
            published=metadata.published,
        )

    async def _join_batch(self, attempt: Attempt, task: EventTask, rule: BatchRule, slot: Slot) -> None:
        """Have an event run with others. It only waits, for them and for their run, so others get its turn."""
        slot.keep()
        slot.free()
        try:
            await self._batches.join(attempt, task, rule)
        except BatchCancelledError:
            attempt.cancelled = True
            raise
        if attempt.metadata.parent is not None:
            attempt.result = result_text(task.name, None)

    async def _call_webhook(self, webhook: Webhook, attempt: Attempt, context: Any, slot: Slot) -> None:
        request = await stored_request(attempt.metadata, attempt.delivery.payload, self._tasks.application)
        try:
            if webhook.is_async:
                reads_json_after_a_mark(request)
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


def _earliest(group: BaseExceptionGroup[SuspendedRun]) -> SuspendedRun:
    """Of several that sleep or wait, the one that goes on first."""
    found = [_earliest(one) if isinstance(one, BaseExceptionGroup) else one for one in group.exceptions]
    return min(found, key=lambda one: one.until)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first error in a group that is no group itself."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _argument(task: EventTask | Schedule, attempt: Attempt) -> ScheduledRun | Event | list[Event]:
    """What the function takes beside its context. Raises Reject."""
    if isinstance(task, Schedule):
        return _scheduled_run(task, attempt)
    metadata, payload = attempt.metadata, attempt.delivery.payload
    if not metadata.batch:
        event = event_of(metadata, payload, attempt=attempt.number)
        return event if task.batch is None else [event]
    if task.batch is None:
        raise Reject("This version runs the task for single events, and this is a batch: replay its events")
    try:
        return events_of(payload, metadata, attempt=attempt.number)
    except (ArithmeticError, AttributeError, KeyError, RecursionError, TypeError, ValueError):
        raise Reject("The payload is no batch of events") from None


def _batch_rule(attempt: Attempt, task: Task | None) -> BatchRule | None:
    return batch_rule_of(task, attempt.metadata, attempt.delivery.payload)


def _scheduled_run(schedule: Schedule, attempt: Attempt) -> ScheduledRun:
    try:
        due = due_of(attempt.delivery.payload)
    except ValueError as error:
        raise Reject(str(error)) from None
    return ScheduledRun(
        schedule=schedule.name, due=due.astimezone(schedule.cron.zone), attempt=attempt.number
    )
