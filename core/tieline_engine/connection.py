"""Connections to the engine: how they are made and closed, and one that is made again whenever it ends."""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import nats.errors
from nats.aio.client import Client

from tieline_common.authorities import Trust
from tieline_common.backoff import exponential, jitter
from tieline_engine.client import EngineClient
from tieline_engine.credentials import Credentials

CONNECT_SECONDS = 10.0
"""Until a connection has to be made."""
PING_SECONDS = 20
_SERVER_SECONDS = 5
"""For each server that is tried."""
_UNANSWERED_PINGS = 2
_CLOSE_SECONDS = 2.0
_STEADY_SECONDS = 10.0
"""A connection that lived for so long worked: what ends it counts as the first failure."""
RECONNECTING = {"reconnect_time_wait": 1, "max_reconnect_attempts": -1}
"""Options of a client that connects again by itself, until the server refuses its user."""
ONCE = {"allow_reconnect": False, "reconnect_time_wait": 0.1, "max_reconnect_attempts": 1}
"""Options of a client that ends with its connection."""


class ConnectingUser:
    """A user as nats-py asks for it at each connection: first for the signature, then for the JWT."""

    def __init__(self, make: Callable[[], Credentials]) -> None:
        """``make`` raises nats.errors.Error; the client tries again after it."""
        self._make = make
        self._made: Credentials | None = None

    def sign(self, nonce: str) -> bytes:
        """The signature of what the server asks to be signed."""
        self._made = self._make()
        return self._made.signature_cb(nonce)

    def jwt(self) -> bytearray:
        """The user's JWT."""
        if self._made is None:
            raise nats.errors.Error("the server asks for no signature")
        return self._made.user_jwt_cb()


async def connect(
    client: EngineClient, servers: Sequence[str], user: ConnectingUser, *, name: str, **options: Any
) -> None:
    """Connects a client to one of the servers. ``options`` are those of nats-py.

    A client with trust begins with TLS: it neither believes nor sends anything before the server is verified. Servers
    share a certificate for the first name in the URLs, since they announce each other by address.

    Raises TimeoutError, OSError, and the errors of nats-py.
    """
    if client.trust is not None:
        options |= {"tls": client.trust(), "tls_hostname": _name_of(servers), "tls_handshake_first": True}
    async with asyncio.timeout(CONNECT_SECONDS):
        await client.connect(
            servers=list(servers),
            name=name,
            connect_timeout=_SERVER_SECONDS,
            ping_interval=PING_SECONDS,
            max_outstanding_pings=_UNANSWERED_PINGS,
            user_jwt_cb=user.jwt,
            signature_cb=user.sign,
            **options,
        )


def _name_of(servers: Sequence[str]) -> str | None:
    hosts = [host for url in servers if (host := urlsplit(url).hostname)]
    return next((host for host in hosts if not _is_address(host)), None)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def ensure_connected(client: Client) -> None:
    """Raises TimeoutError for a client whose user the server has neither accepted nor refused.

    nats-py's ``connect`` returns, too, when that takes longer than its time-out. A client that reconnects tries again.
    """
    if not client.is_connected:
        raise TimeoutError


async def close(client: Client) -> None:
    """Closes a client, or gives up after a while. What goes wrong must not end who makes the next connection."""
    with suppress(Exception):  # nats-py asserts that a client was connected
        async with asyncio.timeout(_CLOSE_SECONDS):
            await client.close()


def described(error: BaseException) -> str:
    """What a log line says of an error."""
    return str(error) or type(error).__name__


class KeptConnection(ABC):
    """A connection that is made again with a backoff whenever it ends, with another client each time.

    Subclasses override what they have to do at each step.
    """

    def __init__(
        self,
        servers: Sequence[str],
        *,
        name: str,
        first_backoff: float,
        longest_backoff: float,
        trust: Trust | None = None,
        **options: Any,
    ) -> None:
        """``options`` are those of nats-py, such as RECONNECTING or ONCE. ``trust``: see EngineClient."""
        self._servers = list(servers)
        self._name = name
        self._first_backoff = first_backoff
        self._longest_backoff = longest_backoff
        self._trust = trust
        self._options = options
        self._error: Exception | None = None

    @abstractmethod
    def user(self) -> ConnectingUser | None:
        """Who connects; None while that is not known."""

    async def prepare(self, client: Client) -> None:  # noqa: B027  (most have nothing to prepare)
        """Called with a client that has connected, before it counts as the connection."""

    @abstractmethod
    def opened(self, client: Client) -> None:
        """Called once there is another connection."""

    @abstractmethod
    def ended(self) -> None:
        """Called when a connection has ended, or was not made."""

    @abstractmethod
    def retried(self, reason: str, failures: int) -> None:
        """Called before the pause until the next attempt, after so many failures in a row."""

    async def failed(self, error: Exception) -> None:
        """Called with what goes wrong in the client's background."""
        self._error = error

    async def lost(self) -> None:  # noqa: B027  (a client that does not reconnect ends)
        """Called when the client has lost its server."""

    async def restored(self) -> None:  # noqa: B027  (see lost)
        """Called when the client has connected again by itself."""

    async def run(self) -> None:
        """Keeps the connection until it is cancelled."""
        failures = 0
        while True:
            began = time.monotonic()
            reason = await self._session()
            if time.monotonic() - began > CONNECT_SECONDS + _STEADY_SECONDS:
                failures = 0
            failures += 1
            self.retried(reason, failures)
            pause = exponential(failures, first=self._first_backoff, cap=self._longest_backoff)
            await asyncio.sleep(jitter(pause))

    async def _session(self) -> str:
        """Connects, and returns the reason once the connection is gone."""
        user = self.user()
        if user is None:
            return "its keys are not known"
        client, closed = EngineClient(self._trust), asyncio.Event()
        self._error = None

        async def on_closed() -> None:
            closed.set()

        try:
            await connect(
                client,
                self._servers,
                user,
                name=self._name,
                error_cb=self.failed,
                disconnected_cb=self.lost,
                reconnected_cb=self.restored,
                closed_cb=on_closed,
                **self._options,
            )
            async with asyncio.timeout(CONNECT_SECONDS):
                await self.prepare(client)
            self.opened(client)
            await closed.wait()
        except TimeoutError:
            return self._reason(f"no connection within {CONNECT_SECONDS:g} s")
        except Exception as error:
            return self._reason(described(error))
        finally:
            self.ended()
            await close(client)
        return self._reason("the connection was closed")

    def _reason(self, text: str) -> str:
        return described(self._error) if self._error else text
