"""Pages of audit records: newest first, each once, and a bounded part of the stream at a time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tieline_api.audit import reading
from tieline_api.audit.reading import AuditPage, read_newest
from tieline_core.engine.stored_messages import StoredMessage

FIRST = 1000
"""Number of the oldest message."""


class Stream:
    """A stream with ``messages``, which answers with at most seven of them at a time."""

    def __init__(self, messages: int, *, broken: int = -1) -> None:
        self.numbers = range(FIRST, FIRST + messages)
        self.broken = broken
        self.read = 0

    async def stream_info(self, _stream: str) -> Mapping[str, Any] | None:
        state = {"first_seq": FIRST, "last_seq": FIRST + len(self.numbers) - 1}
        return {"created": "", "state": state}

    async def page(self, _stream: str, _subject: str, start: int, size: int) -> list[StoredMessage]:
        found = [number for number in self.numbers if number >= start][: min(size, 7)]
        self.read += len(found)
        return [StoredMessage(one, "", {}, b"{" if one == self.broken else _content(one)) for one in found]


def _content(number: int) -> bytes:
    return json.dumps({"number": number}).encode()


async def read(stream: Stream, *, before: int | None = None, first: int = 10, every: int = 1) -> AuditPage:
    return await read_newest(
        stream,  # type: ignore[arg-type]
        "O",
        before=before,
        first=first,
        select=lambda number, record: (number, record) if record["number"] % every == 0 else None,
    )


@pytest.mark.parametrize("messages", [0, 1, 9, 10, 11, 95])
@pytest.mark.parametrize("every", [1, 13])
async def test_pages_have_each_record_once_newest_first(
    messages: int, every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_BATCH", 20)
    monkeypatch.setattr(reading, "MOST_READ", 30)
    stream, found, before = Stream(messages), list[int](), None
    while True:
        page = await read(stream, before=before, every=every)
        found += [number for number, _ in page.found]
        if page.next is None:
            break
        assert before is None or page.next < before
        before = page.next
    assert found == [number for number in reversed(stream.numbers) if number % every == 0]


async def test_a_page_looks_through_a_bounded_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_BATCH", 20)
    monkeypatch.setattr(reading, "MOST_READ", 40)
    stream = Stream(500)
    page = await read(stream, every=10**9)
    assert (page.found, page.next) == ([], FIRST + 460)
    assert stream.read < 60


async def test_a_message_that_is_no_record_is_left_out() -> None:
    page = await read(Stream(3, broken=FIRST + 1))
    assert [number for number, _ in page.found] == [FIRST + 2, FIRST]


@pytest.mark.parametrize("before", [-5, 0, 10**30])
async def test_a_made_up_number_reads_nothing_else(before: int) -> None:
    page = await read(Stream(3), before=before)
    assert len(page.found) == (3 if before > 0 else 0)
    assert page.next is None
