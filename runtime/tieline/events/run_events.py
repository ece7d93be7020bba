"""What one run has of events: it publishes, and where it is tried again it has steps."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from tieline.errors import TielineError
from tieline.events.event import Event, event_of
from tieline.events.publisher import Publisher
from tieline.events.run_approvals import ApprovalAnswer, Question, RunApprovals
from tieline.events.run_children import RunChildren
from tieline.events.run_waits import IN_OWN_TASK, Place, RunWaits
from tieline.events.steps import RunSteps, StepsNotAvailableError, current_step
from tieline.execution.ulids import derived_ulid
from tieline.plain_json import encode
from tieline.telemetry.spans import current_span
from tieline.telemetry.trace_context import traceparent
from tieline_protocol.event_streams import hashed
from tieline_protocol.waits import MAX_VALUE, MAX_WAIT_SECONDS, matched_text

_MAX_PUBLISHED = 200
_HASH = 16


class UndeclaredWaitError(TielineError):
    """The code waits for an event that it has not declared with ``integration.waits_for``.

    >>> issubclass(UndeclaredWaitError, TielineError)
    True
    """

    def __init__(self, name: str, fields: Sequence[str]) -> None:
        match = f", match={list(fields)!r}" if fields else ""
        super().__init__(
            f"This wait for {name!r} is not declared; write `integration.waits_for({name!r}{match})` below "
            "`integration = Integration()`"
        )


class RunEvents:
    """Given to a run's context."""

    def __init__(
        self,
        publisher: Publisher,
        *,
        run: str,
        user: str | None,
        steps: RunSteps | None = None,
        waits: RunWaits | None = None,
        approvals: RunApprovals | None = None,
        children: RunChildren | None = None,
        published: Sequence[str] = (),
    ) -> None:
        """``published``: hashes of what earlier attempts of the run have published."""
        self._publisher = publisher
        self._run = run
        self._user = user
        self._steps = steps
        self._waits = waits
        self._approvals = approvals
        self._children = children
        self._earlier = Counter(published)
        self._published = list(published)
        self._places: Counter[str] = Counter()

    @property
    def published(self) -> tuple[str, ...]:
        """Hashes of what the run has published outside of steps, for the next attempt. They are bounded."""
        return tuple(self._published[-_MAX_PUBLISHED:])

    @property
    def steps(self) -> RunSteps:
        """Raises StepsNotAvailableError for a run that is not tried again."""
        if self._steps is None:
            raise StepsNotAvailableError
        return self._steps

    @property
    def idempotency_key(self) -> str:
        """The key of the step that the running code is in; outside of steps the run's id."""
        return current_step.get() or (self._steps.idempotency_run if self._steps else self._run)

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
    ) -> str | None:
        """See ``Context.publish``."""
        user = self._user if user is None else user
        run, content = None, ""
        if self._steps is not None and id is None:
            # What an earlier attempt has published is not published again. A pod that dies tells nobody what it has
            # published, so the engine recognises it by its run, for a while.
            content = hashed(encode([task, payload, key, user]))[:_HASH]
            place = f"{self._run}/{current_step.get() or ''}/{content}"
            self._places[place] += 1
            run = derived_ulid(self._run, f"{place}/{self._places[place]}")
            if current_step.get() is None and self._earlier[content] >= self._places[place]:
                return run
        span = current_span.get()
        stored = await self._publisher.publish(
            task,
            payload,
            key=key,
            id=id,
            run=run,
            delay=delay,
            at=at,
            user=user,
            traceparent=traceparent(span.context) if span else None,
        )
        if content and current_step.get() is None:
            self._published.append(content)
        return run or stored

    async def wait_for(
        self,
        name: str,
        match: Mapping[str, Any] | None,
        duration: float | timedelta,
        *,
        in_order: bool | None = None,
        handles_error: bool = False,
    ) -> Event | None:
        """See ``Context.wait_for``, and ``RunSteps.begin`` for the rest."""
        if self._steps is None:
            raise StepsNotAvailableError
        seconds = duration.total_seconds() if isinstance(duration, timedelta) else float(duration)
        if not 0 < seconds <= MAX_WAIT_SECONDS:
            raise ValueError(
                f"The timeout of a wait is from 0 to {MAX_WAIT_SECONDS / 86400:g} days, not {seconds:g} seconds"
            )
        values = {field: _compared(field, value) for field, value in (match or {}).items()}
        rule = next(
            (
                one
                for one in self._publisher.waits.get(name, ())
                if not one.cancels and set(one.fields) == values.keys()
            ),
            None,
        )
        if rule is None or self._waits is None:
            raise UndeclaredWaitError(name, sorted(values))
        found = await self._waits.wait_for(
            name,
            rule.index(values, self._user),
            seconds,
            keep=rule.keep,
            in_order=in_order,
            handles_error=handles_error,
        )
        return None if found is None else event_of(found.metadata, found.payload)

    async def approve(self, question: Question, place: Place = IN_OWN_TASK) -> ApprovalAnswer:
        """See ``Context.approve``."""
        if self._approvals is None:
            raise StepsNotAvailableError
        return await self._approvals.approve(question, place)

    async def run(
        self,
        task: str,
        payload: Any,
        *,
        key: str | None,
        user: str | None,
        timeout: float | timedelta,  # noqa: ASYNC109  (the run ends meanwhile)
        place: Place = IN_OWN_TASK,
    ) -> Any:
        """See ``Context.run``."""
        if self._children is None:
            raise StepsNotAvailableError
        span = current_span.get()
        return await self._children.run(
            task,
            payload,
            timeout,
            place,
            key=key,
            user=self._user if user is None else user,
            traceparent=traceparent(span.context) if span else None,
        )

    async def step(self, name: str, call: Callable[[], Any], *, work: str = "") -> Any:
        """See ``Context.step``; ``call`` returns a value, or something to await. ``work`` is from ``work_of``."""
        steps = self.steps
        step = await steps.begin(name, work=work)
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


def _compared(field: str, value: Any) -> str:
    """A value of ``match`` as it is compared. Raises ValueError."""
    text = matched_text(value)
    if text is None:
        raise ValueError(
            f"match: {field!r} is compared with a text, a number or a bool of at most {MAX_VALUE} characters, "
            f"not with {type(value).__name__}"
        )
    return text
