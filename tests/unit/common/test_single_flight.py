"""Concurrent calls with one key share one execution."""

import asyncio
import gc
from typing import Any

import pytest

from tieline_common.single_flight import SingleFlight


class Backend:
    """Answers when released, and counts its calls."""

    def __init__(self, error: Exception | None = None) -> None:
        self.calls = 0
        self.released = asyncio.Event()
        self._error = error

    async def ask(self) -> int:
        self.calls += 1
        call = self.calls
        await self.released.wait()
        if self._error is not None:
            raise self._error
        return call


async def started(*calls: Any) -> list[asyncio.Task[int]]:
    tasks = [asyncio.create_task(call) for call in calls]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return tasks


async def test_callers_with_one_key_share_one_execution() -> None:
    flights, backend = SingleFlight[str, int](), Backend()
    tasks = await started(*(flights.run("a", backend.ask) for _ in range(50)))
    assert len(flights) == 1
    backend.released.set()
    assert await asyncio.gather(*tasks) == [1] * 50
    assert (backend.calls, len(flights)) == (1, 0)


async def test_keys_do_not_wait_for_each_other() -> None:
    flights, slow, quick = SingleFlight[str, int](), Backend(), Backend()
    (task,) = await started(flights.run("a", slow.ask))
    quick.released.set()
    assert await flights.run("b", quick.ask) == 1
    assert not task.done()
    slow.released.set()
    await task


async def test_a_call_after_the_end_executes_again() -> None:
    flights, backend = SingleFlight[str, int](), Backend()
    backend.released.set()
    assert [await flights.run("a", backend.ask) for _ in range(2)] == [1, 2]


async def test_every_caller_gets_the_exception_and_the_next_call_tries_again() -> None:
    flights, broken, sound = SingleFlight[str, int](), Backend(ValueError("no")), Backend()
    tasks = await started(*(flights.run("a", broken.ask) for _ in range(3)))
    broken.released.set()
    assert [str(error) for error in await asyncio.gather(*tasks, return_exceptions=True)] == ["no"] * 3
    sound.released.set()
    assert await flights.run("a", sound.ask) == 1


async def test_a_cancelled_caller_does_not_stop_the_others() -> None:
    flights, backend = SingleFlight[str, int](), Backend()
    first, second = await started(*(flights.run("a", backend.ask) for _ in range(2)))
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    backend.released.set()
    assert await second == 1
    assert backend.calls == 1


async def test_an_execution_that_nobody_waits_for_ends_without_a_complaint_of_the_loop() -> None:
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    flights, backend = SingleFlight[str, int](), Backend(ValueError("no"))
    (task,) = await started(flights.run("a", backend.ask))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(flights) == 1
    backend.released.set()
    await asyncio.sleep(0.01)
    assert len(flights) == 0
    del task
    gc.collect()
    assert complaints == []


async def test_an_execution_that_was_cancelled_itself_is_started_anew() -> None:
    flights, backend = SingleFlight[str, int](), Backend()

    async def cancelled() -> int:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await flights.run("a", cancelled)
    backend.released.set()
    assert await flights.run("a", backend.ask) == 1


async def test_an_execution_can_be_started_without_waiting_for_it() -> None:
    flights, backend = SingleFlight[str, int](), Backend()
    task = flights.start("a", backend.ask)
    (caller,) = await started(flights.run("a", backend.ask))
    backend.released.set()
    assert (await task, await caller, backend.calls) == (1, 1, 1)


async def test_closing_cancels_every_execution_and_waits_for_its_end() -> None:
    flights, slow = SingleFlight[str, int](), Backend()
    ended: list[str] = []

    async def ask(name: str) -> int:
        try:
            return await slow.ask()
        finally:
            await asyncio.sleep(0)
            ended.append(name)

    callers = await started(*(flights.run(name, lambda name=name: ask(name)) for name in ("a", "b")))
    await flights.close()
    assert (ended, len(flights)) == (["a", "b"], 0)
    assert all(
        isinstance(end, asyncio.CancelledError)
        for end in await asyncio.gather(*callers, return_exceptions=True)
    )
