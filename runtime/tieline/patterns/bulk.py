"""One thing for many items, where some may fail: the others are done, and a retry does only what failed."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from tieline.errors import TielineError, reason

T = TypeVar("T")

_SHOWN = 3
Step = Callable[[str, Callable[[], Awaitable[Any]]], Awaitable[Any]]
"""Does work that is recorded under a name, or directly where nothing is recorded."""


class BulkError(TielineError):
    """Some items failed; the message names the first of them.

    >>> async def send(order: dict[str, str]) -> None:
    ...     raise ValueError("no lines")
    >>> async def orders(ctx: Context) -> str:
    ...     result = await ctx.bulk("send", [{"id": "A-1"}], send, key=lambda order: order["id"])
    ...     try:
    ...         result.raise_for_failures()
    ...     except BulkError as error:
    ...         return str(error)
    >>> run(orders)
    '1 of 1 failed: A-1: no lines'
    """

    def __init__(self, total: int, failures: Mapping[str, Exception]) -> None:
        shown = [f"{key}: {reason(error)}" for key, error in list(failures.items())[:_SHOWN]]
        more = f", and {len(failures) - _SHOWN} more" if len(failures) > _SHOWN else ""
        super().__init__(f"{len(failures)} of {total} failed: {', '.join(shown)}{more}")
        self.failures = failures
        """The errors by the keys of their items."""


@dataclass(frozen=True)
class BulkResult(Generic[T]):
    """What came of each item, by its key.

    >>> async def send(order: dict[str, str]) -> str:
    ...     return order["id"].lower()
    >>> async def orders(ctx: Context) -> dict[str, str]:
    ...     orders = [{"id": "A-1"}, {"id": "A-2"}]
    ...     result = await ctx.bulk("send", orders, send, key=lambda order: order["id"])
    ...     return result.results
    >>> run(orders)
    {'A-1': 'a-1', 'A-2': 'a-2'}
    """

    results: dict[str, T] = field(default_factory=dict)
    """What the work returned."""
    failures: dict[str, Exception] = field(default_factory=dict)
    """What the work raised."""

    def raise_for_failures(self) -> None:
        """Raises BulkError if an item failed, so that the run is tried again; items that are done are not repeated."""
        if self.failures:
            raise BulkError(len(self.results) + len(self.failures), self.failures)


async def bulk(
    name: str,
    items: Iterable[Any],
    work: Callable[[Any], Awaitable[T]],
    *,
    key: Callable[[Any], object],
    step: Step,
    concurrency: int,
) -> BulkResult[T]:
    """See ``Context.bulk``."""
    if concurrency < 1:
        raise ValueError("concurrency must be 1 or more")
    keyed: dict[str, Any] = {}
    for item in items:
        identity = str(key(item))
        if identity in keyed:
            raise ValueError(f"Two items of {name!r} have the key {identity!r}: keys must be unique")
        keyed[identity] = item
    result: BulkResult[T] = BulkResult()
    gate = asyncio.Semaphore(concurrency)

    async def one(identity: str, item: Any) -> None:
        async with gate:
            try:
                result.results[identity] = await step(f"{name}/{identity}", lambda: work(item))
            except Exception as error:
                result.failures[identity] = error

    # A run that is stopped, or sleeps, stops all of its items.
    tasks = [asyncio.create_task(one(*pair)) for pair in keyed.items()]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return BulkResult(
        {identity: result.results[identity] for identity in keyed if identity in result.results},
        {identity: result.failures[identity] for identity in keyed if identity in result.failures},
    )
