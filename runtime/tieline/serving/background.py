"""Work after the answer: bounded, seen, and waited for when the server stops."""

import asyncio
import inspect
import logging
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

from tieline.errors import TielineError
from tieline.serving.turns import NoTurnError, Turns
from tieline.tracing.spans import Tracer

logger = logging.getLogger("tieline.run")

Work = Coroutine[Any, Any, Any] | Callable[..., Any]


class TooMuchBackgroundWorkError(TielineError):
    """As much background work as may be waits or runs; do this part before the answer, or refuse the request."""

    def __init__(self, most: int) -> None:
        super().__init__(
            f"{most} pieces of background work are waiting or running already; do the work before the answer, or "
            "answer 429 so that the caller comes again"
        )


class BackgroundWork:
    """Runs what ``ctx.background`` is given. It takes turns with the runs, as its activation's."""

    def __init__(
        self,
        *,
        turns: Turns | None = None,
        tracer: Tracer | None = None,
        threads: ThreadPoolExecutor | None = None,
        most: int = 1000,
        timeout: float | None = 300.0,
    ) -> None:
        """``most`` pieces may wait or run; each is stopped after ``timeout`` seconds."""
        self._turns = turns or Turns(most=100)
        self._tracer = tracer or Tracer(lambda _: None)
        self._threads = threads
        self._most = most
        self._timeout = timeout or None
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
        kept = False
        try:
            await self._turns.wait(key, bounded=False)
        except (NoTurnError, asyncio.CancelledError):
            if inspect.iscoroutine(work):
                work.close()
            logger.error("Background work %s was stopped before it began: the pod ends", name)
            raise
        try:
            with self._tracer.span(f"background {name}", attributes={"background": True}) as span:
                try:
                    async with asyncio.timeout(self._timeout) as deadline:
                        if inspect.iscoroutine(work) or inspect.iscoroutinefunction(work):
                            await (work if inspect.iscoroutine(work) else work(*args, **kwargs))
                        elif callable(work):
                            thread = self._in_thread(work, args, kwargs)
                            # A thread cannot be stopped: it holds its turn until it has ended.
                            kept = True
                            thread.add_done_callback(lambda _: self._turns.release(key))
                            await asyncio.shield(thread)
                except asyncio.CancelledError:
                    span.fail("cancelled")
                    logger.error("Background work %s was stopped: the pod ends", name)
                    raise
                except TimeoutError as error:
                    span.fail(error)
                    if deadline.expired():
                        logger.error("Background work %s was stopped after %g seconds", name, self._timeout)
                    else:
                        logger.exception("Background work %s failed: %s", name, error)
                except Exception as error:
                    span.fail(error)
                    logger.exception("Background work %s failed: %s", name, error)
        finally:
            if not kept:
                self._turns.release(key)

    def _in_thread(
        self, work: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> "asyncio.Future[Any]":
        context = copy_context()
        return asyncio.get_running_loop().run_in_executor(
            self._threads, lambda: context.run(work, *args, **kwargs)
        )
