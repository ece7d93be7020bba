"""Work after the answer: bounded, seen, and waited for when the server stops."""

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any

from tieline.errors import TielineError, reason
from tieline.execution.fair_limiter import FairLimiter, Slot
from tieline.execution.tags import background_tags
from tieline.execution.ulids import new_ulid
from tieline.run_deadline import begin_deadline
from tieline.telemetry.logs import current_activation, end_run
from tieline.telemetry.metrics import Outcome, RunMetrics
from tieline.telemetry.spans import Span, Tracer, Value

logger = logging.getLogger("tieline.run")

Work = Coroutine[Any, Any, Any] | Callable[..., Any]


class TooMuchBackgroundWorkError(TielineError):
    """As much background work as may be waits or runs; do this part before the answer, or refuse the request.

    >>> async def order(ctx: Context, request: Request) -> Response:
    ...     try:
    ...         ctx.background(ctx.fetch("shop", "/orders", method="POST", json=await request.json()))
    ...     except TooMuchBackgroundWorkError:
    ...         return Response(status=429, headers={"Retry-After": "30"})
    ...     return Response(status=202)
    >>> run(order, json={}).status
    202
    """

    span_type = "tieline.serving.background.TooMuchBackgroundWorkError"

    def __init__(self, most: int) -> None:
        super().__init__(
            f"{most} pieces of background work are waiting or running already; do the work before the answer, or "
            "answer 429 so that the caller comes again"
        )


@dataclass(frozen=True, slots=True)
class EndedWork:
    """A piece of background work that has ended."""

    id: str
    """Of its run."""
    name: str
    span: Span
    user: str
    """External id of the activation's user; empty for the static activation."""
    activation: str
    """Id of the activation."""
    error: BaseException | None
    tags: dict[str, str]
    """Those that the run had when it asked for it, and its own."""


class BackgroundWork:
    """Runs what ``ctx.background`` is given. It takes turns with the runs, as its activation's."""

    def __init__(
        self,
        *,
        turns: FairLimiter | None = None,
        tracer: Tracer | None = None,
        threads: ThreadPoolExecutor | None = None,
        counts: RunMetrics | None = None,
        most: int = 1000,
        timeout: float | None = 300.0,
        ended: Callable[[EndedWork], None] = lambda _: None,
    ) -> None:
        """``most`` pieces may wait or run; each is stopped after ``timeout`` seconds, and handed to ``ended``."""
        self._turns = turns or FairLimiter(most=100)
        self._tracer = tracer or Tracer(lambda _: None)
        self._threads = threads
        self._counts = counts or RunMetrics()
        self._most = most
        self._timeout = timeout or None
        self._ended = ended
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def pending(self) -> int:
        """How many pieces wait or run."""
        return len(self._tasks)

    def start(self, key: str, work: Work, *args: Any, **kwargs: Any) -> None:
        """Begin with ``work`` for the activation ``key``; raises TooMuchBackgroundWorkError."""
        if len(self._tasks) >= self._most:
            if inspect.iscoroutine(work):
                work.close()
            raise TooMuchBackgroundWorkError(self._most)
        task = asyncio.get_running_loop().create_task(self._run(key, work, args, kwargs))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def drain(self, seconds: float) -> None:
        """Wait for what is left, for ``seconds`` at most; what is not done then is stopped, and logged."""
        deadline = asyncio.get_running_loop().time() + seconds
        while self._tasks and (left := deadline - asyncio.get_running_loop().time()) > 0:
            await asyncio.wait(set(self._tasks), timeout=left)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=1)

    async def _run(self, key: str, work: Work, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        name = getattr(work, "__name__", type(work).__name__)
        tags = background_tags.get()
        try:
            await self._turns.wait(key, bounded=False)
        except asyncio.CancelledError:
            if inspect.iscoroutine(work):
                work.close()
            logger.error("Background work %s was stopped before it began: the pod ends", name)
            raise
        slot = Slot(self._turns, key)
        started = time.perf_counter()
        outcome: Outcome = "interrupted"
        # A run of its own, in the trace and the execution of the run that asked for it.
        run = new_ulid()
        attributes: dict[str, Value] = {
            "background": True,
            "run.id": run,
            "run.kind": "background",
            "run.task": name,
        }
        span = self._tracer.span(f"background {name}", attributes=attributes)
        error: BaseException | None = None
        try:
            with span:
                outcome, error = await self._limited(name, span, self._begun(slot, work, args, kwargs))
        except BaseException as stopped:
            error = stopped
            raise
        finally:
            slot.release()
            end_run()
            self._counts.add("background", name, outcome, time.perf_counter() - started)
            self._ended(EndedWork(run, name, span, key, current_activation.get() or "", error, tags or {}))

    async def _limited(self, name: str, span: Span, work: Awaitable[Any]) -> tuple[Outcome, Exception | None]:
        """How it ended, and why it failed."""
        try:
            begin_deadline(asyncio.get_running_loop().time(), self._timeout)
            async with asyncio.timeout(self._timeout) as deadline:
                await work
        except asyncio.CancelledError:
            logger.error("Background work %s was stopped: the pod ends", name)
            raise
        except Exception as error:
            if isinstance(error, TimeoutError) and deadline.expired():
                error = TimeoutError(f"stopped after {self._timeout:g} seconds")
                span.fail(error)
                logger.error("Background work %s was stopped after %g seconds", name, self._timeout)
                return "timed_out", error
            span.fail(error)
            logger.exception("Background work %s failed: %s", name, reason(error))
            return "failed", error
        return "succeeded", None

    async def _begun(self, slot: Slot, work: Work, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if inspect.iscoroutine(work):
            await work
        elif inspect.iscoroutinefunction(work):
            await work(*args, **kwargs)
        elif callable(work):
            loop, context = asyncio.get_running_loop(), copy_context()
            thread = loop.run_in_executor(self._threads, lambda: context.run(work, *args, **kwargs))
            # A thread cannot be stopped: it holds its turn until it has ended.
            slot.keep()
            thread.add_done_callback(lambda _: slot.free())
            await asyncio.shield(thread)
