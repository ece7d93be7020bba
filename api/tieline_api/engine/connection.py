"""The connection to the engine: made when the engine is there, kept, and asked within time-outs.

All that goes wrong becomes one of the errors of ``errors.py``. The credentials file is read for each connection, since
it may come late and be replaced.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.errors import APIError, NoStreamResponseError, NotFoundError

from tieline_api.engine.errors import (
    EngineFullError,
    EngineNotConfiguredError,
    EngineUnavailableError,
    NoStreamError,
)
from tieline_common.backoff import exponential, jitter
from tieline_core.engine.publisher import StreamFullError, is_full
from tieline_protocol.engine_credentials import Credentials

T = TypeVar("T")

logger = logging.getLogger("tieline.engine")

TIMEOUT = 5.0
"""Seconds for one answer of the engine."""
_CONNECT_SECONDS = 5
_PING_SECONDS = 20
_MEASURE_SECONDS = 30.0
_LONGEST_PAUSE = 10.0
_CLOSE_SECONDS = 2.0
_NAMES_SUBJECT = "$JS.API.STREAM.NAMES"
_NOT_FOUND = "404"


@dataclass(frozen=True)
class StoredMessage:
    """A message of a stream."""

    sequence: int
    subject: str
    headers: Mapping[str, str]
    data: bytes
    stored_at: float | None = None
    """Seconds since 1970, by the engine's clock; of messages that a stream is read by."""


class Engine:
    """The engine at ``urls``, separated by commas; none is an engine that is not configured."""

    def __init__(self, urls: str, credentials_file: str | None = None) -> None:
        self._servers = [url for url in urls.split(",") if url]
        self._credentials = _CredentialsFile(Path(credentials_file)) if credentials_file else None
        self._client: Client | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._connections = 0
        self._told = ""
        self._measured = False
        self.storage_bytes = 0
        """What the account's streams take, as last measured."""
        self.storage_limit_bytes = 0
        """What they may take: the account's limit. 0 where it has none, so that the volume bounds them."""

    @property
    def configured(self) -> bool:
        """Whether there is an engine to connect to."""
        return bool(self._servers)

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
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        await self._close()

    async def ask(self, work: Callable[[JetStreamContext], Awaitable[T]], *, seconds: float = TIMEOUT) -> T:
        """What ``work`` returns, in time. Raises the errors of this room, and NotFoundError of nats-py.

        Where the engine answers that there is no such stream, that is NoStreamError.
        """
        self.need_configured()
        client = self._client
        # A client that reconnects would keep what it is given, and send it after we have said that it failed.
        if client is None or not client.is_connected:
            raise EngineUnavailableError
        try:
            async with asyncio.timeout(seconds):
                return await work(client.jetstream(timeout=seconds))
        except StreamFullError:
            raise EngineFullError from None
        except NotFoundError:
            raise
        except NoStreamResponseError:
            raise NoStreamError from None
        except APIError as error:
            if is_full(error):
                raise EngineFullError from None
            logger.warning("The event engine refuses a request: %s", error)
            raise EngineUnavailableError from None
        except (nats.errors.Error, TimeoutError, OSError) as error:
            logger.warning("The event engine does not answer: %s", _said(error))
            raise EngineUnavailableError from None

    async def request(self, subject: str, content: Mapping[str, Any] | bytes = b"") -> Msg:
        """The answer to a message. Raises as ``ask``."""
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        return await self.ask(lambda jetstream: client_of(jetstream).request(subject, data, timeout=TIMEOUT))

    async def tell(self, subject: str, content: Mapping[str, Any]) -> None:
        """Sends a message that is not stored, to whoever listens. Raises as ``ask``."""

        async def send(jetstream: JetStreamContext) -> None:
            client = client_of(jetstream)
            await client.publish(subject, json.dumps(content).encode())
            await client.flush(timeout=int(TIMEOUT))

        await self.ask(send)

    async def message(self, stream: str, sequence: int) -> StoredMessage | None:
        """A message by its sequence number, None when it is gone. Raises as ``ask``."""
        return await self._direct(stream, {"seq": sequence})

    async def first_at(self, stream: str, subject: str) -> StoredMessage | None:
        """The oldest message at a subject, which may have wildcards; None for none. Raises as ``ask``."""
        return await self._direct(stream, {"seq": 1, "next_by_subj": subject})

    async def delete(self, stream: str, sequence: int) -> bool:
        """Deletes a message; whether it was there. Raises as ``ask``."""
        try:
            return await self.ask(lambda jetstream: jetstream.delete_msg(stream, sequence))
        except (NotFoundError, EngineUnavailableError):
            # JetStream answers 500 for a message that is gone; whether it is, the stream says.
            if await self.message(stream, sequence) is None:
                return False
            raise EngineUnavailableError from None

    async def purge(self, stream: str, subject: str) -> int:
        """Deletes all messages at a subject; how many there were. Raises as ``ask``."""
        answer = await self.request(f"$JS.API.STREAM.PURGE.{stream}", {"filter": subject})
        found = json.loads(answer.data)
        if "error" in found:
            if found["error"].get("code") == 404:
                return 0
            raise EngineUnavailableError
        return int(found.get("purged") or 0)

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

    async def _direct(self, stream: str, wanted: Mapping[str, Any]) -> StoredMessage | None:
        try:
            answer = await self.request(f"$JS.API.DIRECT.GET.{stream}", wanted)
        except EngineUnavailableError:
            # Nobody answers for a stream that is not there.
            if await self._has_stream(stream):
                raise
            return None
        headers = answer.headers or {}
        status = headers.get("Status")
        if status == _NOT_FOUND:
            return None
        if status is not None or "Nats-Sequence" not in headers:
            raise EngineUnavailableError
        return StoredMessage(
            int(headers["Nats-Sequence"]), headers.get("Nats-Subject", ""), headers, answer.data
        )

    async def _has_stream(self, stream: str) -> bool:
        answer = json.loads((await self.request(f"$JS.API.STREAM.INFO.{stream}")).data)
        return (answer.get("error") or {}).get("code") != 404

    async def _keep_connected(self) -> None:
        failures = 0
        while True:
            closed = asyncio.Event()
            try:
                await self._connect(closed)
                failures = 0
                await closed.wait()
            except (nats.errors.Error, TimeoutError, OSError, ValueError) as error:
                self._tell(f"cannot be reached: {_said(error)}")
            await self._close()
            failures += 1
            await asyncio.sleep(jitter(exponential(failures, first=0.2, cap=_LONGEST_PAUSE)))

    async def _connect(self, closed: asyncio.Event) -> None:
        client = Client()

        async def ended() -> None:
            closed.set()

        async def failed(error: Exception) -> None:
            self._tell(f"does not answer: {_said(error)}")

        async def lost() -> None:
            self._tell("is away")

        async def back() -> None:
            self._connections += 1
            self._tell("is there again")

        options: dict[str, Any] = {}
        if self._credentials is not None:
            options = {"user_jwt_cb": self._credentials.jwt, "signature_cb": self._credentials.sign}
        self._client = client
        async with asyncio.timeout(_CONNECT_SECONDS * 2):
            await client.connect(
                servers=self._servers,
                name="tieline-api",
                connect_timeout=_CONNECT_SECONDS,
                reconnect_time_wait=1,
                max_reconnect_attempts=-1,
                ping_interval=_PING_SECONDS,
                error_cb=failed,
                disconnected_cb=lost,
                reconnected_cb=back,
                closed_cb=ended,
                **options,
            )
        self._connections += 1
        self._tell("is connected")

    async def _close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with suppress(nats.errors.Error, TimeoutError, OSError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await client.close()

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


class _CredentialsFile:
    """Reads a credentials file for each connection; NATS' client asks for the signature first, then for the JWT."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read: Credentials | None = None

    def sign(self, nonce: str) -> bytes:
        """The signature of what the server asks to be signed."""
        try:
            self._read = Credentials.parse(self._path.read_text())
        except (OSError, ValueError):
            # What it is the client goes on trying after.
            raise nats.errors.Error(f"the credentials file {self._path} cannot be read") from None
        return self._read.signature_cb(nonce)

    def jwt(self) -> bytearray:
        """The user's JWT."""
        if self._read is None:
            raise nats.errors.Error("the server asks for no signature")
        return self._read.user_jwt_cb()


def client_of(jetstream: JetStreamContext) -> Client:
    """The client that speaks for it."""
    client: Client = jetstream._nc
    return client


def _said(error: BaseException) -> str:
    return str(error) or type(error).__name__
