"""A message that can never be kept holds nothing up, and what is wrong with the store skips nothing."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.harness.processes import engine_away
from tests.harness.session.waiting import until
from tieline_api.engine import followers
from tieline_api.engine.connection import Engine
from tieline_api.engine.errors import EngineUnavailableError
from tieline_api.engine.followers import Follower, Followers
from tieline_api.engine.stream_reader import StreamBatch, StreamState
from tieline_api.sqlite_files import TooSlowError
from tieline_core.engine.stored_messages import StoredMessage

ORGANISATION = "acme"
SECRET = "s3cr3t"


class Store:
    """Keeps messages in a list; ``refuse`` says what is wrong with some."""

    name = "runs"

    def __init__(self, refuse: Callable[[Sequence[StoredMessage]], Exception | None]) -> None:
        self._refuse = refuse
        self.kept: list[int] = []
        self.skipped: list[int] = []
        self.calls = 0
        self.failures = 0

    def begin(self, organisation: str, created: str) -> int:
        return max([0, *self.kept, *self.skipped])

    def take(self, organisation: str, messages: Sequence[StoredMessage]) -> None:
        self.calls += 1
        if error := self._refuse(messages):
            raise error
        self.kept += [one.sequence for one in messages]

    def skip(self, organisation: str, message: StoredMessage) -> None:
        self.skipped.append(message.sequence)

    def failed(self) -> None:
        self.failures += 1

    def forget(self, organisation: str) -> None: ...

    def sweep(self, organisation: str, first: int) -> None: ...

    def bound(self) -> None: ...

    def close(self) -> None: ...


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Callable[[Store], Any]:
    """Reads a stream of 100 messages into a store."""
    messages = [StoredMessage(number, "history.a.b", {}, SECRET.encode()) for number in range(1, 101)]

    async def state(_engine: Engine, _stream: str) -> StreamState:
        return StreamState("then", 1, 100)

    async def batches(_engine: Engine, _stream: str, *, after: int) -> AsyncIterator[StreamBatch]:
        yield StreamBatch(messages[after:], 0)
        await asyncio.Event().wait()

    monkeypatch.setattr(followers, "stream_state", state)
    monkeypatch.setattr(followers, "read_stream", batches)
    monkeypatch.setattr(followers, "_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(followers, "_TRY_SECONDS", 0.001)

    async def run(store: Store) -> None:
        follower = Follower(Engine((engine_away.URL,), Path("none")), store, ORGANISATION, "history_acme")
        task = asyncio.create_task(follower.run())
        try:
            async with asyncio.timeout(5):
                await follower.caught_up.wait()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    return run


@pytest.mark.parametrize(
    "error",
    [
        ValueError(SECRET),
        OverflowError(SECRET),
        RecursionError(SECRET),
        sqlite3.DataError(SECRET),
        sqlite3.IntegrityError(SECRET),
        sqlite3.ProgrammingError(SECRET),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_messages_that_can_never_be_kept_are_skipped_alone(
    read: Callable[[Store], Any], error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    bad = {1, 37, 100}
    store = Store(lambda messages: error if bad & {one.sequence for one in messages} else None)
    await read(store)
    assert (set(store.skipped), store.kept) == (bad, [n for n in range(1, 101) if n not in bad])
    assert (store.failures, store.calls < 60) == (0, True)
    (line,) = caplog.messages
    assert "Message 1 of stream history_acme" in line
    assert SECRET not in caplog.text


@pytest.mark.parametrize(
    "error",
    [
        sqlite3.OperationalError("database is locked"),
        sqlite3.OperationalError("database or disk is full"),
        sqlite3.DatabaseError("database disk image is malformed"),
        OSError(28, "No space left on device"),
        TooSlowError("slow"),
        EngineUnavailableError(),
    ],
    ids=str,
)
async def test_what_may_pass_is_tried_until_it_has_passed_and_skips_nothing(
    read: Callable[[Store], Any], error: Exception
) -> None:
    left = [error] * 5
    store = Store(lambda _: left.pop() if left else None)
    await read(store)
    assert (store.skipped, store.kept) == ([], list(range(1, 101)))


async def test_a_message_that_is_kept_at_the_second_try_is_not_skipped(read: Callable[[Store], Any]) -> None:
    left = [ValueError("once")]

    def refuse(messages: Sequence[StoredMessage]) -> Exception | None:
        return (
            left.pop() if left and len(messages) == 1 else ValueError("many") if len(messages) > 1 else None
        )

    store = Store(refuse)
    await read(store)
    assert (store.skipped, store.kept) == ([], list(range(1, 101)))


async def test_a_reader_that_does_not_advance_is_counted_and_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tries = 0

    async def state(_engine: Engine, _stream: str) -> StreamState:
        return StreamState("then", 1, 100)

    async def batches(_engine: Engine, _stream: str, *, after: int) -> AsyncIterator[StreamBatch]:
        nonlocal tries
        tries += 1
        yield StreamBatch([], 0 if tries > 2 * followers._STALLED_ATTEMPTS else 100)
        if tries <= 2 * followers._STALLED_ATTEMPTS:
            raise EngineUnavailableError
        await asyncio.Event().wait()

    monkeypatch.setattr(followers, "stream_state", state)
    monkeypatch.setattr(followers, "read_stream", batches)
    monkeypatch.setattr(followers, "_RETRY_SECONDS", 0.001)
    monkeypatch.setattr(followers, "_LONGEST_PAUSE", 0.001)
    monkeypatch.setattr(Engine, "connected", True)
    follower = Follower(
        Engine((engine_away.URL,), Path("none")), Store(lambda _: None), ORGANISATION, "history_acme"
    )
    task = asyncio.create_task(follower.run())
    try:
        async with asyncio.timeout(5):
            await until(lambda: follower.stalled)
            await follower.caught_up.wait()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert not follower.stalled
    (line,) = caplog.messages
    assert "history_acme cannot be read beyond message 0" in line


@pytest.fixture
def discovering(monkeypatch: pytest.MonkeyPatch) -> Callable[[Store, set[str], list[str]], Followers]:
    """Followers of streams that are found by name; those of ``away`` do not answer when they are swept."""

    async def follow(_follower: Follower) -> None:
        await asyncio.Event().wait()

    def make(store: Store, away: set[str], found: list[str]) -> Followers:
        async def state(_engine: Engine, stream: str) -> StreamState:
            if stream in away:
                raise EngineUnavailableError
            return StreamState("then", 1, 100)

        async def names(_engine: Engine, _subject: str) -> list[str]:
            return found

        monkeypatch.setattr(followers, "stream_state", state)
        monkeypatch.setattr(Engine, "stream_names", names)
        return Followers(
            Engine((engine_away.URL,), Path("none")), store, prefix="history", serves=lambda _: True
        )

    monkeypatch.setattr(Follower, "run", follow)
    monkeypatch.setattr(followers, "_RETRY_SECONDS", 0.001)
    monkeypatch.setattr(followers, "_DISCOVER_SECONDS", 0.001)
    return make


class SweptStore(Store):
    """Notes what is swept; ``error`` is raised for the first organisation."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__(lambda _: None)
        self.error = error
        self.swept: set[str] = set()
        self.bounds = 0

    def sweep(self, organisation: str, first: int) -> None:
        if organisation == "a" and self.error is not None:
            raise self.error
        self.swept.add(organisation)

    def bound(self) -> None:
        self.bounds += 1


async def test_a_stream_that_does_not_answer_leaves_the_others_swept(
    discovering: Callable[[Store, set[str], list[str]], Followers],
) -> None:
    """Otherwise the files of all organisations grow beyond their bound."""
    store = SweptStore()
    found = discovering(store, {"history_a"}, ["history_a", "history_b"])
    await found.start()
    try:
        async with asyncio.timeout(2):
            await until(lambda: store.swept == {"b"} and store.bounds > 0)
    finally:
        await found.stop()


@pytest.mark.parametrize("error", [TooSlowError("slow"), ValueError("odd")], ids=str)
async def test_new_streams_are_followed_after_whatever_goes_wrong(
    discovering: Callable[[Store, set[str], list[str]], Followers], error: Exception
) -> None:
    store, names = SweptStore(error), ["history_a"]
    found = discovering(store, set(), names)
    await found.start()
    try:
        async with asyncio.timeout(2):
            await until(lambda: found.organisations == 1)
            await asyncio.sleep(0.05)
            names.append("history_b")
            await until(lambda: found.organisations == 2)
    finally:
        await found.stop()
