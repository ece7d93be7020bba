"""Connections to environments' accounts: made when one is used, kept for a while, and never more than a bound.

A connection is of one user of one account, so each environment needs its own. Those that nobody uses are closed, the
longest unused ones first where more are needed.
"""

import asyncio
import logging
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import nats.errors
from cachetools import LRUCache
from nats.aio.client import Client

from tieline_api.engine.connection import Engine
from tieline_api.engine.credentials import USER_LIFETIME, EnvironmentSigner
from tieline_api.engine.errors import EngineUnavailableError, NoStreamError
from tieline_api.engine.requests import TIMEOUT, EngineRequests, answer_of
from tieline_common.backoff import exponential, jitter
from tieline_common.cancellation import cancel_and_wait
from tieline_engine.client import EngineClient
from tieline_engine.connection import ONCE, ConnectingUser, close, connect, described
from tieline_protocol.event_streams import API_CLIENT, EventStreams

T = TypeVar("T")

logger = logging.getLogger("tieline.engine")

MOST_CONNECTIONS = 64
_IDLE_SECONDS = 180.0
_RENEW_SECONDS = USER_LIFETIME.total_seconds() * 0.8
"""The age at which a connection is given to nobody any more. The server ends it when its user expires."""
_SWEEPS = 10
"""In the time after which an unused connection is closed."""
_REFUSED_SECONDS = 2.0
_LONGEST_PAUSE = 10.0
_FAILURES = 1024
_SETTLE_SECONDS = 2.0
_LOOK_SECONDS = 0.05
_REFUSED = "authorization violation"


class _RefusedError(Exception):
    """The server does not accept the user."""


@dataclass(frozen=True)
class _Failure:
    """The last attempt to connect to an environment's account."""

    refused: bool
    count: int
    """Of failures in a row."""
    until: float
    """When the next attempt may be made."""
    platform_connections: int


@dataclass(eq=False)
class _Held:
    """A connection that is made, used or closed. It has one of the pool's slots once it is being made."""

    streams: EventStreams
    opening: asyncio.Task[Client] = field(init=False)
    users: int = 0
    waits: bool = False
    """Whether it waits for a slot."""
    last_used: float = field(default_factory=time.monotonic)
    renewed_at: float = field(default_factory=lambda: time.monotonic() + _RENEW_SECONDS)
    retired: bool = False
    """Whether it is closed once nobody uses it."""
    closed: bool = False
    """Whether closing it has begun."""

    @property
    def client(self) -> Client | None:
        """The client, once and if it was connected."""
        if not self.opening.done() or self.opening.cancelled() or self.opening.exception() is not None:
            return None
        return self.opening.result()

    @property
    def usable(self) -> bool:
        """Whether a caller may wait for it, or use it."""
        if not self.opening.done():
            return True
        client = self.client
        return client is not None and client.is_connected and time.monotonic() < self.renewed_at


class EnvironmentEngines:
    """The environments' accounts of the engine that ``platform`` is connected to."""

    def __init__(
        self,
        platform: Engine,
        signer: EnvironmentSigner,
        *,
        most: int = MOST_CONNECTIONS,
        idle_seconds: float = _IDLE_SECONDS,
    ) -> None:
        self._platform = platform
        self._signer = signer
        self._most = most
        self._idle_seconds = idle_seconds
        self._slots = asyncio.Semaphore(most)
        self._held: OrderedDict[EventStreams, _Held] = OrderedDict()
        """By environment, the longest unused one first."""
        self._failures: LRUCache[EventStreams, _Failure] = LRUCache(_FAILURES)
        self._waiting = 0
        """Connections that wait for a slot."""
        self._closing: set[asyncio.Task[None]] = set()
        self._sweeping: asyncio.Task[None] | None = None
        self._stopped = False

    def of(self, streams: EventStreams) -> "EnvironmentEngine":
        """The account of an environment. It connects when something is asked of it."""
        return EnvironmentEngine(self, streams)

    @property
    def connections(self) -> int:
        """How many connections are open for environments, or being made."""
        return len(self._held)

    async def start(self) -> None:
        """Begins to close connections that nobody uses."""
        self._sweeping = asyncio.create_task(self._sweep_periodically(), name="engine connections")

    async def stop(self) -> None:
        """Closes all connections, and makes no more."""
        self._stopped = True
        if self._sweeping is not None:
            self._sweeping.cancel()
        for held in list(self._held.values()):
            await cancel_and_wait(held.opening)
            self._retire(held, used=True)
        await asyncio.gather(*self._closing, return_exceptions=True)

    @asynccontextmanager
    async def using(self, streams: EventStreams) -> AsyncIterator[Client]:
        """A client that is connected to an environment's account, and is not closed meanwhile.

        Raises NoStreamError where the engine has no such account, and EngineUnavailableError.
        """
        held = self._connection(streams)
        held.users += 1
        try:
            yield await self._opened(held)
        finally:
            held.users -= 1
            held.last_used = time.monotonic()
            if held.users == 0 and held.waits:
                held.opening.cancel()
                self._retire(held)
            elif held.retired:
                self._retire(held)
            else:
                self._make_room()

    def _connection(self, streams: EventStreams) -> _Held:
        held = self._held.get(streams)
        if held is not None and held.usable:
            self._held.move_to_end(streams)
            return held
        if held is not None:
            self._retire(held)
        self._require_attempt(streams)
        held = _Held(streams)
        held.opening = asyncio.create_task(self._open(held), name="engine connection")
        self._held[streams] = held
        return held

    def _require_attempt(self, streams: EventStreams) -> None:
        """Raises where no attempt to connect may be made now."""
        if self._stopped or not self._platform.connected:
            raise EngineUnavailableError
        failure = self._failures.get(streams)
        if failure is not None and self._is_recent(failure) and time.monotonic() < failure.until:
            raise NoStreamError if failure.refused else EngineUnavailableError

    def _is_recent(self, failure: _Failure) -> bool:
        """Whether the engine was not away since then."""
        return failure.platform_connections == self._platform.connections

    async def _opened(self, held: _Held) -> Client:
        try:
            async with asyncio.timeout(TIMEOUT):
                return await asyncio.shield(held.opening)
        except TimeoutError:
            raise EngineUnavailableError from None
        except asyncio.CancelledError:
            if held.opening.cancelled() and self._stopped:
                raise EngineUnavailableError from None
            raise

    async def _open(self, held: _Held) -> Client:
        """Connects, in a slot of its own. Raises NoStreamError and EngineUnavailableError."""
        try:
            await self._take_slot(held)
            try:
                client = await self._connect(held.streams)
            except BaseException:
                self._slots.release()
                raise
        except BaseException as error:
            if self._held.get(held.streams) is held:
                del self._held[held.streams]
            if isinstance(error, _RefusedError) and self._platform.connected:
                self._failed(
                    held.streams, "does not know it, or not the key that signs for the API", refused=True
                )
                raise NoStreamError from None
            if isinstance(error, (_RefusedError, nats.errors.Error, TimeoutError, OSError)):
                self._failed(held.streams, described(error), refused=False)
                raise EngineUnavailableError from None
            raise
        self._failures.pop(held.streams, None)
        held.last_used = time.monotonic()
        return client

    async def _take_slot(self, held: _Held) -> None:
        """Waits until there is room for one more connection, or nobody wants it any more."""
        self._waiting += 1
        held.waits = True
        try:
            self._make_room()
            await self._slots.acquire()
        finally:
            self._waiting -= 1
            held.waits = False

    def _make_room(self) -> None:
        """Begins to close as many unused connections as others wait for."""
        if not self._slots.locked():
            return
        unused = [held for held in self._held.values() if held.users == 0 and held.client is not None]
        for held in unused[: max(0, self._waiting - len(self._closing))]:
            self._retire(held)

    async def _connect(self, streams: EventStreams) -> Client:
        """One attempt. A client whose connection is lost is not connected again: a new one is made for the next use."""
        client = EngineClient(self._platform.trust)
        reasons: deque[str] = deque(maxlen=1)

        async def failed(error: Exception) -> None:
            reasons.append(described(error))
            if client.is_connected:
                logger.warning("The event engine refuses something to the API: %s", reasons[-1])

        try:
            await connect(
                client,
                self._platform.servers,
                ConnectingUser(lambda: self._signer.user_of(streams)),
                name=API_CLIENT,
                inbox_prefix=streams.api_inbox,
                dont_randomize=True,
                error_cb=failed,
                **ONCE,
            )
            await _settle(client)
        except BaseException as error:
            await close(client)
            if _REFUSED in described(error).lower():
                raise _RefusedError from None
            if isinstance(error, TimeoutError) and reasons:
                raise nats.errors.Error(reasons[-1]) from None
            raise
        return client

    def _failed(self, streams: EventStreams, reason: str, *, refused: bool) -> None:
        last = self._failures.get(streams)
        count = last.count + 1 if last is not None and last.refused == refused else 1
        pause = _REFUSED_SECONDS if refused else jitter(exponential(count, first=0.5, cap=_LONGEST_PAUSE))
        connections = self._platform.connections
        self._failures[streams] = _Failure(refused, count, time.monotonic() + pause, connections)
        if count == 1:
            logger.warning(
                "Cannot connect to the account of the environment %s: the event engine %s",
                streams.environment,
                reason if refused else f"cannot be reached: {reason}",
            )

    def _retire(self, held: _Held, *, used: bool = False) -> None:
        """Gives a connection to nobody any more, and closes it once nobody uses it; with ``used`` at once."""
        held.retired = True
        if self._held.get(held.streams) is held:
            del self._held[held.streams]
        client = held.client
        if client is None or held.closed or (held.users and not used):
            return
        held.closed = True
        task = asyncio.create_task(self._close(client), name="close an engine connection")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _close(self, client: Client) -> None:
        try:
            await close(client)
        finally:
            self._slots.release()

    async def _sweep_periodically(self) -> None:
        while True:
            await asyncio.sleep(self._idle_seconds / _SWEEPS)
            longest_ago = time.monotonic() - self._idle_seconds
            for held in list(self._held.values()):
                unused = held.users == 0 and held.client is not None
                if unused and (not held.usable or held.last_used < longest_ago):
                    self._retire(held)


class EnvironmentEngine(EngineRequests):
    """The account of one environment."""

    def __init__(self, engines: EnvironmentEngines, streams: EventStreams) -> None:
        self._engines = engines
        self._streams = streams

    async def ask_client(self, work: Callable[[Client], Awaitable[T]], *, seconds: float = TIMEOUT) -> T:
        """See EngineRequests. NoStreamError where there is no such account."""
        async with self._engines.using(self._streams) as client:
            return await answer_of(client, work, seconds=seconds)


async def _settle(client: Client) -> None:
    """Returns once the server has accepted the user.

    While it looks for the account it may send a PING, which nats-py takes for the end of the handshake. Raises the
    errors of nats-py where the user was refused, or the client does not notice that it is connected.
    """
    until = time.monotonic() + _SETTLE_SECONDS
    while not client.is_connected:
        if client.is_closed or time.monotonic() > until:
            refused = isinstance(client.last_error, nats.errors.AuthorizationError)
            raise nats.errors.Error(_REFUSED if refused else "the server ended the handshake")
        await asyncio.sleep(_LOOK_SECONDS)
