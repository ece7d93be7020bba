"""The connections to the engine, and the one of the platform: made when the engine is there, and kept.

All that goes wrong becomes one of the errors of ``errors.py``. The credentials file is read for each connection, since
it may come late and be replaced.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import nats.errors
from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js.errors import NotFoundError

from tieline_api.engine.credentials import ConnectingUser, ManagementPrefix, read_credentials
from tieline_api.engine.errors import EngineNotConfiguredError, EngineUnavailableError
from tieline_api.engine.requests import TIMEOUT, EngineRequests, answer_of, described
from tieline_common.backoff import exponential, jitter
from tieline_common.cancellation import cancel_and_wait
from tieline_protocol.event_streams import API_CLIENT

T = TypeVar("T")

logger = logging.getLogger("tieline.engine")

_CONNECT_SECONDS = 5
_PING_SECONDS = 20
_MEASURE_SECONDS = 30.0
_LONGEST_PAUSE = 10.0
_CLOSE_SECONDS = 2.0
_NAMES_SUBJECT = "$JS.API.STREAM.NAMES"


async def connect(
    client: Client, servers: Sequence[str], user: ConnectingUser | None, **options: Any
) -> None:
    """Connects a client to one of the servers. ``options`` are those of nats-py.

    Raises TimeoutError, OSError, and the errors of nats-py.
    """
    if user is not None:
        options |= {"user_jwt_cb": user.jwt, "signature_cb": user.sign}
    async with asyncio.timeout(_CONNECT_SECONDS * 2):
        await client.connect(
            servers=list(servers),
            name=API_CLIENT,
            connect_timeout=_CONNECT_SECONDS,
            ping_interval=_PING_SECONDS,
            **options,
        )


async def close(client: Client) -> None:
    """Closes a client, or gives up after a while."""
    with suppress(nats.errors.Error, TimeoutError, OSError):
        async with asyncio.timeout(_CLOSE_SECONDS):
            await client.close()


class Engine(EngineRequests):
    """The platform's account of the engine at ``urls``, separated by commas; none is an engine that is not configured.

    It has the run histories and the spans. Accounts of environments are asked by ``environments.EnvironmentEngines``.
    """

    def __init__(
        self, urls: str, credentials_file: str | None = None, signer_file: str | None = None
    ) -> None:
        self._urls = [url for url in urls.split(",") if url]
        self._user: ConnectingUser | None = None
        if credentials_file:
            path = Path(credentials_file)
            self._user = ConnectingUser(lambda: read_credentials(path))
        self._has_signer = signer_file is not None
        self._management_prefix = ManagementPrefix(Path(signer_file) if signer_file else None)
        self._client: Client | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._connections = 0
        self._told = ""
        self._measured = False
        self.storage_bytes = 0
        """What the streams of the platform's account take, as last measured."""
        self.storage_limit_bytes = 0
        """What they may take: the account's limit. 0 where it has none, so that the volume bounds them."""

    @property
    def configured(self) -> bool:
        """Whether there is an engine to connect to, and the key without which no stream of it can be read."""
        return bool(self._urls) and self._has_signer

    @property
    def servers(self) -> Sequence[str]:
        """The URLs of its servers, first the one that is connected."""
        url = self._client.connected_url if self._client is not None else None
        first = [url.geturl()] if url is not None else []
        return [*first, *(one for one in self._urls if one not in first)]

    @property
    def connected(self) -> bool:
        """Whether the engine can be asked right now."""
        return self._client is not None and self._client.is_connected

    @property
    def connections(self) -> int:
        """How often a connection was made; whoever listens begins anew when it grows."""
        return self._connections

    def need_configured(self) -> None:
        """EngineNotConfiguredError where there is no engine."""
        if not self.configured:
            raise EngineNotConfiguredError

    async def start(self) -> None:
        """Begins to connect, and returns at once."""
        if self.configured:
            self._tasks = [
                asyncio.create_task(self._keep_connected(), name="engine connection"),
                asyncio.create_task(self._measure_periodically(), name="engine storage"),
            ]

    async def stop(self) -> None:
        """Closes the connection."""
        await cancel_and_wait(*self._tasks)
        self._tasks = []
        await self._close()

    async def ask(self, work: Callable[[JetStreamContext], Awaitable[T]], *, seconds: float = TIMEOUT) -> T:
        """What ``work`` returns, in time. Raises as ``EngineRequests.ask``."""
        self.need_configured()
        client = self._client
        # A client that reconnects would keep what it is given, and send it after we have said that it failed.
        if client is None or not client.is_connected:
            raise EngineUnavailableError
        try:
            prefix = self._management_prefix()
        except nats.errors.Error as error:
            self._tell(f"cannot be asked: {error}")
            raise EngineUnavailableError from None
        return await answer_of(client, work, seconds=seconds, prefix=prefix)

    async def stream_names(self, subject: str) -> list[str]:
        """The names of all streams with messages at such subjects. Raises as ``ask``."""
        names: list[str] = []
        while True:
            answer = await self.request(_NAMES_SUBJECT, {"offset": len(names), "subject": subject})
            found = json.loads(answer.data)
            if "error" in found:
                raise EngineUnavailableError
            more = found.get("streams") or []
            names += more
            if not more or len(names) >= int(found.get("total") or 0):
                return names

    async def _keep_connected(self) -> None:
        failures = 0
        while True:
            closed = asyncio.Event()
            try:
                await self._connect(closed)
                failures = 0
                await closed.wait()
            except (nats.errors.Error, TimeoutError, OSError, ValueError) as error:
                self._tell(f"cannot be reached: {described(error)}")
            await self._close()
            failures += 1
            await asyncio.sleep(jitter(exponential(failures, first=0.2, cap=_LONGEST_PAUSE)))

    async def _connect(self, closed: asyncio.Event) -> None:
        client = Client()

        async def ended() -> None:
            closed.set()

        async def failed(error: Exception) -> None:
            self._tell(f"does not answer: {described(error)}")

        async def lost() -> None:
            self._tell("is away")

        async def back() -> None:
            self._connections += 1
            self._tell("is there again")

        self._client = client
        await connect(
            client,
            self._urls,
            self._user,
            reconnect_time_wait=1,
            max_reconnect_attempts=-1,
            error_cb=failed,
            disconnected_cb=lost,
            reconnected_cb=back,
            closed_cb=ended,
        )
        self._connections += 1
        self._tell("is connected")

    async def _close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await close(client)

    def _tell(self, what: str) -> None:
        """One line of the log for each change."""
        if what != self._told:
            self._told = what
            logger.info("The event engine %s", what)

    async def _measure_periodically(self) -> None:
        while True:
            with suppress(EngineUnavailableError, NotFoundError, ValueError):
                await self._measure()
            await asyncio.sleep(_MEASURE_SECONDS if self._measured else 1.0)

    async def _measure(self) -> None:
        found = json.loads((await self.request("$JS.API.INFO")).data)
        limit = int((found.get("limits") or {}).get("max_storage") or 0)
        self.storage_bytes = int(found.get("storage") or 0)
        self.storage_limit_bytes = max(limit, 0)
        self._measured = True
