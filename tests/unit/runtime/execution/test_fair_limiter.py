"""Fair turns: nobody waits behind another activation's queue."""

import asyncio
from collections import Counter

import pytest

from tieline.execution.fair_limiter import FairLimiter, NoSlotError


async def queued(turns: FairLimiter, key: str, order: list[str], count: int) -> list["asyncio.Task[None]"]:
    async def one() -> None:
        await turns.wait(key)
        order.append(key)

    tasks = [asyncio.create_task(one()) for _ in range(count)]
    await asyncio.sleep(0)
    return tasks


async def serve_all(turns: FairLimiter, order: list[str], tasks: list["asyncio.Task[None]"]) -> None:
    """Each run that got its turn ends; then the next one gets it."""
    ended = 0
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0)
        for key in order[ended:]:
            ended += 1
            turns.release(key)


async def test_one_with_a_thousand_waiting_runs_holds_nobody_up() -> None:
    turns, order = FairLimiter(most=4, queue_per_key=1000, queue=2000), list[str]()
    greedy = await queued(turns, "greedy", order, 1000)
    others = [task for name in ("ann", "ben", "cat") for task in await queued(turns, name, order, 2)]
    await serve_all(turns, order, [*greedy, *others])
    places = {name: order.index(name) for name in ("ann", "ben", "cat")}
    assert all(place < 12 for place in places.values()), places
    last = max(index for index, name in enumerate(order) if name != "greedy")
    assert last < 16
    assert Counter(order)["greedy"] == 1000
    assert turns.waiting == 0


async def test_two_that_both_want_much_get_the_same() -> None:
    turns, order = FairLimiter(most=1, queue_per_key=500, queue=2000), list[str]()
    tasks = await queued(turns, "first", order, 300) + await queued(turns, "second", order, 300)
    await serve_all(turns, order, tasks)
    assert abs(Counter(order[:300])["first"] - 150) <= 1


async def test_one_never_holds_all_turns() -> None:
    turns = FairLimiter(most=10, queue_per_key=5)
    assert [turns.take("long") for _ in range(10)] == [True] * 9 + [False]
    waiting = asyncio.create_task(turns.wait("long"))
    await asyncio.sleep(0)
    assert turns.take("other"), "the last one is there for somebody else"
    turns.release("other")
    await asyncio.sleep(0)
    assert not waiting.done()
    turns.release("long")
    await waiting


async def test_what_does_not_fit_into_the_queues_is_refused_at_once() -> None:
    turns = FairLimiter(most=1, queue_per_key=2, queue=3)
    assert turns.take("a")
    waiting = [asyncio.create_task(turns.wait(key)) for key in ("a", "a", "b")]
    await asyncio.sleep(0)
    for key in ("a", "b", "c"):
        with pytest.raises(NoSlotError):
            await turns.wait(key)
    turns.release("a")
    await waiting[0]
    for task in waiting[1:]:
        task.cancel()
    await asyncio.gather(*waiting[1:], return_exceptions=True)
    assert (turns.active, turns.waiting) == (1, 0)


async def test_patience_ends_and_leaves_no_trace() -> None:
    turns = FairLimiter(most=1, queue_per_key=2, wait_timeout=0.01)
    assert turns.take("a")
    with pytest.raises(NoSlotError):
        await turns.wait("b")
    assert (turns.active, turns.waiting) == (1, 0)
    turns.release("a")
    assert turns.take("b")


async def test_a_turn_that_was_given_to_one_who_leaves_is_given_on() -> None:
    turns = FairLimiter(most=1, queue_per_key=5)
    assert turns.take("a")
    leaving, staying = asyncio.create_task(turns.wait("b")), asyncio.create_task(turns.wait("c"))
    await asyncio.sleep(0)
    turns.release("a")
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    await asyncio.wait_for(staying, 1)
    assert turns.active == 1


async def test_what_must_not_be_refused_waits_beyond_the_bounds() -> None:
    turns = FairLimiter(most=1, queue_per_key=0, wait_timeout=0.001)
    assert turns.take("a")
    waiting = asyncio.create_task(turns.wait("a", bounded=False))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    turns.release("a")
    await waiting
