"""Single flight: concurrent calls with the same key share one execution."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

from tieline_common.cancellation import cancel_and_wait

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class SingleFlight(Generic[K, V]):
    """Runs one coroutine per key at a time; every caller that arrives meanwhile gets its result.

    Nothing is cached: the first call after the end starts a new execution. All calls belong to one event loop.
    """

    def __init__(self) -> None:
        self._tasks: dict[K, asyncio.Task[V]] = {}

    def __len__(self) -> int:
        """Executions in progress."""
        return len(self._tasks)

    async def run(self, key: K, factory: Callable[[], Coroutine[Any, Any, V]]) -> V:
        """The result of the execution in progress for ``key``, or of ``factory()`` where there is none.

        Every caller gets the exception of a failed execution. A cancelled caller stops waiting; the
        execution goes on for the others and to its end.
        """
        return await asyncio.shield(self.start(key, factory))

    def start(self, key: K, factory: Callable[[], Coroutine[Any, Any, V]]) -> "asyncio.Task[V]":
        """The execution that ``run`` waits for. Its exception is always retrieved, so asyncio logs none."""
        task = self._tasks.get(key)
        if task is None or task.done():
            task = asyncio.create_task(factory())
            self._tasks[key] = task
            task.add_done_callback(lambda done: self._end(key, done))
        return task

    async def close(self) -> None:
        """Cancels all executions, and waits for their ends."""
        await cancel_and_wait(*self._tasks.values())

    def _end(self, key: K, task: "asyncio.Task[V]") -> None:
        if self._tasks.get(key) is task:
            del self._tasks[key]
        if not task.cancelled():
            task.exception()  # retrieved, even where every caller was cancelled
