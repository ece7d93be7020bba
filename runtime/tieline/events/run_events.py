"""What one run has of events: it publishes, and where it is tried again it has steps."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from tieline.errors import TielineError
from tieline.events.event import Event, event_of
from tieline.events.publish_many import EventsNotStoredError, NewEvent, counted, prepare_all, store_all
from tieline.events.publisher import Prepared, Publisher
from tieline.events.queue import EventsUnavailableError
from tieline.events.run_approvals import ApprovalAnswer, Question, RunApprovals
from tieline.events.run_children import RunChildren
from tieline.events.run_signals import Signal, wait_for_signal
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
        place = self._place_of(task, payload, key, user) if id is None else None
        if place is not None and place.is_done:
            return place.run
        stored = await self._publisher.publish(
            task,
            payload,
            key=key,
            id=id,
            run=place.run if place else None,
            delay=delay,
            at=at,
            user=user,
            traceparent=_current_traceparent(),
        )
        if place is not None:
            self._note_published(place)
            return place.run
        return stored

    async def publish_many(self, events: Iterable[NewEvent]) -> list[str | None]:
        """See ``Context.publish_many``."""
        given = counted(events)
        prepared = prepare_all(self._publisher, given, user=self._user, traceparent=_current_traceparent())
        places: list[_PublishedPlace | None] = []
        new: list[Prepared] = []
        for event, one in zip(given, prepared, strict=True):
            user = one.metadata.user
            place = self._place_of(event.task, event.payload, event.key, user) if event.id is None else None
            places.append(place)
            if place is None:
                new.append(one)
            elif not place.is_done:
                new.append(replace(one, metadata=replace(one.metadata, run=place.run)))
        answers = iter(await store_all(self._publisher, new))
        runs: list[str | None] = []
        failures: dict[int, EventsUnavailableError] = {}
        for number, (place, one) in enumerate(zip(places, prepared, strict=True)):
            stored = True if place is not None and place.is_done else next(answers)
            if isinstance(stored, EventsUnavailableError):
                failures[number] = stored
                runs.append(None)
            elif place is not None:
                self._note_published(place)
                runs.append(place.run)
            else:
                runs.append(one.metadata.run if stored else None)
        if failures:
            raise EventsNotStoredError(runs, failures)
        return runs

    def _place_of(
        self, task: str, payload: Any, key: str | None, user: str | None
    ) -> "_PublishedPlace | None":
        """The place of an event without an id among all that the run publishes; None for a run that is not retried.

        What an earlier attempt has published is not published again. A pod that dies cannot report what it has
        published, so the engine recognises it by its run, for a while.
        """
        if self._steps is None:
            return None
        step = current_step.get()
        content = hashed(encode([task, payload, key, user]))[:_HASH]
        place = f"{self._run}/{step or ''}/{content}"
        self._places[place] += 1
        run = derived_ulid(self._run, f"{place}/{self._places[place]}")
        is_done = step is None and self._earlier[content] >= self._places[place]
        return _PublishedPlace(run=run, content=content, in_step=step is not None, is_done=is_done)

    def _note_published(self, place: "_PublishedPlace") -> None:
        if not place.in_step and not place.is_done:
            self._published.append(place.content)

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

    async def wait_for_signal(
        self,
        name: str,
        timeout: float | timedelta,  # noqa: ASYNC109  (the run ends meanwhile)
        place: Place = IN_OWN_TASK,
    ) -> Signal | None:
        """See ``Context.wait_for_signal``."""
        if self._waits is None:
            raise StepsNotAvailableError
        return await wait_for_signal(self._waits, self._run, name, timeout, place)

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
        return await self._children.run(
            task,
            payload,
            timeout,
            place,
            key=key,
            user=self._user if user is None else user,
            traceparent=_current_traceparent(),
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


@dataclass(frozen=True, kw_only=True)
class _PublishedPlace:
    """An event among all that a run publishes."""

    run: str
    """The event's run."""
    content: str
    """A hash of it."""
    in_step: bool
    is_done: bool
    """Whether an earlier attempt has published it."""


def _current_traceparent() -> str | None:
    span = current_span.get()
    return traceparent(span.context) if span else None


def _compared(field: str, value: Any) -> str:
    """A value of ``match`` as it is compared. Raises ValueError."""
    text = matched_text(value)
    if text is None:
        raise ValueError(
            f"match: {field!r} is compared with a text, a number or a bool of at most {MAX_VALUE} characters, "
            f"not with {type(value).__name__}"
        )
    return text
