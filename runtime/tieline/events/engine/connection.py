"""The pod's connection to the engine: it comes back by itself, with the credentials that are in the file then."""

import asyncio
import json
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from tieline.errors import reason
from tieline.events.queue import EventsUnavailableError, MessageTooLargeError
from tieline_common.authorities import Trust
from tieline_engine.client import EngineClient, answer_status
from tieline_engine.connection import RECONNECTING, ConnectingUser, KeptConnection, close, described
from tieline_engine.credentials import Credentials
from tieline_protocol.event_streams import EventStreams

logger = logging.getLogger("tieline.events")

REQUEST_SECONDS = 5.0
_WAIT_FOR_CONNECTION = 2.0
_FIRST_BACKOFF, _LONGEST_BACKOFF = 1.0, 30.0
_PENDING_BYTES = 16 * 1024 * 1024
_FOREVER = 10**6
AWAY = "The event engine is out of reach; try again in a moment"


class RefusedByEngineError(Exception):
    """JetStream's API answered with an error."""

    def __init__(self, code: int, description: str) -> None:
        super().__init__(f"{description} ({code})")
        self.code = code
        """JetStream's error code."""
        self.description = description


class EngineConnection(KeptConnection):
    """Requests to the engine. ``run`` connects, and stays connected until it is cancelled."""

    def __init__(
        self,
        *,
        urls: list[str],
        credentials_file: Path,
        streams: EventStreams,
        trust: Trust | None = None,
    ) -> None:
        """``trust``: see EngineClient."""
        super().__init__(
            urls,
            name=streams.environment,
            first_backoff=_FIRST_BACKOFF,
            longest_backoff=_LONGEST_BACKOFF,
            pending_size=_PENDING_BYTES,
            inbox_prefix=streams.inbox,
            trust=trust,
            **RECONNECTING,
        )
        self.streams = streams
        self._credentials_file = credentials_file
        self._credentials: Credentials | None = None
        self._user = ConnectingUser(self._current)
        self.client: Client = EngineClient()
        """Another one after the engine has refused the credentials: subscriptions end with it."""
        self.connected = asyncio.Event()
        self._replaced = asyncio.Event()
        self.on_connect: list[Callable[[], None]] = []
        """Called after each connect, also the first."""
        self.heard = 0.0
        """What comes now was sent after this time (monotonic): the engine has answered something asked then."""
        self._asking: asyncio.Task[None] | None = None
        self._last_error = ""

    def user(self) -> ConnectingUser:
        """See KeptConnection."""
        return self._user

    def opened(self, client: Client) -> None:
        """See KeptConnection."""
        self.client = client
        self._replaced.set()
        self._replaced = asyncio.Event()
        self._connected()

    def ended(self) -> None:
        """See KeptConnection."""
        self.connected.clear()

    def retried(self, reason: str, failures: int) -> None:
        """See KeptConnection. After a refusal, the credentials in the file may be newer."""
        self._log(f"no connection: {reason}")

    async def failed(self, error: Exception) -> None:
        """See KeptConnection."""
        await super().failed(error)
        self._log(described(error) if self.connected.is_set() else f"no connection: {described(error)}")

    async def lost(self) -> None:
        """See KeptConnection."""
        if self.connected.is_set():
            logger.warning("The connection to the event engine is lost; connecting again")
        self.connected.clear()

    async def restored(self) -> None:
        """See KeptConnection."""
        self._connected()

    async def replaced(self, client: Client) -> None:
        """Wait until the connection has another client than this one."""
        if self.client is client:
            await self._replaced.wait()

    async def close(self) -> None:
        """Ends the connection; nats-py sends what is buffered before. ``run`` does the same when it is cancelled."""
        await close(self.client)

    def ask(self) -> None:
        """Have ``heard`` brought up to date, soon."""
        if self.connected.is_set() and (self._asking is None or self._asking.done()):
            self._asking = asyncio.create_task(self._ask())

    async def request(
        self,
        subject: str,
        content: bytes = b"",
        *,
        headers: Mapping[str, str] | None = None,
    ) -> Msg:
        """The answer; raises EventsUnavailableError."""
        if not self.connected.is_set():
            try:
                async with asyncio.timeout(_WAIT_FOR_CONNECTION):
                    await self.connected.wait()
            except TimeoutError:
                raise EventsUnavailableError(AWAY) from None
        began = time.monotonic()
        try:
            answer = await self.client.request(
                subject, content, timeout=REQUEST_SECONDS, headers=dict(headers) if headers else None
            )
        except nats.errors.NoRespondersError:
            raise EventsUnavailableError(
                "The event engine does not have the streams of this environment yet; try again in a moment"
            ) from None
        except nats.errors.MaxPayloadError:
            raise MessageTooLargeError("The event engine takes no message of this size") from None
        except (nats.errors.Error, TimeoutError, OSError) as error:
            raise EventsUnavailableError(f"{AWAY} ({type(error).__name__})") from None
        self.heard = max(self.heard, began)
        return answer

    async def api(self, subject: str, **body: Any) -> dict[str, Any]:
        """An answer of JetStream's API; raises RefusedByEngineError and EventsUnavailableError."""
        answer = await self.request(f"$JS.API.{subject}", json.dumps(body).encode() if body else b"")
        return parsed(answer)

    async def get(self, subject: str, **body: Any) -> Msg | None:
        """A stored message; None where there is none. Raises EventsUnavailableError."""
        answer = await self.request(
            f"$JS.API.DIRECT.GET.{subject}", json.dumps(body).encode() if body else b""
        )
        status = answer_status(answer)
        if status == "404":
            return None
        if status is not None:
            raise EventsUnavailableError(f"The event engine refused to read ({status or 'no status'})")
        return answer

    async def _ask(self) -> None:
        began = time.monotonic()
        try:
            # nats-py stops reading when there comes an answer to a ping that was given up.
            await self.client.flush(timeout=_FOREVER)
        except nats.errors.Error:
            return
        self.heard = max(self.heard, began)

    def _current(self) -> Credentials:
        """The credentials in the file; the last ones where that cannot be read."""
        try:
            self._credentials = Credentials.parse(self._credentials_file.read_text(encoding="ascii"))
        except (OSError, ValueError) as error:
            if self._credentials is None:
                raise nats.errors.Error(f"the credentials cannot be read: {reason(error)}") from None
            logger.warning("The credentials for the event engine cannot be read: %s", reason(error))
        return self._credentials

    def _log(self, text: str) -> None:
        # While the engine is away, each attempt to connect fails: one line for each reason is enough.
        repeated = not self.connected.is_set() and text == self._last_error
        self._last_error = text
        logger.log(logging.DEBUG if repeated else logging.WARNING, "The event engine: %s", text)

    def _connected(self) -> None:
        logger.info("Connected to the event engine")
        self._last_error = ""
        if self._asking is not None:
            self._asking.cancel()
        self.heard = time.monotonic()
        self.connected.set()
        for call in self.on_connect:
            call()


def parsed(answer: Msg) -> dict[str, Any]:
    """The content of an answer of JetStream; raises RefusedByEngineError and EventsUnavailableError."""
    try:
        content: dict[str, Any] = json.loads(answer.data)
    except ValueError:
        raise EventsUnavailableError("The event engine answered with something else than JSON") from None
    if error := content.get("error"):
        raise RefusedByEngineError(error.get("err_code", 0), error.get("description", ""))
    return content
