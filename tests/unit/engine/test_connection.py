"""A connection to the engine is made again whenever it ends, by the user who is known then."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import nats.errors
import pytest
from nats.aio.client import Client

from tieline_core.engine.trust import EngineTrust
from tieline_engine import connection
from tieline_engine.connection import ConnectingUser, KeptConnection
from tieline_engine.credentials import Credentials


def credentials() -> Credentials:
    return Credentials.parse(EngineTrust().credentials("test", at=datetime.now(UTC)))


class Kept(KeptConnection):
    """Writes down what happens."""

    def __init__(self) -> None:
        super().__init__(("nats://engine",), name="test", first_backoff=0.0, longest_backoff=0.0)
        self.known: ConnectingUser | None = ConnectingUser(credentials)
        self.seen: list[str] = []

    def user(self) -> ConnectingUser | None:
        return self.known

    def opened(self, client: Client) -> None:
        self.seen.append("opened")

    def ended(self) -> None:
        self.seen.append("ended")

    def retried(self, reason: str, failures: int) -> None:
        self.seen.append(f"{failures}: {reason}")


class Server:
    """Takes the place of ``connect``: does what is said for each attempt, and then waits."""

    def __init__(self, *attempts: Exception | None) -> None:
        self._attempts = list(attempts)
        self.closed: list[Any] = []

    async def connect(
        self, client: Client, servers: Sequence[str], user: ConnectingUser, *, name: str, **options: Any
    ) -> None:
        if not self._attempts:
            await asyncio.Event().wait()
        attempt = self._attempts.pop(0)
        if isinstance(attempt, nats.errors.AuthorizationError):
            await options["error_cb"](attempt)
            raise TimeoutError
        if attempt is not None:
            raise attempt
        self.closed.append(options["closed_cb"])


async def kept(monkeypatch: pytest.MonkeyPatch, made: Kept, server: Server, lines: int) -> list[str]:
    """What it has written down by then."""
    monkeypatch.setattr(connection, "connect", server.connect)
    task = asyncio.create_task(made.run())
    try:
        async with asyncio.timeout(10):
            while len(made.seen) < lines:
                for closed in server.closed[:]:
                    server.closed.remove(closed)
                    await closed()
                await asyncio.sleep(0)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    return made.seen[:lines]


async def test_a_connection_that_ends_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(OSError("refused"), None, nats.errors.AuthorizationError(), TimeoutError())
    assert await kept(monkeypatch, Kept(), server, 9) == [
        "ended",
        "1: refused",
        "opened",
        "ended",
        "2: the connection was closed",
        "ended",
        f"3: {nats.errors.AuthorizationError()}",
        "ended",
        "4: no connection within 10 s",
    ]


async def test_without_keys_no_connection_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Kept()
    made.known = None
    assert await kept(monkeypatch, made, Server(OSError("asked")), 2) == [
        "1: its keys are not known",
        "2: its keys are not known",
    ]


def test_signature_and_jwt_are_of_the_same_credentials() -> None:
    old, new = credentials(), credentials()
    given = [old, new]
    user = ConnectingUser(lambda: given.pop(0))
    for expected in (old, new):
        assert user.sign("nonce") == expected.signature_cb("nonce")
        assert user.jwt().decode() == expected.jwt
    with pytest.raises(nats.errors.Error, match="no signature"):
        ConnectingUser(credentials).jwt()
