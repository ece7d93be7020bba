"""A pod says what its runs wait for, and runs events whatever becomes of that."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import pytest

from tieline.events.memory import MemoryQueue
from tieline.events.queue import EventsUnavailableError
from tieline.server.code_loader import Tasks
from tieline.server.event_server import EventServer
from tieline_protocol.waits import WaitRule

pytestmark = pytest.mark.fast

TASKS = Tasks(waits={"paid": (WaitRule(name="paid"),)})


def server(monkeypatch: pytest.MonkeyPatch, errors: list[Exception]) -> tuple[EventServer, list[float]]:
    """One whose engine fails so often, and for how long it pauses."""
    queue = MemoryQueue()
    pauses: list[float] = []

    async def declare(rules: Collection[WaitRule]) -> None:
        if errors:
            raise errors.pop(0)

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if not errors:
            raise asyncio.CancelledError

    monkeypatch.setattr(queue.waits, "declare", declare)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    return EventServer(TASKS, queue), pauses


async def test_a_full_engine_is_asked_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    events, pauses = server(monkeypatch, [EventsUnavailableError("full") for _ in range(20)])
    with pytest.raises(asyncio.CancelledError):
        await events._declare()
    assert pauses[0] <= 3
    assert all(30 <= pause <= 90 for pause in pauses[6:20])


async def test_events_are_run_when_declaring_fails_in_any_way(monkeypatch: pytest.MonkeyPatch) -> None:
    events, _ = server(monkeypatch, [ValueError("no number")])
    with pytest.raises(ValueError, match="no number"):
        await events._declare()
    assert events._declared.is_set()
