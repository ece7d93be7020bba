"""Steps of a run: done once, however often the run is tried.

A step's result is kept under its name and how often that name came before in the run. A later attempt gets the result
instead of doing the step again. A crash between the effect and the record repeats the step, so each step has an
idempotency key for the other side.

Before its first step an attempt claims the steps of its run. Then it can read all results that there will be of others:
what an attempt without the claim saves is refused.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from tieline.errors import TielineError, reason
from tieline.events.retry import Reject
from tieline.events.run_store import RunStore, RunTakenOver, StepsClaim
from tieline.plain_json import encode
from tieline_protocol.event_streams import hashed
from tieline_protocol.run_records import StepRecord

MAX_STEPS = 1000
MAX_RESULT_BYTES = 1024 * 1024

current_step: ContextVar[str | None] = ContextVar("tieline_step", default=None)
"""The idempotency key of the step that the running code is in."""


class StepsNotAvailableError(TielineError):
    """The run is not one that is tried again, so it has no steps.

    >>> async def orders(ctx: Context, request: Request) -> str:
    ...     try:
    ...         return await ctx.step("fetch", fetch_order, "A-1")
    ...     except StepsNotAvailableError:
    ...         return "publish an event instead"
    >>> run(orders, json={})
    'publish an event instead'
    """

    def __init__(self) -> None:
        super().__init__(
            "Steps and sleep are for runs that are tried again: those of @integration.event, and of webhooks with "
            'delivery="queued". Publish an event, and do the work in its task'
        )


class TooManyStepsError(TielineError):
    """A run has more steps than are kept; publish further events for the rest.

    >>> issubclass(TooManyStepsError, TielineError)
    True
    """


class SuspendedRun(BaseException):
    """Ends a run that sleeps. Not an Exception, so that code which catches those does not stop it."""

    def __init__(self, until: float) -> None:
        super().__init__(until)
        self.until = until
        """Seconds since 1970."""


@dataclass(frozen=True)
class BegunStep:
    """A step before its work. ``result`` is JSON when an earlier attempt has done it."""

    name: str
    occurrence: int
    started_at: float
    idempotency_key: str
    result: bytes | None

    @contextmanager
    def current(self) -> Iterator[None]:
        """Within it the run's idempotency key is the step's."""
        token = current_step.set(self.idempotency_key)
        try:
            yield
        finally:
            current_step.reset(token)


class RunSteps:
    """The steps of one attempt."""

    def __init__(
        self,
        runs: RunStore,
        run: str,
        *,
        may_have_results: bool,
        held: Callable[[], bool],
        clock: Callable[[], float],
        idempotency_run: str | None = None,
    ) -> None:
        """``idempotency_run`` is the run whose idempotency keys it has; None for its own.

        ``may_have_results``: whether an earlier attempt is known of.
        """
        self._runs = runs
        self._run = run
        self.idempotency_run = idempotency_run or run
        self._held = held
        self._clock = clock
        self._may_have_results = may_have_results
        self._claim: StepsClaim | None = None
        self._writing = asyncio.Lock()
        self._names: Counter[str] = Counter()
        self.records: list[StepRecord] = []
        """The steps of this attempt, in the order in which they ended."""

    @property
    def any_recorded(self) -> bool:
        """Whether the engine keeps something of the steps of this run."""
        return self._may_have_results or self._claim is not None

    async def begin(self, name: str) -> BegunStep:
        """The next step of this name. Raises TooManyStepsError, EventsUnavailableError, or RunTakenOver."""
        if not isinstance(name, str) or not 1 <= len(name) <= 200:
            raise ValueError(f"The name of a step is a text of 1 to 200 characters, not {name!r}")
        if self._names.total() >= MAX_STEPS:
            raise TooManyStepsError(f"A run has at most {MAX_STEPS} steps; publish events for the rest")
        self._check_held()
        self._names[name] += 1
        occurrence = self._names[name]
        found = None
        claim = await self._claimed()
        if self._may_have_results:
            found = await self._runs.step_result(self._run, name, occurrence, claim=claim)
            self._check_held()
        key = f"{self.idempotency_run}/{hashed(name)}/{occurrence}"
        return BegunStep(name, occurrence, self._clock(), key, found)

    def failed(self, step: BegunStep, error: BaseException) -> None:
        """The step's work raised."""
        self._add(step, error=reason(error))

    async def finish(self, step: BegunStep, value: Any) -> Any:
        """Keep the step's result, and return it as a later attempt will get it: as JSON data.

        Raises Reject for what cannot be kept (a retry would do the step again, and fail again),
        EventsUnavailableError, or RunTakenOver.
        """
        if step.result is not None:
            self._add(step, recorded=True)
            return json.loads(step.result)
        try:
            content = encode(value).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise Reject(
                f"The step {step.name!r} is done, but its result, a {type(value).__name__}, is no JSON data ({error}); "
                "return what the next steps need of it"
            ) from None
        if len(content) > MAX_RESULT_BYTES:
            raise Reject(
                f"The step {step.name!r} is done, but its result has {len(content):,} bytes; at most "
                f"{MAX_RESULT_BYTES:,} are kept: store it elsewhere, and return where it is"
            )
        claim = await self._claimed()
        # One after the other: a cluster stores one message at a time that depends on a claim, and refuses others.
        async with self._writing:
            self._check_held()
            await self._runs.save_step(self._run, step.name, step.occurrence, content, claim=claim)
        self._add(step)
        return json.loads(content)

    async def sleep(self, name: str, seconds: float) -> None:
        """Ends the attempt with SuspendedRun until the time has come; then it returns."""
        step = await self.begin(f"sleep: {name}")
        until = float(await self.finish(step, self._clock() + seconds))
        if until > self._clock():
            raise SuspendedRun(until)

    async def _claimed(self) -> StepsClaim:
        """Raises EventsUnavailableError, or RunTakenOver."""
        async with self._writing:
            if self._claim is None:
                self._claim = await self._runs.claim_steps(self._run, any_kept=self._may_have_results)
                self._may_have_results |= self._claim.any_kept
                # The answer may have taken longer than the lease.
                self._check_held()
            return self._claim

    def _add(self, step: BegunStep, *, recorded: bool = False, error: str | None = None) -> None:
        self.records.append(
            StepRecord(
                name=step.name,
                occurrence=step.occurrence,
                started_at=step.started_at,
                ended_at=self._clock(),
                recorded=recorded,
                error=error,
            )
        )

    def _check_held(self) -> None:
        if not self._held():
            raise RunTakenOver
