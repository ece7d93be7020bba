"""Memory that was freed goes back to the kernel."""

from __future__ import annotations

import asyncio
import gc
import platform
from pathlib import Path

import pytest

from tests.harness.session.waiting import until
from tieline_core import process_memory

BLOCK = 100 * 1024
BLOCKS = 600


def resident() -> int:
    """Bytes of memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def full_of_holes() -> list[bytes]:
    """A twentieth of many blocks: what lies between them is free, and not at the end of the heap."""
    blocks = [bytes([number % 256]) * BLOCK for number in range(BLOCKS)]
    return blocks[::20]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have their own ways")
def test_holes_between_what_stays_are_returned() -> None:
    stays = full_of_holes()
    before = resident()
    process_memory.trim_heap()
    assert before - resident() > BLOCKS * BLOCK // 2
    assert len(stays) == BLOCKS // 20


async def test_it_goes_on_by_itself_as_long_as_the_process_works(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr(process_memory, "_EVERY", 0.01)
    monkeypatch.setattr(process_memory, "trim_heap", lambda: calls.append(1))
    async with process_memory.periodic_heap_trim():
        await until(lambda: len(calls) >= 3)
    await asyncio.sleep(0.05)
    done = len(calls)
    await asyncio.sleep(0.1)
    assert len(calls) == done


def test_what_is_settled_is_not_looked_at_again() -> None:
    before = gc.get_freeze_count()
    try:
        process_memory.freeze_gc()
        assert gc.get_freeze_count() > before
        assert not gc.get_objects(generation=2)
    finally:
        gc.unfreeze()
