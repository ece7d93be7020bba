"""The connection to the platform's account of the engine, made when the engine is there, and kept.

All that goes wrong becomes one of the errors of ``errors.py``. The credentials file is read for each connection, since
it may come late and be replaced.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from nats.aio.client import Client
from nats.js.errors import NotFoundError

from tieline_api.engine.credentials import read_credentials
from tieline_api.engine.errors import EngineUnavailableError
from tieline_api.engine.requests import TIMEOUT, EngineRequests, answer_of
from tieline_common.authorities import Trust
from tieline_common.cancellation import cancel_and_wait
from tieline_core.engine.management import MANAGEMENT_PREFIX
from tieline_engine.connection import RECONNECTING, ConnectingUser, KeptConnection, described
from tieline_protocol.event_streams import API_CLIENT

T = TypeVar("T")

logger = logging.getLogger("tieline.engine")

_MEASURE_SECONDS = 30.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 10.0
_NAMES_SUBJECT = "$JS.API.STREAM.NAMES"


class Engine(KeptConnection, EngineRequests):
    """The platform's account of the engine whose servers have these URLs.

    It has the run histories and the spans. Accounts of environments are asked by ``environments.EnvironmentEngines``.
    """

    prefix = MANAGEMENT_PREFIX

    def __init__(self, urls: Sequence[str], credentials_file: Path, *, trust: Trust | None = None) -> None:
        """``trust``: see EngineClient."""
        super().__init__(
            urls,
            name=API_CLIENT,
            first_backoff=_FIRST_PAUSE,
            longest_backoff=_LONGEST_PAUSE,
            trust=trust,
            **RECONNECTING,
        )
        self._urls = urls
        self.trust = trust
        self._user = ConnectingUser(lambda: read_credentials(credentials_file))
        self._client: Client | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._connections = 0
        self._logged = ""
        self._measured = False
        self.storage_bytes = 0
        """What the streams of the platform's account take, as last measured."""
        self.storage_limit_bytes = 0
        """What they may take: the account's limit. 0 where it has none, so that the volume bounds them."""

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

    async def start(self) -> None:
        """Begins to connect, and returns at once."""
        self._tasks = [
            asyncio.create_task(self.run(), name="engine connection"),
            asyncio.create_task(self._measure_periodically(), name="engine storage"),
        ]

    async def stop(self) -> None:
        """Closes the connection."""
        await cancel_and_wait(*self._tasks)
        self._tasks = []

    async def ask_client(self, work: Callable[[Client], Awaitable[T]], *, seconds: float = TIMEOUT) -> T:
        """See EngineRequests."""
        client = self._client
        # A client that reconnects would keep what it is given, and send it after we have said that it failed.
        if client is None or not client.is_connected:
            raise EngineUnavailableError
        return await answer_of(client, work, seconds=seconds)

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

    def user(self) -> ConnectingUser:
        """See KeptConnection."""
        return self._user

    def opened(self, client: Client) -> None:
        """See KeptConnection."""
        self._client = client
        self._connections += 1
        self._log_change("is connected")

    def ended(self) -> None:
        """See KeptConnection."""
        self._client = None

    def retried(self, reason: str, failures: int) -> None:
        """See KeptConnection."""
        self._log_change(f"cannot be reached: {reason}")

    async def failed(self, error: Exception) -> None:
        """See KeptConnection."""
        await super().failed(error)
        what = "does not answer" if self.connected else "cannot be reached"
        self._log_change(f"{what}: {described(error)}")

    async def lost(self) -> None:
        """See KeptConnection."""
        self._log_change("is away")

    async def restored(self) -> None:
        """See KeptConnection."""
        self._connections += 1
        self._log_change("is there again")

    def _log_change(self, what: str) -> None:
        """One line of the log for each change."""
        if what != self._logged:
            self._logged = what
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
