"""The operator's connections to the event engine: a lasting one for the servers, and short ones for single accounts."""

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from nats.aio.client import Client
from nats.aio.msg import Msg

from tieline_common.authorities import Trust
from tieline_core.engine.account_clients import CONNECT_EVENTS, connected_client
from tieline_core.engine.trust import AccountSigner
from tieline_engine.client import EngineClient
from tieline_engine.connection import ONCE, ConnectingUser, KeptConnection, close, connect, ensure_connected
from tieline_engine.credentials import Credentials

logger = logging.getLogger(__name__)

_FIRST_BACKOFF, _LONGEST_BACKOFF = 0.5, 30.0
_CLIENT = "tieline-operator"
_USER = "operator"
_VALID = timedelta(days=1)
"""After that the server ends the connection, and another one is made."""


@asynccontextmanager
async def account_client(
    urls: Sequence[str], signer: AccountSigner, trust: Trust | None = None
) -> AsyncIterator[Client]:
    """A client with all rights in an account, for a few requests. ``trust``: see EngineClient.

    Raises TimeoutError, OSError and the errors of nats-py.
    """
    client = EngineClient(trust)
    try:
        await connect(client, urls, _user_of(signer), name=_CLIENT, error_cb=_log_quietly, **ONCE)
        ensure_connected(client)
        yield client
    finally:
        await close(client)


async def _log_quietly(error: Exception) -> None:
    """What ends a connection is raised to who uses it; what goes wrong when it is closed matters to nobody."""
    logger.debug("A connection to the event engine: %s", type(error).__name__)


def _user_of(signer: AccountSigner) -> ConnectingUser:
    def make() -> Credentials:
        now = datetime.now(UTC)
        return Credentials.parse(signer.credentials(_USER, at=now, expires=now + _VALID))

    return ConnectingUser(make)


class EngineConnection(KeptConnection):
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
        trust: Trust | None = None,
    ) -> None:
        """``connected`` is called each time that there is a new connection.

        ``client_connected`` is called with account and name of each client that connects to an account of the engine.
        """
        super().__init__(
            urls,
            name=_CLIENT,
            first_backoff=first_backoff,
            longest_backoff=longest_backoff,
            trust=trust,
            **ONCE,
        )
        self._signer = signer
        self._connected = connected
        self._client_connected = client_connected
        self.client: Client | None = None
        """None while the engine is away."""

    def user(self) -> ConnectingUser | None:
        """See KeptConnection."""
        signer = self._signer()
        return _user_of(signer) if signer is not None else None

    async def prepare(self, client: Client) -> None:
        """See KeptConnection."""
        ensure_connected(client)
        await client.subscribe(CONNECT_EVENTS, cb=self._on_client)
        # What connects from now on is announced; a survey finds what is connected already.
        await client.flush()

    def opened(self, client: Client) -> None:
        """See KeptConnection."""
        logger.info("Connected to the event engine")
        self.client = client
        self._connected()

    def ended(self) -> None:
        """See KeptConnection."""
        self.client = None

    def retried(self, reason: str, failures: int) -> None:
        """See KeptConnection."""
        logger.log(
            logging.WARNING if failures == 1 else logging.INFO,
            "The event engine is away, trying again: %s",
            reason,
            extra={"attempt": failures},
        )

    async def _on_client(self, event: Msg) -> None:
        if (found := connected_client(event)) is not None:
            self._client_connected(*found)
