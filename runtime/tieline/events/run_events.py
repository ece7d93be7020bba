"""What one run has of events: it publishes, and where it is tried again it has steps."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from tieline.events.publisher import Publisher
from tieline.events.steps import RunSteps, StepsNotAvailableError, current_step
from tieline.execution.ulids import derived_ulid
from tieline.telemetry.spans import current_span
from tieline.telemetry.trace_context import traceparent


class RunEvents:
    """Given to a run's context."""

    def __init__(
        self, publisher: Publisher, *, run: str, user: str | None, steps: RunSteps | None = None
    ) -> None:
        self._publisher = publisher
        self._run = run
        self._user = user
        self._steps = steps
        self._published = 0

    @property
    def steps(self) -> RunSteps:
        """Raises StepsNotAvailableError for a run that is not tried again."""
        if self._steps is None:
            raise StepsNotAvailableError
        return self._steps

    @property
    def idempotency_key(self) -> str:
        """The key of the step that the running code is in; outside of steps the run's id."""
        return current_step.get() or self._run

    async def publish(
        self,
        task: str,
        payload: Any,
        *,
        key: str | None,
        id: str | None,
        delay: float | timedelta | None,
        at: datetime | None,
        user: str | None,
    ) -> str:
        """See ``Context.publish``."""
        event_id, run = id, None
        if self._steps is not None:
            # What an attempt published already, the next one does not publish again, while the engine remembers it.
            self._published += 1
            if id is None:
                event_id, run = f"{self._run}/{self._published}", derived_ulid(self._run, self._published)
        span = current_span.get()
        return await self._publisher.publish(
            task,
            payload,
            key=key,
            id=event_id,
            run=run,
            delay=delay,
            at=at,
            user=self._user if user is None else user,
            traceparent=traceparent(span.context) if span else None,
        )

    async def step(self, name: str, call: Callable[[], Any]) -> Any:
        """See ``Context.step``; ``call`` returns a value, or something to await."""
        steps = self.steps
        step = await steps.begin(name)
        if step.result is not None:
            return await steps.finish(step, None)
        try:
            with step.current():
                value = call()
                if hasattr(value, "__await__"):
                    value = await value
        except Exception as error:
            steps.failed(step, error)
            raise
        return await steps.finish(step, value)
