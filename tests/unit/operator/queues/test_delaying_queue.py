"""Work that is due at a time of its own: once, at its time, few at once, and no lane holds up another."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable

from tieline_operator.queues.delaying_queue import DelayingQueue


class Handle:
    def __init__(self) -> None:
        self.off = False

    def cancel(self) -> None:
        self.off = True


class HandClock:
    """Time that moves when the test says so."""

    def __init__(self) -> None:
        self.now = 0.0
        self.armed: list[tuple[float, int, Handle, Callable[[], None]]] = []
        self.calls = 0

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Handle:
        handle = Handle()
        self.calls += 1
        heapq.heappush(self.armed, (self.now + seconds, self.calls, handle, callback))
        return handle

    async def pass_by(self, seconds: float) -> None:
        until = self.now + seconds
        while self.armed and self.armed[0][0] <= until:
            due, _, handle, callback = heapq.heappop(self.armed)
            self.now = max(self.now, due)
            if not handle.off:
                callback()
            await settled()
        self.now = until
        await settled()


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


class Working:
    """Notes what runs; keys of the lane "slow" wait until they are let go."""

    def __init__(self, *, again: float | None = None, at_once: int = 4, per_group: int = 2) -> None:
        self.clock = HandClock()
        self.began: list[tuple[float, str]] = []
        self.go = asyncio.Event()
        self.again = again
        self.queue: DelayingQueue[str] = DelayingQueue(
            self.work,
            group=lambda key: key.split("/")[0],
            at_once=at_once,
            per_group=per_group,
            clock=self.clock,
        )

    async def work(self, key: str) -> float | None:
        self.began.append((self.clock.now, key))
        if key.startswith("slow"):
            await self.go.wait()
        if key.startswith("broken"):
            raise RuntimeError("a fault")
        return self.again

    @property
    def keys(self) -> list[str]:
        return [key for _, key in self.began]


async def test_each_key_runs_at_its_time() -> None:
    there = Working()
    there.queue.add_after("a/late", 20)
    there.queue.add_after("a/soon", 5)
    there.queue.start()
    await there.clock.pass_by(4.9)
    assert there.began == []
    await there.clock.pass_by(100)
    assert there.began == [(5, "a/soon"), (20, "a/late")]
    assert len(there.queue) == 0


async def test_what_is_put_again_replaces_what_was_said_before() -> None:
    there = Working()
    there.queue.start()
    there.queue.add_after("a/one", 10)
    there.queue.add_after("a/one", 30)
    await there.clock.pass_by(29)
    assert there.began == []
    there.queue.add_after("a/one", 0)
    await there.clock.pass_by(60)
    assert there.began == [(29, "a/one")]


async def test_a_key_comes_back_when_its_work_says() -> None:
    there = Working(again=60)
    there.queue.start()
    there.queue.add_after("a/one", 0)
    await there.clock.pass_by(125)
    assert there.began == [(0, "a/one"), (60, "a/one"), (120, "a/one")]


async def test_a_slow_lane_holds_up_no_other() -> None:
    there = Working()
    there.queue.start()
    for number in range(5):
        there.queue.add_after(f"slow/{number}", 0)
    there.queue.add_after("quick/one", 0)
    await there.clock.pass_by(1)
    assert sorted(there.keys) == ["quick/one", "slow/0", "slow/1"]
    assert there.queue.late == 3
    there.go.set()
    await settled()
    assert len(there.keys) == 6
    assert there.queue.idle


async def test_no_more_run_at_once_than_allowed() -> None:
    there = Working(at_once=3)
    there.queue.start()
    for number in range(9):
        there.queue.add_after(f"slow{number}/x", 0)
    await there.clock.pass_by(1)
    assert len(there.keys) == 3
    there.go.set()
    await settled()
    assert len(there.keys) == 9


async def test_a_key_never_runs_twice_at_a_time() -> None:
    there = Working()
    there.queue.start()
    there.queue.add_after("slow/one", 0)
    await there.clock.pass_by(1)
    there.queue.add_after("slow/one", 0)
    await there.clock.pass_by(1)
    assert there.keys == ["slow/one"]
    there.go.set()
    await settled()
    await there.clock.pass_by(1)
    assert there.keys == ["slow/one", "slow/one"]


async def test_a_paused_lane_rests_and_goes_on() -> None:
    there = Working(per_group=1)
    there.queue.start()
    there.queue.add_after("slow/one", 0)
    there.queue.add_after("slow/two", 0)
    await there.clock.pass_by(1)
    there.queue.pause("slow", 30)
    there.go.set()
    await settled()
    assert there.keys == ["slow/one"]
    await there.clock.pass_by(28)
    assert there.keys == ["slow/one"]
    await there.clock.pass_by(2)
    assert there.keys == ["slow/one", "slow/two"]


async def test_what_is_dropped_does_not_run() -> None:
    there = Working(per_group=1)
    there.queue.start()
    there.queue.add_after("a/one", 5)
    there.queue.add_after("slow/one", 0)
    there.queue.add_after("slow/two", 0)
    await there.clock.pass_by(1)
    there.queue.forget("a/one")
    there.queue.forget("slow/two")
    there.go.set()
    await there.clock.pass_by(10)
    assert there.keys == ["slow/one"]


async def test_a_fault_is_tried_again() -> None:
    there = Working()
    there.queue.start()
    there.queue.add_after("broken/one", 0)
    await there.clock.pass_by(61)
    assert there.began == [(0, "broken/one"), (60, "broken/one")]


async def test_ten_thousand_keys_need_one_timer() -> None:
    there = Working(again=3600, at_once=32, per_group=8)
    for number in range(10_000):
        there.queue.add_after(f"host{number % 7}/{number}", 100 + number / 100)
    there.queue.start()
    assert sum(not handle.off for _, _, handle, _ in there.clock.armed) == 1
    await there.clock.pass_by(150)
    assert 4_900 <= len(there.began) <= 5_100
    assert len(there.queue) == 10_000


async def test_stopping_lets_what_runs_finish_and_starts_nothing_more() -> None:
    there = Working(per_group=1)
    there.queue.start()
    there.queue.add_after("slow/one", 0)
    there.queue.add_after("slow/two", 0)
    await there.clock.pass_by(1)
    stopping = asyncio.create_task(there.queue.stop())
    await settled()
    there.go.set()
    await stopping
    assert there.keys == ["slow/one"]
