"""Pulling of messages: what the engine answers to a request for some."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from nats.aio.msg import Msg

from tests.harness.session.waiting import until
from tieline.events.engine import pull
from tieline.events.engine.connection import EngineConnection
from tieline.events.engine.pull import Puller

pytestmark = pytest.mark.fast


class _Subscription:
    async def unsubscribe(self) -> None:
        """Nothing comes anyway."""


class _Engine:
    """A connection, and the client of it."""

    is_connected = True

    def __init__(self) -> None:
        self.client = self
        self.connected = asyncio.Event()
        self.connected.set()
        self.asked: list[tuple[str, int]] = []
        self.deliver: Callable[[Msg], Awaitable[None]] | None = None

    def new_inbox(self) -> str:
        return "inbox"

    async def subscribe(
        self, subject: str, *, cb: Callable[[Msg], Awaitable[None]], **_options: Any
    ) -> _Subscription:
        self.deliver = cb
        return _Subscription()

    async def publish(self, subject: str, content: bytes, *, reply: str) -> None:
        self.asked.append((reply, json.loads(content)["batch"]))

    async def answer(self, headers: dict[str, str] | None = None) -> None:
        assert self.deliver is not None
        reply = "" if headers else "$JS.ACK.stream.pods.1.1.1.1.0"
        message = Msg(_client=None, subject=self.asked[-1][0], reply=reply, headers=headers)  # type: ignore[arg-type]
        await self.deliver(message)


async def _asks_again(headers: dict[str, str], *, brought: int) -> float:
    """How long it takes from such an answer to the next request for as much."""
    engine = _Engine()
    connection: EngineConnection = engine  # type: ignore[assignment]
    taken: list[Msg] = []
    puller = Puller(connection, "stream", "pods", take=taken.append, room=lambda: 5)
    running = asyncio.ensure_future(puller.run())
    await until(lambda: len(engine.asked) == 1)
    for _ in range(brought):
        await engine.answer()
    began = asyncio.get_running_loop().time()
    await engine.answer(headers)
    await until(lambda: len(engine.asked) == 2)
    assert engine.asked[1][1] == 5
    assert len(taken) == brought
    running.cancel()
    return asyncio.get_running_loop().time() - began


@pytest.mark.parametrize(
    ("description", "brought"), [("Batch Completed", 5), ("Message Size Exceeds MaxBytes", 3)]
)
async def test_a_request_that_is_answered_is_followed_by_the_next_at_once(
    description: str, brought: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pull, "_PAUSE_SECONDS", 20.0)
    headers = {"Status": "409", "Description": description, "Nats-Pending-Messages": f"{5 - brought}"}
    assert await _asks_again(headers, brought=brought) < 20


async def test_a_refused_request_is_followed_by_the_next_after_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pull, "_PAUSE_SECONDS", 0.1)
    headers = {"Status": "409", "Description": "Consumer Deleted", "Nats-Pending-Messages": "5"}
    assert await _asks_again(headers, brought=0) >= 0.1
