"""Runs of events and of queued webhooks: tried until they succeed, are rejected, or have no attempt left.

Direct webhooks and schedules come here too when a run of one is run again: once.
"""

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal

from aiohttp import web

from tieline.configuration.snapshot import Activation
from tieline.configuration.users import Users, UsersUnavailableError
from tieline.context import WebhookDelivery, activation_key
from tieline.errors import TielineError, own_frames, reason
from tieline.events.event import Event, EventTask
from tieline.events.history import HistoryWriter
from tieline.events.queue import Delivery, EventQueue, EventsUnavailableError, EventTooLargeError
from tieline.events.retry import Reject, Retry, RetryLater
from tieline.events.run_events import RunEvents
from tieline.events.steps import RunSteps, RunTakenOver, SuspendedRun
from tieline.execution.fair_limiter import Slot
from tieline.integration import Webhook
from tieline.scheduling.schedules import Schedule, ScheduledRun
from tieline.server.invoker import Invoker
from tieline.server.request_bodies import unreadable
from tieline.server.run_history import due_of, masked_error, masked_input
from tieline.server.stored_request import stored_request
from tieline.sync import SyncContext, SyncRequest
from tieline.telemetry import logs
from tieline.telemetry.logs import current_activation
from tieline.telemetry.metrics import Outcome, RunMetrics
from tieline.telemetry.redaction import Redactor, current_redactor
from tieline.telemetry.spans import Span, Value
from tieline_common.backoff import exponential, jitter
from tieline_protocol.events import EventMetadata
from tieline_protocol.run_records import RunRecord, RunStatus, StepRecord

logger = logging.getLogger("tieline.run")

_SUSPECT = 2
"""Deaths after which a pod runs an event with no other such one beside it: that one would count as its victim."""
MAX_INTERRUPTIONS = 3
"""Pods that may die with an event: the next one would die with it too."""
_LOOK_UP_SECONDS = 5.0
"""How long an event waits when its user's activation cannot be looked up."""
_UNKNOWN = Retry()
_ONCE = Retry(attempts=1)
_FIRST_RETRY = 0.5
_LONGEST_RETRY = 10.0
_SETTLE_SECONDS = 120.0
_MAX_DEFERRAL_SECONDS = 30 * 86400
"""How long RetryLater may put an event off: it would hold up its key for ever."""


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


@dataclass
class _Attempt:
    """One attempt, while it lasts."""

    metadata: EventMetadata
    delivery: Delivery
    number: int
    retry: Retry
    started_at: float
    interruptions: int = 0
    activation: Activation | None = None
    steps: RunSteps | None = None
    events: RunEvents | None = None
    trace_id: str = ""


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
        self._history = history
        self._users = users
        self._counts = counts
        self._timeout = timeout
        self._version = version
        self._clock = clock
        self._running: dict[str, asyncio.Task[Any]] = {}
        self._cancelled: set[str] = set()
        self._suspects = asyncio.Lock()
        self.retries = 0
        """Attempts that failed and are tried again."""
        self.dead = 0
        """Events that became dead letters."""

    def cancel(self, run: str) -> None:
        """Stop a run, if it is running here."""
        task = self._running.get(run)
        if task is not None:
            self._cancelled.add(run)
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
        attempt = _Attempt(
            metadata=metadata,
            delivery=delivery,
            number=metadata.attempt + kills,
            retry=_retry(task),
            started_at=self._clock(),
            interruptions=kills,
        )
        running = self._running[metadata.run] = asyncio.ensure_future(self._run(attempt, task, kills))
        try:
            await running
        except asyncio.CancelledError:
            # The pod ends; what the run does about it is waited for.
            running.cancel()
            await asyncio.wait((running,), timeout=5)
        finally:
            self._running.pop(metadata.run, None)
            self._cancelled.discard(metadata.run)

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
        await self._settled(
            lambda: self._queue.requeue(replace(delivery.metadata, key=key), delivery.payload)
        )
        await self._settled(delivery.done)
        return True

    async def _run(self, attempt: _Attempt, task: Task | None, kills: int) -> None:
        metadata = attempt.metadata
        logs.begin_run(metadata.run)
        if (metadata.has_steps or attempt.number > 1) and await self._queue.has_ended(metadata.run):
            logger.warning(
                "%s %s has ended already, and is not repeated", metadata.kind.capitalize(), metadata.task
            )
            await self._settled(attempt.delivery.done)
            logs.end_run()
            return
        started = time.perf_counter()
        outcome: Outcome = "interrupted"
        kind = metadata.kind
        try:
            if kills and (kills >= MAX_INTERRUPTIONS or attempt.number > attempt.retry.attempts):
                died = "1 pod" if kills == 1 else f"{kills} pods"
                error = PodDiedError(
                    f"{died} died while running it; find out why (memory, a crash), then replay it"
                )
                logger.error("%s %s is a dead letter: %s", kind.capitalize(), metadata.task, error)
                outcome = await self._bury(attempt, error)
                return
            async with self._suspects if kills >= _SUSPECT else contextlib.nullcontext():
                outcome = await self._in_turn(attempt, task)
        except asyncio.CancelledError:
            outcome = await self._interrupted(attempt)
        except RunTakenOver:
            logger.warning(
                "%s %s was given up: another pod may have begun with it, because the event engine was out of reach",
                kind.capitalize(),
                metadata.task,
            )
        except EventsUnavailableError as error:
            # It was handed out by the engine, and is again once nobody renews its lease.
            logger.error("%s %s comes again: %s", kind.capitalize(), metadata.task, reason(error))
        finally:
            self._report(attempt, outcome, time.perf_counter() - started)
            logs.end_run()

    def _report(self, attempt: _Attempt, outcome: Outcome, seconds: float) -> None:
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

    async def _in_turn(self, attempt: _Attempt, task: Task | None) -> Outcome:
        metadata, turns = attempt.metadata, self._calls.turns
        try:
            attempt.activation = await self._activation(metadata.user)
        except UsersUnavailableError:
            logger.warning("%s waits: the activation of its user cannot be looked up", metadata.task)
            return await self._wait(attempt, attempt.number, self._clock() + jitter(_LOOK_UP_SECONDS), None)
        if attempt.activation is None:
            return await self._bury(
                attempt,
                UnknownActivationError("There is no activation of its user in this environment"),
            )
        current_activation.set(attempt.activation.id or None)
        key = activation_key(attempt.activation)
        await turns.wait(key, bounded=False)
        slot = Slot(turns, key)
        attempt.started_at = self._clock()
        try:
            return await self._traced(attempt, attempt.activation, task, slot)
        finally:
            slot.release()

    async def _traced(
        self, attempt: _Attempt, activation: Activation, task: Task | None, slot: Slot
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
            if not attempt.delivery.held:
                raise RunTakenOver
            await attempt.delivery.begins(attempt.interruptions)
            self._history.add(self._record(attempt, "running"))
            try:
                error = await self._limited(attempt, task, slot)
            except SuspendedRun as suspended:
                return await self._wait(attempt, attempt.number, suspended.until, None)
            if error is None:
                return await self._succeed(attempt)
            return await self._failed(attempt, error, span)

    async def _limited(self, attempt: _Attempt, task: Task | None, slot: Slot) -> Exception | None:
        """What the code raised; None when it succeeded."""
        usual = self._tasks.schedule_timeout if isinstance(task, Schedule) else self._timeout
        seconds = usual if task is None or task.timeout is None else task.timeout
        try:
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

    async def _call(self, attempt: _Attempt, task: Task | None, slot: Slot) -> None:
        metadata, activation = attempt.metadata, attempt.activation
        if task is None or activation is None:
            raise NotInThisVersionError(
                f"Version {self._version} has no task {metadata.task!r}; deploy one that has it, or replay the event"
            )
        attempt.steps = RunSteps(
            self._queue,
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

    async def _call_webhook(self, webhook: Webhook, attempt: _Attempt, context: Any, slot: Slot) -> None:
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

    def _event(self, attempt: _Attempt) -> Event:
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

    async def _succeed(self, attempt: _Attempt) -> Outcome:
        await self._end(attempt, "succeeded", None)
        await self._settled(attempt.delivery.done)
        return "succeeded"

    async def _failed(self, attempt: _Attempt, error: Exception, span: Span) -> Outcome:
        metadata = attempt.metadata
        what = f"{metadata.kind.capitalize()} {metadata.task}"
        if isinstance(error, RetryLater) and self._clock() - metadata.queued_at > _MAX_DEFERRAL_SECONDS:
            error = Reject(f"It was put off for {_MAX_DEFERRAL_SECONDS // 86400} days: {error}")
        if isinstance(error, RetryLater):
            logger.info("%s is run again after %g seconds: %s", what, error.after, error)
            return await self._wait(attempt, attempt.number, self._clock() + error.after, None)
        span.fail(error)
        outcome: Outcome = "timed_out" if isinstance(error, TimeoutError) else "failed"
        if isinstance(error, Reject | EventTooLargeError):
            logger.error("%s was rejected, and is a dead letter: %s", what, reason(error))
            await self._bury(attempt, error)
            return outcome
        if attempt.number >= attempt.retry.attempts:
            logger.error(
                "%s failed in its last attempt, %d, and is a dead letter: %s",
                what, attempt.number, reason(error), exc_info=own_frames(error),
            )  # fmt: skip
            await self._bury(attempt, error)
            return outcome
        delay = attempt.retry.delay(attempt.number)
        logger.warning(
            "%s failed in attempt %d of %d, and is tried again in %g seconds: %s",
            what, attempt.number, attempt.retry.attempts, round(delay, 1), reason(error), exc_info=own_frames(error),
        )  # fmt: skip
        self.retries += 1
        await self._wait(attempt, attempt.number + 1, self._clock() + delay, error)
        return outcome

    async def _interrupted(self, attempt: _Attempt) -> Outcome:
        """The run was cancelled: by somebody, or because the pod ends."""
        metadata = attempt.metadata
        if metadata.run in self._cancelled:
            logger.warning("%s %s was cancelled", metadata.kind.capitalize(), metadata.task)
            await self._end(attempt, "cancelled", None)
            await self._settled(attempt.delivery.done)
            return "interrupted"
        logger.warning(
            "%s %s was stopped: the pod ends. Another one begins it again", metadata.kind, metadata.task
        )
        await self._wait(attempt, attempt.number, self._clock(), None)
        return "interrupted"

    async def _wait(self, attempt: _Attempt, number: int, until: float, error: Exception | None) -> Outcome:
        """Have it handed out again as attempt ``number``."""
        metadata = replace(
            attempt.metadata,
            attempt=number,
            interruptions=0,
            published=attempt.events.published if attempt.events else attempt.metadata.published,
            has_steps=attempt.metadata.has_steps
            or (attempt.steps is not None and attempt.steps.any_recorded),
        )
        if not attempt.delivery.held:
            raise RunTakenOver
        self._history.add(self._record(attempt, "waiting", error, next_attempt_at=until))
        await self._settled(lambda: attempt.delivery.wait(metadata, until))
        return "waiting" if error is None else "failed"

    async def _bury(self, attempt: _Attempt, error: Exception) -> Outcome:
        if not attempt.delivery.held:
            raise RunTakenOver
        self.dead += 1
        metadata = replace(attempt.metadata, attempt=attempt.number)
        # First of all: whoever finds a run that has ended does not look for its dead letter.
        await self._settled(lambda: attempt.delivery.bury(metadata, self._redact.for_run(reason(error))))
        await self._end(attempt, "dead", error)
        await self._settled(attempt.delivery.done)
        return "failed"

    async def _end(self, attempt: _Attempt, status: RunStatus, error: Exception | None) -> None:
        await self._history.write(self._record(attempt, status, error, with_input=True))
        # Where another pod may have begun with it, that one is to see that it has ended.
        had_attempts = attempt.number > 1 or attempt.metadata.has_steps or not attempt.delivery.held
        if had_attempts or (attempt.steps is not None and attempt.steps.any_recorded):
            await self._settled(lambda: self._queue.forget_steps(attempt.metadata.run))

    async def _settled(self, call: Callable[[], Awaitable[Any]]) -> None:
        """Tell the queue, and while it is away tell it again; raises EventsUnavailableError in the end."""
        began, attempt = time.monotonic(), 0
        while True:
            try:
                await call()
            except EventsUnavailableError:
                attempt += 1
                if time.monotonic() - began > _SETTLE_SECONDS:
                    raise
                await asyncio.sleep(jitter(exponential(attempt, first=_FIRST_RETRY, cap=_LONGEST_RETRY)))
            else:
                return

    def _record(
        self,
        attempt: _Attempt,
        status: RunStatus,
        error: Exception | None = None,
        *,
        next_attempt_at: float | None = None,
        with_input: bool = False,
    ) -> RunRecord:
        metadata, now = attempt.metadata, self._clock()
        mask = self._redact.for_run
        steps: tuple[StepRecord, ...] = tuple(
            replace(step, name=mask(step.name), error=step.error and mask(step.error))
            for step in (attempt.steps.records if attempt.steps else ())
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
            event_id=metadata.event_id and mask(metadata.event_id),
            started_at=attempt.started_at,
            ended_at=None if status == "running" else now,
            next_attempt_at=next_attempt_at,
            error=masked_error(error, self._redact) if error else None,
            trace_id=attempt.trace_id,
            replay_of=metadata.replay_of,
            steps=steps,
            input=masked_input(attempt.delivery.payload, self._redact) if with_input else None,
            request=metadata.request if with_input else None,
        )

    @property
    def _redact(self) -> Redactor:
        return self._calls.tracer.redact


def _retry(task: Task | None) -> Retry:
    if task is None:
        return _UNKNOWN
    return _ONCE if isinstance(task, Schedule) else task.retry


def _scheduled_run(schedule: Schedule, attempt: _Attempt) -> ScheduledRun:
    try:
        due = due_of(attempt.delivery.payload)
    except ValueError as error:
        raise Reject(str(error)) from None
    return ScheduledRun(
        schedule=schedule.name, due=due.astimezone(schedule.cron.zone), attempt=attempt.number
    )
