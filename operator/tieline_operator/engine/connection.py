"""The operator's connections to the event engine: a lasting one for the servers, and short ones for single accounts."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from nats.aio.client import Client
from nats.aio.msg import Msg

from tieline_common.backoff import exponential, jitter
from tieline_core.engine.account_clients import CONNECT_EVENTS, connected_client
from tieline_core.engine.trust import AccountSigner
from tieline_protocol.engine_credentials import Credentials

logger = logging.getLogger(__name__)

CONNECT_SECONDS = 10.0
PING_SECONDS = 20
_UNANSWERED_PINGS = 2
_SERVER_SECONDS = 4
_CLOSE_SECONDS = 2.0
_FIRST_BACKOFF, _LONGEST_BACKOFF = 0.5, 30.0
# A connection that lived as long as this worked: what ends it counts as the first failure.
_STEADY_SECONDS = 10.0
_USER = "operator"
_VALID = timedelta(days=1)
"""After that the server ends the connection, and another one is made."""


@asynccontextmanager
async def account_client(urls: Sequence[str], signer: AccountSigner) -> AsyncIterator[Client]:
    """A client with all rights in an account, for a few requests. Raises TimeoutError and the errors of nats-py."""
    client = Client()
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await _connect(client, urls, signer)
        yield client
    finally:
        await _close(client)


async def _connect(client: Client, urls: Sequence[str], signer: AccountSigner, **options: Any) -> None:
    expires = datetime.now(UTC) + _VALID
    user = Credentials.parse(signer.credentials(_USER, at=datetime.now(UTC), expires=expires))
    await client.connect(
        servers=list(urls),
        name="tieline-operator",
        user_jwt_cb=user.user_jwt_cb,
        signature_cb=user.signature_cb,
        allow_reconnect=False,
        connect_timeout=_SERVER_SECONDS,
        ping_interval=PING_SECONDS,
        max_outstanding_pings=_UNANSWERED_PINGS,
        reconnect_time_wait=1,
        max_reconnect_attempts=1,
        **options,
    )
    if not client.is_connected:
        # nats-py returns, too, when the server takes longer than connect_timeout to say whether it lets somebody in.
        raise TimeoutError


class EngineConnection:
    """A client of the servers' system account.

    The client's own reconnecting has no backoff, and ends when the server refuses the credentials. So a connection that
    breaks is closed, and another one is made.
    """

    def __init__(
        self,
        urls: Sequence[str],
        signer: Callable[[], AccountSigner | None],
        connected: Callable[[], None],
        *,
        client_connected: Callable[[str, str], None] = lambda _account, _client: None,
        first_backoff: float = _FIRST_BACKOFF,
        longest_backoff: float = _LONGEST_BACKOFF,
    ) -> None:
        """``connected`` is called each time that there is a new connection.

        ``client_connected`` is called with account and name of each client that connects to an account of the engine.
        """
        self._urls = list(urls)
        self._signer = signer
        self._connected = connected
        self._client_connected = client_connected
        self._first_backoff = first_backoff
        self._longest_backoff = longest_backoff
        self._error: Exception | None = None
        self.client: Client | None = None
        """None while the engine is away."""

    async def run(self) -> None:
        """Keeps the connection, for ever."""
        failures = 0
        while True:
            began = time.monotonic()
            reason = await self._session()
            if time.monotonic() - began > _STEADY_SECONDS + CONNECT_SECONDS:
                failures = 0
            failures += 1
            logger.log(
                logging.WARNING if failures == 1 else logging.INFO,
                "The event engine is away, trying again: %s",
                reason,
                extra={"attempt": failures},
            )
            await asyncio.sleep(
                jitter(exponential(failures, first=self._first_backoff, cap=self._longest_backoff))
            )

    async def _session(self) -> str:
        """Connects, and returns once the connection is gone, with the reason."""
        signer = self._signer()
        if signer is None:
            return "its keys are not known"
        client, closed = Client(), asyncio.Event()
        self._error = None

        async def on_closed() -> None:
            closed.set()

        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await _connect(client, self._urls, signer, closed_cb=on_closed, error_cb=self._on_error)
                await client.subscribe(CONNECT_EVENTS, cb=self._on_client)
                # What connects from now on is told of: whoever is connected already is found by a survey.
                await client.flush()
            logger.info("Connected to the event engine")
            self.client = client
            self._connected()
            await closed.wait()
        except TimeoutError:
            return self._reason(f"no connection within {CONNECT_SECONDS:g} s")
        except Exception as error:
            return self._reason(_text(error))
        finally:
            self.client = None
            await _close(client)
        return self._reason("the connection was closed")

    async def _on_client(self, event: Msg) -> None:
        if (found := connected_client(event)) is not None:
            self._client_connected(*found)

    async def _on_error(self, error: Exception) -> None:
        self._error = error

    def _reason(self, text: str) -> str:
        return _text(self._error) if self._error else text


def _text(error: Exception) -> str:
    return str(error) or type(error).__name__


async def _close(client: Client) -> None:
    with suppress(Exception):
        async with asyncio.timeout(_CLOSE_SECONDS):
            await client.close()
