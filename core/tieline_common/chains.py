"""Work on many items at the same time, of which some must follow each other."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


async def in_chains(
    items: Sequence[T],
    work: Callable[[T], Awaitable[R]],
    *,
    chain: Callable[[T], str | None],
    at_once: int,
) -> list[R]:
    """The results of ``work`` in the order of ``items``. Items of the same chain follow each other; None is no chain.

    Raises what ``work`` raises first; the rest is cancelled then.
    """
    chains: dict[str, list[int]] = {}
    alone: list[list[int]] = []
    for number, item in enumerate(items):
        if (name := chain(item)) is None:
            alone.append([number])
        else:
            chains.setdefault(name, []).append(number)
    waiting = iter([*chains.values(), *alone])
    results: dict[int, R] = {}

    async def worker() -> None:
        for numbers in waiting:
            for number in numbers:
                results[number] = await work(items[number])

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(at_once, len(items))):
                group.create_task(worker())
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [results[number] for number in range(len(items))]
