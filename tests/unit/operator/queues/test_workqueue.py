"""The queue: what a user would notice is work that is lost, doubled, or tried again without a pause."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from tieline_operator.queues.workqueue import LONGEST_BACKOFF, WorkQueue


class FakeTimer:
    def __init__(self, due: float, callback: Callable[[], None]) -> None:
        self.due, self.callback, self.cancelled = due, callback, False

    def cancel(self) -> None:
        self.cancelled = True


class FakeClock:
    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[FakeTimer] = []

    def call_later(self, seconds: float, callback: Callable[[], None]) -> FakeTimer:
        timer = FakeTimer(self.now + seconds, callback)
        self.timers.append(timer)
        return timer

    async def advance(self, seconds: float) -> None:
        self.now += seconds
        due = [t for t in self.timers if t.due <= self.now + 1e-9 and not t.cancelled]
        self.timers = [t for t in self.timers if t not in due and not t.cancelled]
        for timer in due:
            timer.callback()
        await settle()

    @property
    def delays(self) -> list[float]:
        return [round(t.due - self.now, 6) for t in self.timers if not t.cancelled]


def noting(ran: list[str]) -> Callable[[str], Awaitable[None]]:
    """Work that is done at once, and noted."""

    async def work(key: str) -> None:
        ran.append(key)

    return work


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@asynccontextmanager
async def running(
    work: Callable, *, workers: int = 2, clock: FakeClock | None = None
) -> AsyncIterator[WorkQueue]:
    queue: WorkQueue[str] = WorkQueue(work, workers=workers, clock=clock or FakeClock(), jitter=lambda: 1.0)
    queue.start()
    try:
        yield queue
    finally:
        await queue.stop(grace=0.1)


async def test_a_key_that_is_added_many_times_before_it_runs_is_run_once() -> None:
    ran: list[str] = []
    async with running(noting(ran)) as queue:
        for _ in range(5):
            queue.add("a")
        await settle()
    assert ran == ["a"]


async def test_a_key_never_runs_twice_at_once_and_a_change_meanwhile_runs_it_once_more() -> None:
    gate, ran, at_once = asyncio.Event(), 0, 0
    most = 0

    async def work(key: str) -> None:
        nonlocal ran, at_once, most
        ran, at_once = ran + 1, at_once + 1
        most = max(most, at_once)
        await gate.wait()
        at_once -= 1

    async with running(work, workers=4) as queue:
        queue.add("a")
        await settle()
        for _ in range(3):
            queue.add("a")
        await settle()
        assert ran == 1
        gate.set()
        await settle()
    assert (ran, most) == (2, 1)


async def test_no_more_keys_run_at_once_than_there_are_workers() -> None:
    gate, started = asyncio.Event(), []

    async def work(key: str) -> None:
        started.append(key)
        await gate.wait()

    async with running(work, workers=2) as queue:
        for key in "abcd":
            queue.add(key)
        await settle()
        assert started == ["a", "b"]
        gate.set()
        await settle()
    assert started == ["a", "b", "c", "d"]


async def test_failures_wait_twice_as_long_each_time_up_to_a_minute_and_success_starts_over() -> None:
    clock, fails = FakeClock(), True

    async def work(key: str) -> None:
        if fails:
            raise RuntimeError

    async with running(work, clock=clock) as queue:
        queue.add("a")
        await settle()
        waits = []
        for _ in range(11):
            waits += clock.delays
            await clock.advance(clock.delays[0])
        assert waits[:4] == [0.2, 0.4, 0.8, 1.6]
        assert waits[-1] == LONGEST_BACKOFF
        fails = False
        await clock.advance(LONGEST_BACKOFF)
        assert clock.delays == []
        fails = True
        queue.add("a")
        await settle()
        assert clock.delays == [0.2]


async def test_a_key_that_failed_runs_at_once_when_something_changed() -> None:
    ran, clock = 0, FakeClock()

    async def work(key: str) -> None:
        nonlocal ran
        ran += 1
        if ran == 1:
            raise RuntimeError

    async with running(work, clock=clock) as queue:
        queue.add("a")
        await settle()
        queue.add("a")
        await settle()
        assert ran == 2
        await clock.advance(100)
    assert ran == 2


async def test_work_that_asks_to_look_again_is_run_again_after_that_time() -> None:
    ran, clock = 0, FakeClock()

    async def work(key: str) -> float | None:
        nonlocal ran
        ran += 1
        return 30.0 if ran == 1 else None

    async with running(work, clock=clock) as queue:
        queue.add("a")
        await settle()
        await clock.advance(29)
        assert ran == 1
        await clock.advance(1)
        assert ran == 2
        assert clock.delays == []


async def test_stopping_lets_running_work_finish_and_takes_nothing_more() -> None:
    done: list[str] = []

    async def work(key: str) -> None:
        await asyncio.sleep(0.01)
        done.append(key)

    queue: WorkQueue[str] = WorkQueue(work, workers=1)
    queue.start()
    queue.add("a")
    await settle()
    stopping = asyncio.create_task(queue.stop(grace=1))
    await asyncio.sleep(0)
    queue.add("b")
    await stopping
    assert done == ["a"]
    assert len(queue) == 0


async def test_stopping_does_not_wait_for_ever_for_work_that_hangs() -> None:
    async def work(key: str) -> None:
        await asyncio.Event().wait()

    queue: WorkQueue[str] = WorkQueue(work, workers=1)
    queue.start()
    queue.add("a")
    await settle()
    await asyncio.wait_for(queue.stop(grace=0.01), 1)


async def test_news_that_come_together_are_looked_at_once_a_moment_later() -> None:
    ran: list[str] = []
    clock = FakeClock()
    async with running(noting(ran), clock=clock) as queue:
        queue.add_debounced("a")
        await clock.advance(0.06)
        queue.add_debounced("a")
        await settle()
        assert ran == []
        await clock.advance(0.04)
        assert ran == ["a"], "later news must not put the look off"
        await clock.advance(1.0)
    assert ran == ["a"]


async def test_what_runs_at_once_needs_no_look_a_moment_later() -> None:
    ran: list[str] = []
    clock = FakeClock()
    async with running(noting(ran), clock=clock) as queue:
        queue.add_debounced("a")
        queue.add("a")
        await settle()
        assert ran == ["a"]
        await clock.advance(1.0)
    assert ran == ["a"]


async def test_news_that_come_while_a_key_runs_are_looked_at_after_that() -> None:
    gate, ran = asyncio.Event(), 0

    async def work(key: str) -> None:
        nonlocal ran
        ran += 1
        await gate.wait()

    clock = FakeClock()
    async with running(work, clock=clock) as queue:
        queue.add("a")
        await settle()
        queue.add_debounced("a")
        gate.set()
        await settle()
        assert ran == 1
        await clock.advance(0.1)
        assert ran == 2


async def test_looks_that_are_due_in_a_moment_end_with_the_queue() -> None:
    async def work(key: str) -> None: ...

    clock = FakeClock()
    async with running(work, clock=clock) as queue:
        queue.add_debounced("a")
    assert clock.delays == []
