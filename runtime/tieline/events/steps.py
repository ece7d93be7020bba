"""Steps of a run: done once, however often the run is tried.

A step's result is kept under its name and how often that name came before in the run. A later attempt gets the result
instead of doing the step again. A crash between the effect and the record repeats the step, so each step has an
idempotency key for the other side.

Before its first step an attempt claims the steps of its run. Then it can read all results that there will be of others:
what an attempt without the claim saves is refused.

Steps in the run's own task (or thread) have places in a sequence, and a later attempt must ask for them in that order.
A step has no place where the order can differ from attempt to attempt: in another task or thread, after a step that
failed, and from the first one in an ``except`` block on. StepsChangedError ends a run whose code asks for something
else (docs/decisions/0074-steps-that-differ.md).
"""

import asyncio
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NoReturn

import orjson

from tieline.errors import TielineError, reason
from tieline.events.done_steps import DoneSteps
from tieline.events.retry import Reject
from tieline.events.run_store import PATCH, KeptStep, RunStore, RunTakenOver, StepPlace, StepsClaim
from tieline.plain_json import encode
from tieline_protocol.event_streams import hashed
from tieline_protocol.run_records import StepApproval, StepRecord

MAX_STEPS = 1000
MAX_RESULT_BYTES = 1024 * 1024
MAX_PATCH_NAME = 190

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
            "Steps, sleep and waits are for runs that are retried: those of @integration.event, and of webhooks with "
            'delivery="queued". Publish an event, and do the work in its task'
        )


class TooManyStepsError(TielineError):
    """A run has more steps than are kept; publish further events for the rest.

    >>> issubclass(TooManyStepsError, TielineError)
    True
    """


class StepsChangedError(Reject):
    """The code asks for other steps than those that are recorded for the run; the run ends as a dead letter.

    >>> issubclass(StepsChangedError, Reject)
    True
    """


class StepsChanged(BaseException):
    """Stops an attempt that asks for other steps. Not an Exception, so that code which catches those does not go on."""

    def __init__(self, error: StepsChangedError) -> None:
        super().__init__(str(error))
        self.error = error


class SuspendedRun(BaseException):
    """Ends a run that sleeps or waits. Not an Exception, so that code which catches those does not stop it."""

    def __init__(self, until: float) -> None:
        super().__init__(until)
        self.until = until
        """Seconds since 1970."""


@dataclass(frozen=True, kw_only=True)
class BegunStep:
    """A step before its work. ``result`` is JSON when an earlier attempt has done it."""

    name: str
    occurrence: int
    place: int
    """See StepPlace."""
    work: str
    started_at: float
    idempotency_key: str
    result: bytes | None
    found: KeptStep | None = None
    """As an earlier attempt recorded it."""

    @contextmanager
    def current(self) -> Iterator[None]:
        """Within it the run's idempotency key is the step's."""
        token = current_step.set(self.idempotency_key)
        try:
            yield
        finally:
            current_step.reset(token)


class PatchAnswer(Awaitable[bool]):
    """What ``Context.patched`` returns. Without ``await`` it would always be true, so it refuses to be a condition."""

    def __init__(self, ask: Callable[[], Generator[Any, None, bool]]) -> None:
        self._ask = ask

    def __await__(self) -> Generator[Any, None, bool]:
        """Asks."""
        return self._ask()

    def __bool__(self) -> NoReturn:
        """Raises TypeError."""
        raise TypeError("ctx.patched needs await: `if await ctx.patched(...):`")


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
        version: str = "",
        idempotency_run: str | None = None,
        check_cancelled: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """``idempotency_run`` is the run whose idempotency keys it has; None for its own. ``check_cancelled`` is called
        before each new step, and may raise CancelledByEvent.

        ``may_have_results``: whether an earlier attempt is known of. Made in the task that runs the code.
        """
        self._runs = runs
        self._run = run
        self.idempotency_run = idempotency_run or run
        self._check_cancelled = check_cancelled
        self._held = held
        self._clock = clock
        self._may_have_results = may_have_results
        self._claim: StepsClaim | None = None
        self._writing = asyncio.Lock()
        self._patching = asyncio.Lock()
        self._patches: dict[str, bool] = {}
        self._version = version
        self._names: Counter[str] = Counter()
        self._task = asyncio.current_task()
        self._order = _Order()
        self._recorded: dict[tuple[str, int], StepPlace] = {}
        """What earlier attempts recorded and this one has not asked for yet, by hash of the name and occurrence."""
        self.changed: StepsChangedError | None = None
        """Why the attempt must not go on."""
        self.records: list[StepRecord] = []
        """The steps of this attempt, in the order in which they ended."""
        self.done = DoneSteps(self.idempotency_run, version)
        """The results of this attempt's steps, for the record of the run's end."""

    @property
    def any_recorded(self) -> bool:
        """Whether the engine keeps something of the steps of this run."""
        return self._may_have_results or self._claim is not None

    @property
    def has_earlier(self) -> bool:
        """Whether an earlier attempt may have done something that it did not record. Known after ``begin``."""
        return self._may_have_results

    async def begin(
        self, name: str, *, work: str = "", in_order: bool | None = None, handles_error: bool = False
    ) -> BegunStep:
        """The next step of this name.

        ``work`` is what ``work_of`` returns. ``in_order``: whether the step has a place in the run's sequence; by
        default it has one in the run's own task. ``handles_error``: whether code in a thread asks for it while it
        handles an exception.
        Raises TooManyStepsError, EventsUnavailableError, StepsChanged, RunTakenOver, or CancelledByEvent.
        """
        if not isinstance(name, str) or not 1 <= len(name) <= 200:
            raise ValueError(f"The name of a step is a text of 1 to 200 characters, not {name!r}")
        if self.changed is not None:
            raise StepsChanged(self.changed)
        if self._names.total() >= MAX_STEPS:
            raise TooManyStepsError(f"A run has at most {MAX_STEPS} steps; publish events for the rest")
        self.check_lease()
        self._names[name] += 1
        occurrence = self._names[name]
        in_own_task = asyncio.current_task() is self._task if in_order is None else in_order
        if in_own_task and (handles_error or sys.exception() is not None):
            self._order.leave()
        place = self._order.begin() if in_own_task else 0
        claim = await self._claimed()
        found = await self._found(name, occurrence, work, claim, in_own_task=in_own_task)
        if found is None and self._check_cancelled is not None:
            await self._check_cancelled()
        run = (found and found.run) or self.idempotency_run
        return BegunStep(
            name=name,
            occurrence=occurrence,
            place=place,
            work=work,
            started_at=self._clock(),
            idempotency_key=f"{run}/{hashed(name)}/{occurrence}",
            result=None if found is None else found.result,
            found=found,
        )

    async def _found(
        self, name: str, occurrence: int, work: str, claim: StepsClaim, *, in_own_task: bool
    ) -> KeptStep | None:
        """The step as an earlier attempt recorded it. Raises StepsChanged."""
        recorded = self._recorded.pop((hashed(name), occurrence), None)
        before = [one for one in self._recorded.values() if 0 < one.place < (recorded or _LAST).place]
        if in_own_task and before and not self._order.is_left:
            expected = min(before, key=lambda one: one.place)
            kept = await self._runs.step_result(self._run, expected, claim=claim)
            raise self._stop(_other_place(kept, name, occurrence, self._version))
        if recorded is None:
            return None
        kept = await self._runs.step_result(self._run, recorded, claim=claim)
        self.check_lease()
        # In one task and version the order has distinguished the steps, and arguments may depend on the time.
        if work and kept.work and kept.work != work and (kept.version != self._version or not in_own_task):
            raise self._stop(_other_work(kept, self._version))
        return kept

    def _stop(self, error: StepsChangedError) -> StepsChanged:
        self.changed = error
        return StepsChanged(error)

    def check_lease(self) -> None:
        """Raises RunTakenOver where another pod may have the run by now."""
        if not self._held():
            raise RunTakenOver

    def failed(self, step: BegunStep, error: BaseException) -> None:
        """The step's work raised."""
        self._add(step, error=reason(error))

    async def finish(self, step: BegunStep, value: Any) -> Any:
        """Keep the step's result, and return it as a later attempt will get it: as JSON data.

        Raises Reject for what cannot be kept (a retry would do the step again, and fail again),
        EventsUnavailableError, or RunTakenOver.
        """
        if step.result is not None:
            self._order.end(step.place)
            self._add(step, recorded=True)
            self.done.add(step.found or self._kept(step, step.result))
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
        kept = self._kept(step, content)
        async with self._writing:
            self.check_lease()
            await self._runs.save_step(self._run, kept, claim=claim)
        self._order.end(step.place)
        self._add(step)
        self.done.add(kept)
        return json.loads(content)

    def annotate(
        self, step: BegunStep, *, approval: StepApproval | None = None, child: str | None = None
    ) -> None:
        """Say in the step's record what came of an approval, or which run it started."""
        for number, record in enumerate(self.records):
            if (record.name, record.occurrence) == (step.name, step.occurrence):
                self.records[number] = replace(record, approval=approval, child=child)

    def _kept(self, step: BegunStep, result: bytes) -> KeptStep:
        return KeptStep(
            name=step.name,
            occurrence=step.occurrence,
            place=step.place,
            work=step.work,
            version=self._version,
            result=result,
        )

    async def sleep(
        self, name: str, seconds: float, *, in_order: bool | None = None, handles_error: bool = False
    ) -> None:
        """Ends the attempt with SuspendedRun until the time has come; then it returns. See ``begin``."""
        step = await self.begin(f"sleep: {name}", in_order=in_order, handles_error=handles_error)
        until = float(await self.finish(step, self._clock() + seconds))
        if until > self._clock():
            raise SuspendedRun(until)

    async def patched(self, name: str) -> bool:
        """Whether the run takes the code of a patch: False where recorded steps have passed the place without it.

        The first answer is recorded, and is the one of all attempts. It has no place in the sequence, so that the
        question can be added to code and removed from it under waiting runs. Raises as ``begin``.
        """
        if not isinstance(name, str) or not 1 <= len(name) <= MAX_PATCH_NAME:
            raise ValueError(
                f"The name of a patch is a text of 1 to {MAX_PATCH_NAME} characters, not {name!r}"
            )
        async with self._patching:
            if name not in self._patches:
                step = await self.begin(PATCH + name, in_order=False)
                is_new = step.result is None and not await self._is_passed()
                self._patches[name] = bool(await self.finish(step, is_new))
        return self._patches[name]

    async def _is_passed(self) -> bool:
        """Whether an attempt of other code has recorded steps that come after this place."""
        ahead = list(self._recorded.values())
        if any(one.place for one in ahead):
            return True
        claim = await self._claimed()
        for one in ahead:
            # Attempts of this version would have recorded the answer before they passed.
            kept = await self._runs.step_result(self._run, one, claim=claim)
            if kept.version != self._version and not kept.name.startswith(PATCH):
                return True
        return False

    async def _claimed(self) -> StepsClaim:
        """Raises EventsUnavailableError, or RunTakenOver."""
        async with self._writing:
            if self._claim is None:
                self._claim = await self._runs.claim_steps(self._run, any_kept=self._may_have_results)
                self._may_have_results |= self._claim.any_kept
                self._recorded = {(one.name_hash, one.occurrence): one for one in self._claim.recorded}
                # The answer may have taken longer than the lease.
                self.check_lease()
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


class _Order:
    """The sequence of the steps in the run's own task, as far as each attempt takes them in the same order."""

    def __init__(self) -> None:
        self._begun = 0
        self._ended = 0
        self._broken = False
        self.is_left = False
        """Whether an error that another attempt need not have has led the code another way."""

    def leave(self) -> None:
        """An exception is being handled."""
        self._broken = self.is_left = True

    def begin(self) -> int:
        """The next step's place; 0 after one that has not ended, because its error may lead the code another way."""
        self._broken = self._broken or self._ended < self._begun
        if self._broken:
            return 0
        self._begun += 1
        return self._begun

    def end(self, place: int) -> None:
        """The step at this place is done."""
        if place:
            self._ended = place


_LAST = StepPlace(name_hash="", occurrence=0, place=MAX_STEPS + 1)


def work_of(work: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """A hash of a function's name and its arguments, by which a step is recognised in a later version.

    Of an argument without a form in JSON (such as a context) only the type counts.
    """
    function = work.func if isinstance(work, partial) else work
    name = getattr(function, "__name__", None)
    if not isinstance(name, str):
        # A proxy, such as xmlrpc's, has any attribute that it is asked for.
        name = type(function).__name__
    try:
        content = orjson.dumps([args, kwargs], default=_type_name, option=_DIGEST)
    except (TypeError, ValueError, RecursionError):
        content = b""
    return hashlib.blake2b(content, digest_size=12, person=_person(name)).hexdigest()


_DIGEST = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS


def _person(name: str) -> bytes:
    return hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _type_name(value: Any) -> str:
    return type(value).__name__


def _other_place(kept: KeptStep, name: str, occurrence: int, version: str) -> StepsChangedError:
    asked, expected = _named(name, occurrence), _named(kept.name, kept.occurrence)
    if kept.version == version:
        return StepsChangedError(
            f"Step {kept.place} of this run is {expected}, and this attempt asks for {asked} in its place. The code is "
            "the same, so it decides by something that changes, such as the time or ctx.variables. Let it decide by "
            "the payload and by results of steps, deploy it, and replay the run"
        )
    return StepsChangedError(
        f"Step {kept.place} of this run is {expected}, which version {kept.version} has recorded; version {version} "
        f"asks for {asked} in its place. {_ADVICE}"
    )


def _other_work(kept: KeptStep, version: str) -> StepsChangedError:
    step = _named(kept.name, kept.occurrence)
    if kept.version == version:
        return StepsChangedError(
            f"The step {step} is recorded, and this attempt asks for it with another function or other arguments. "
            "Steps that run side by side need names of their own, for example with the item's id. Name them so, "
            "deploy, and replay the run"
        )
    at = f"Step {kept.place} of this run" if kept.place else "A step of this run"
    return StepsChangedError(
        f"{at} is {step}, which version {kept.version} has recorded; version {version} asks for a step of this name "
        f"with another function or other arguments, which may be another step. {_ADVICE}"
    )


def _named(name: str, occurrence: int) -> str:
    return repr(name) if occurrence == 1 else f"{name!r} (occurrence {occurrence})"


_ADVICE = (
    "Deploy code that takes the recorded steps as they were, and adds new ones after them under names of their own, or "
    "publishes new events to a task with another name. A replay of this run starts from the beginning"
)
