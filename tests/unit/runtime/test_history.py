"""How the run history is written: in few messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from tests.harness.session.waiting import until
from tieline.events import history
from tieline.events.history import HistoryWriter
from tieline.events.queue import MessageTooLargeError
from tieline_protocol import run_records
from tieline_protocol.run_records import RunRecord, RunStatus, StepRecord

pytestmark = pytest.mark.fast


def record(run: str, status: RunStatus, attempt: int = 1) -> RunRecord:
    return RunRecord(id=run, kind="event", task="t", status=status, attempt=attempt, queued_at=1, at=2)


class Written:
    """Messages, as the ids, states and attempts of their records."""

    def __init__(self) -> None:
        self.messages: list[list[tuple[str, str, int]]] = []
        self.writer = HistoryWriter(self._write)

    async def _write(self, content: bytes) -> None:
        records = run_records.decode(content)
        self.messages.append([(one.id, one.status, one.attempt) for one in records])


@pytest.fixture
async def written() -> AsyncIterator[Written]:
    async with running() as found:
        yield found


@asynccontextmanager
async def running() -> AsyncIterator[Written]:
    found = Written()
    task = asyncio.ensure_future(found.writer.run())
    try:
        yield found
    finally:
        task.cancel()


async def test_what_ends_in_the_same_message_takes_the_place_of_what_was_under_way(written: Written) -> None:
    written.writer.add(record("a", "queued", 0))
    written.writer.add(record("b", "queued", 0))
    written.writer.add(record("a", "running"))
    await written.writer.write(record("a", "succeeded"))
    assert written.messages == [[("a", "succeeded", 1), ("b", "queued", 0)]]


async def test_attempts_that_ended_are_kept(written: Written) -> None:
    written.writer.add(record("a", "running"))
    written.writer.add(record("a", "waiting"))
    written.writer.add(record("a", "running", 2))
    await written.writer.write(record("a", "dead", 2))
    assert written.messages == [[("a", "waiting", 1), ("a", "dead", 2)]]


async def test_an_older_record_does_not_take_the_place_of_a_newer_one(written: Written) -> None:
    written.writer.add(record("a", "running", 2))
    await written.writer.write(record("a", "queued", 0))
    assert written.messages == [[("a", "running", 2), ("a", "queued", 0)]]


async def test_what_nobody_waits_for_is_written_a_moment_later(written: Written) -> None:
    written.writer.add(record("a", "queued", 0))
    await asyncio.sleep(0)
    written.writer.add(record("a", "running"))
    await until(lambda: written.messages)
    assert written.messages == [[("a", "running", 1)]]
    written.writer.add(record("b", "running"))
    await until(lambda: len(written.messages) == 2)


async def test_messages_follow_each_other_at_a_distance(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "_DISTANCE", 0.1)
    monkeypatch.setattr(history, "_LONGEST_DISTANCE", 0.2)
    began = asyncio.get_running_loop().time()
    await written.writer.write(record("first", "succeeded"))
    assert len(written.messages) == 1
    await asyncio.gather(*(written.writer.write(record(f"{number}", "succeeded")) for number in range(9)))
    assert asyncio.get_running_loop().time() - began >= 0.1
    await written.writer.write(record("last", "succeeded"))
    assert asyncio.get_running_loop().time() - began >= 0.3
    assert [len(message) for message in written.messages] == [1, 9, 1]


async def test_more_than_one_message_holds_are_written_in_several(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "_MAX_MESSAGE_RECORDS", 2)
    for number in range(5):
        written.writer.add(record(f"{number}", "running"))
    await written.writer.flush(10)
    assert [len(message) for message in written.messages] == [2, 2, 1]


@pytest.mark.parametrize("steps", [1, run_records.MAX_VALUES // 4])
async def test_what_is_too_large_is_written_without_its_details(steps: int) -> None:
    contents: list[bytes] = []

    async def write(content: bytes) -> None:
        if len(content) > 20_000_000 or b"aW5wdXQ=" in content:
            raise MessageTooLargeError("maximum payload exceeded")
        contents.append(content)

    writer = HistoryWriter(write)
    task = asyncio.ensure_future(writer.run())
    step = StepRecord(name="s", occurrence=1, started_at=1, ended_at=2)
    large = replace(record("a", "succeeded"), input=b"input", steps=(step,) * steps)
    async with asyncio.timeout(10):
        await writer.write(large)
        await writer.write(record("b", "succeeded"))
    task.cancel()
    found = [one for content in contents for one in run_records.decode(content)]
    assert [(one.id, one.status, one.input, one.steps) for one in found] == [
        ("a", "succeeded", None, ()),
        ("b", "succeeded", None, ()),
    ]
