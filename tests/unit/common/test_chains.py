"""Work side by side, of which some follows other."""

import asyncio

import pytest

from tieline_common.chains import in_chains

pytestmark = pytest.mark.fast


async def test_items_of_a_chain_follow_each_other_and_others_do_not_wait() -> None:
    begun: list[str] = []
    first_of_a = asyncio.Event()

    async def work(item: str) -> str:
        begun.append(item)
        if item == "a1":
            await first_of_a.wait()
        if item == "b1":
            first_of_a.set()
        return item.upper()

    items = ["a1", "a2", "b1", "alone"]
    chain = {"a1": "a", "a2": "a", "b1": "b"}.get
    assert await in_chains(items, work, chain=chain, at_once=2) == ["A1", "A2", "B1", "ALONE"]
    assert begun.index("a2") > begun.index("b1")


async def test_no_more_are_worked_on_than_may_be() -> None:
    under_way, most = 0, 0

    async def work(item: int) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1

    await in_chains(range(50), work, chain=lambda _: None, at_once=7)
    assert most == 7


async def test_an_error_is_raised_as_it_is() -> None:
    async def work(item: int) -> None:
        raise ValueError(str(item))

    with pytest.raises(ValueError, match="0"):
        await in_chains([0], work, chain=lambda _: None, at_once=7)
    assert await in_chains([], work, chain=lambda _: None, at_once=7) == []
