"""Which import runs next: nobody's imports keep another organisation's waiting for long."""

import asyncio
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import pytest

from tieline_core.connectors.descriptions.findings import DescriptionTooLarge
from tieline_core.connectors.import_process import MIB, Importer, ImportLimits
from tieline_core.connectors.import_queue import ImportQueue, ImportQueueFull, QueueLimits
from tieline_core.connectors.packing import Map, head_of

SMALL, LARGE = 10, 60
LIMITS = QueueLimits(
    memory=100, at_once=4, at_once_of_one=2, waiting=8, waiting_of_one=3, small=SMALL, reserve=20
)


class Jobs:
    """Imports that last until they are told to end."""

    def __init__(self, limits: QueueLimits = LIMITS) -> None:
        self.queue = ImportQueue(limits)
        self.running: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def start(self, name: str, memory: int = SMALL) -> None:
        self._ends[name] = asyncio.Event()
        self._tasks[name] = asyncio.create_task(self._run(name, memory))
        await self.settle()

    async def end(self, name: str) -> None:
        self._ends[name].set()
        await self._tasks.pop(name)
        await self.settle()

    async def cancel(self, name: str) -> None:
        task = self._tasks.pop(name)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await self.settle()

    def outcome(self, name: str) -> BaseException | None:
        return self._tasks.pop(name).exception()

    async def settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    async def close(self) -> None:
        for name in list(self._tasks):
            await self.cancel(name)

    async def _run(self, name: str, memory: int) -> None:
        async with self.queue.slot(name[0], memory):
            self.running.append(name)
            try:
                await self._ends[name].wait()
            finally:
                self.running.remove(name)


@pytest.fixture
async def jobs() -> AsyncIterator[Jobs]:
    made = Jobs()
    yield made
    await made.close()


async def test_imports_that_are_cancelled_together_do_not_disturb_the_others(jobs: Jobs) -> None:
    for name in ("a1", "a2", "a3", "a4"):
        await jobs.start(name)
    assert jobs.running == ["a1", "a2"]
    first, third = jobs._tasks["a1"], jobs._tasks["a3"]
    first.cancel()
    third.cancel()
    # The one that runs leaves before the one that waits has noticed.
    ended = await asyncio.gather(first, third, return_exceptions=True)
    assert [type(one) for one in ended] == [asyncio.CancelledError] * 2
    del jobs._tasks["a1"], jobs._tasks["a3"]
    await jobs.settle()
    assert jobs.running == ["a2", "a4"]


async def test_one_owner_leaves_places_to_others(jobs: Jobs) -> None:
    for name in ("a1", "a2", "a3", "b1"):
        await jobs.start(name)
    assert jobs.running == ["a1", "a2", "b1"]
    await jobs.end("a1")
    assert jobs.running == ["a2", "b1", "a3"]


async def test_owners_take_turns(jobs: Jobs) -> None:
    for name in ("a1", "a2", "b1", "b2", "c1", "c2", "d1"):
        await jobs.start(name)
    assert jobs.running == ["a1", "a2", "b1", "b2"]
    await jobs.end("a1")
    await jobs.end("a2")
    assert jobs.running == ["b1", "b2", "c1", "d1"]


async def test_a_large_import_leaves_memory_to_small_ones_and_waits_for_another_large_one(jobs: Jobs) -> None:
    await jobs.start("a1", LARGE)
    await jobs.start("b1", LARGE)
    await jobs.start("c1")
    assert jobs.running == ["a1", "c1"]
    await jobs.end("a1")
    assert jobs.running == ["c1", "b1"]


async def test_small_imports_do_not_keep_a_large_one_waiting_for_ever(jobs: Jobs) -> None:
    await jobs.start("a1", LARGE)
    await jobs.start("b1", 80)
    for name in ("c1", "c2", "d1"):
        await jobs.start(name)
    # Small ones have the reserve alone now.
    assert jobs.running == ["a1", "c1", "c2"]
    await jobs.end("a1")
    assert jobs.running == ["c1", "c2", "b1"]


async def test_an_import_that_needs_all_memory_runs_alone_and_is_not_overtaken() -> None:
    jobs = Jobs(
        QueueLimits(
            memory=100, at_once=4, at_once_of_one=2, waiting=8, waiting_of_one=3, small=SMALL, reserve=0
        )
    )
    await jobs.start("a1")
    await jobs.start("b1", 500)
    await jobs.start("c1")
    assert jobs.running == ["a1"]
    await jobs.end("a1")
    assert jobs.running == ["b1"]
    await jobs.end("b1")
    assert jobs.running == ["c1"]
    await jobs.close()


async def test_only_so_many_of_one_owner_wait_and_others_still_may(jobs: Jobs) -> None:
    for number in range(6):
        await jobs.start(f"a{number}")
    assert isinstance(jobs.outcome("a5"), ImportQueueFull)
    await jobs.start("b1")
    assert "b1" in jobs.running


async def test_who_gives_up_waiting_leaves_the_line(jobs: Jobs) -> None:
    for name in ("a1", "a2", "a3", "a4"):
        await jobs.start(name)
    await jobs.cancel("a3")
    await jobs.end("a1")
    assert jobs.running == ["a2", "a4"]


GOOD = orjson.dumps({"openapi": "3.0.0", "info": {"title": "Good", "version": "1"}, "paths": {}})


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An interpreter that works for ever on what begins with "endless", within the limits of the real child."""
    program = tmp_path / "child.py"
    program.write_text(
        "import os, sys\n"
        "from tieline_core.connectors import child\n"
        "if os.pread(0, 7, 0) == b'endless':\n"
        "    child.limit(memory=int(sys.argv[-3]), cpu=int(sys.argv[-2]))\n"
        "    while True: pass\n"
        "sys.argv = sys.argv[-4:]\n"
        "child.main()\n"
    )
    interpreter = tmp_path / "python"
    interpreter.write_text(f'#!/bin/sh\nexec {sys.executable} {program} "$@"\n')
    interpreter.chmod(0o755)
    monkeypatch.setattr("sys.executable", os.fspath(interpreter))


async def run(importer: Importer, data: bytes, owner: str) -> list[Map]:
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        return await importer.run(file, owner=owner)


@pytest.mark.usefixtures("endless")
async def test_files_that_never_end_do_not_keep_another_organisations_waiting() -> None:
    importer = Importer(ImportLimits(memory=1216 * MIB, cpu_seconds=3))
    bad = [asyncio.create_task(run(importer, b"endless", "bad")) for _ in range(6)]
    await asyncio.sleep(0.3)
    began = time.perf_counter()
    maps = await run(importer, GOOD, "good")
    print(f"another organisation's import took {time.perf_counter() - began:.2f} s")
    assert head_of(maps[0])["title"] == "Good"
    assert not any(task.done() for task in bad)
    for task in bad[1:]:
        task.cancel()
    with pytest.raises(DescriptionTooLarge, match="3 s of processor time"):
        await bad[0]
    await asyncio.gather(*bad[1:], return_exceptions=True)
