"""One scheduled run: like a webhook's, without a caller."""

import asyncio
import logging
import time

from tieline.configuration.snapshot import Activation
from tieline.configuration.users import Users, UsersUnavailableError
from tieline.context import activation_key
from tieline.errors import reason
from tieline.execution.fair_limiter import Slot
from tieline.execution.ulids import new_ulid
from tieline.run_deadline import begin_deadline
from tieline.scheduling.records import STATIC
from tieline.scheduling.schedules import Schedule, ScheduledRun
from tieline.server.invoker import Invoker
from tieline.server.run_history import DirectRun, schedule_input
from tieline.sync import SyncContext
from tieline.telemetry import logs
from tieline.telemetry.logs import current_activation
from tieline.telemetry.metrics import Outcome, RunMetrics
from tieline.telemetry.redaction import current_redactor
from tieline.telemetry.spans import Span, Value

logger = logging.getLogger("tieline.run")

_LOOK_UPS = 10
_PAUSE = 2.0


class ScheduledRuns:
    """Runs schedules' functions within the limits; each run is a trace, and one line in the log."""

    def __init__(self, calls: Invoker, *, users: Users, counts: RunMetrics, timeout: float) -> None:
        self._calls = calls
        self._users = users
        self._counts = counts
        self._timeout = timeout

    async def run(self, schedule: Schedule, run: ScheduledRun, external_id: str) -> Outcome:
        """Run it for a user's activation, or the static one, and return how it ended.

        Raises nothing, but lets itself be cancelled.

        In a task of its own, since it says there which execution its log lines belong to.
        """
        return await asyncio.create_task(self._alone(schedule, run, external_id))

    async def _alone(self, schedule: Schedule, run: ScheduledRun, external_id: str) -> Outcome:
        execution_id = new_ulid()
        logs.begin_run(execution_id)
        started = time.perf_counter()
        outcome: Outcome = "interrupted"
        try:
            activation = await self._activation(external_id)
            if activation is None:
                # It was deleted since the users were listed.
                outcome = "refused"
                return outcome
            current_activation.set(activation.id or None)
            key = activation_key(activation)
            await self._calls.turns.wait(key, bounded=False)
            started = time.perf_counter()
            outcome = await self._traced(
                schedule, run, activation, execution_id, Slot(self._calls.turns, key)
            )
        except UsersUnavailableError:
            logger.error(
                "Schedule %s did not run for user %s: the API cannot be asked for the activation",
                schedule.name,
                external_id,
            )
            outcome = "failed"
        finally:
            logs.end_run()
            if outcome != "refused":
                self._record_outcome(schedule, run, external_id, outcome, time.perf_counter() - started)
        return outcome

    async def _activation(self, external_id: str) -> Activation | None:
        if external_id == STATIC:
            return self._calls.configuration.current.static
        for _ in range(_LOOK_UPS - 1):
            try:
                found = await self._users.find(external_id)
                break
            except UsersUnavailableError:
                await asyncio.sleep(_PAUSE)
        else:
            found = await self._users.find(external_id)
        if found is not None and found.connections:
            current_redactor.set(lambda: found.redactor)
        return found

    async def _traced(
        self, schedule: Schedule, run: ScheduledRun, activation: Activation, execution_id: str, slot: Slot
    ) -> Outcome:
        attributes: dict[str, Value] = {
            "faas.trigger": "timer",
            "schedule.due": run.due.isoformat(),
            "schedule.attempt": run.attempt,
        }
        direct: DirectRun | None = None
        try:
            with self._calls.tracer.run(
                schedule.name,
                execution_id=execution_id,
                task=schedule.name,
                kind="INTERNAL",
                activation=activation.id,
                user=activation_key(activation),
            ) as span:
                span.attributes.update(attributes)
                direct = self._calls.direct_runs.begin(execution_id, "schedule", schedule.name, span)
                direct.admit(activation)
                if direct.keeps_input:
                    direct.input = schedule_input(run.due)
                return await self._limited(schedule, run, activation, slot, span, direct)
        except BaseException as error:
            if direct is not None:
                direct.error = error
            raise
        finally:
            slot.release()
            if direct is not None:
                self._calls.direct_runs.end(direct)

    async def _limited(
        self,
        schedule: Schedule,
        run: ScheduledRun,
        activation: Activation,
        slot: Slot,
        span: Span,
        direct: DirectRun,
    ) -> Outcome:
        seconds = self._timeout if schedule.timeout is None else schedule.timeout
        whose = {"fields": _of_user(activation_key(activation))}
        try:
            begin_deadline(asyncio.get_running_loop().time(), seconds)
            async with asyncio.timeout(seconds or None) as deadline:
                await self._call(schedule, run, activation, direct, slot)
        except Exception as error:
            timed_out = isinstance(error, TimeoutError) and deadline.expired()
            if timed_out:
                error = TimeoutError(f"stopped after {seconds:g} seconds")
            span.fail(error)
            direct.error = error
            if timed_out:
                logger.error("Schedule %s was stopped after %g seconds", schedule.name, seconds, extra=whose)
                return "timed_out"
            logger.exception("Schedule %s failed: %s", schedule.name, reason(error), extra=whose)
            return "failed"
        return "succeeded"

    async def _call(
        self, schedule: Schedule, run: ScheduledRun, activation: Activation, direct: DirectRun, slot: Slot
    ) -> None:
        context = self._calls.context(direct.id, activation, tags=direct.tags, progress=direct.progress)
        if schedule.is_async:
            await schedule.handler(*(context, run)[: schedule.arguments])
            return
        arguments = (SyncContext(context, asyncio.get_running_loop()), run)
        await self._calls.in_thread(slot, schedule.handler, *arguments[: schedule.arguments])

    def _record_outcome(
        self, schedule: Schedule, run: ScheduledRun, external_id: str, outcome: Outcome, seconds: float
    ) -> None:
        self._counts.add("schedule", schedule.name, outcome, seconds)
        fields = {
            "schedule": schedule.name,
            "due": run.due.isoformat(),
            "attempt": run.attempt,
            "outcome": outcome,
            **_of_user(external_id),
            "durationMs": round(seconds * 1000, 3),
        }
        logger.info("Ran schedule %s", schedule.name, extra={"fields": fields})


def _of_user(external_id: str) -> dict[str, str]:
    return {"user": external_id} if external_id != STATIC else {}
