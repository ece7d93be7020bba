"""Pulls messages of a consumer as there is room for them; the engine keeps the request until there are some."""

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from tieline.errors import reason
from tieline.events.engine.connection import EngineConnection
from tieline_engine.client import delivery_status

logger = logging.getLogger("tieline.events")

_EXPIRES_SECONDS = 300.0
_HEARTBEAT_SECONDS = 60.0
_PAUSE_SECONDS = 1.0
_MAX_BATCH = 500
_MAX_BATCH_BYTES = 32 * 1024 * 1024
_PENDING_MESSAGES = 10_000
_RETRY_SECONDS = 1.0
_ANSWERED = frozenset(("Batch Completed", "Message Size Exceeds MaxBytes"))
"""What the engine says of a request that brought all it could."""


class Puller:
    """Hands each message of one stream's consumer to ``take``. Run ``run`` as a task."""

    def __init__(
        self,
        connection: EngineConnection,
        stream: str,
        consumer: str,
        *,
        take: Callable[[Msg], None],
        room: Callable[[], int],
    ) -> None:
        """``room`` is how many messages more may come; call ``wake`` when it has grown."""
        self._connection = connection
        self._subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}"
        self._take = take
        self._room = room
        self._asked = 0
        """Messages that were asked for, and neither came nor were refused."""
        self._generation = 0
        self._last_sign = 0.0
        self._refused = False
        self._warned = False
        self._wake = asyncio.Event()
        self._subscription: Subscription | None = None

    def wake(self) -> None:
        """There may be room."""
        self._wake.set()

    def connected(self) -> None:
        """The engine has forgotten what was asked for."""
        self._asked = 0
        self._generation += 1
        self.wake()

    async def run(self) -> None:
        """Pull until cancelled; then no message comes any more."""
        while True:
            await self._connection.connected.wait()
            try:
                await self._pull(self._connection.client)
            except (nats.errors.Error, OSError) as error:
                logger.warning("Events cannot be asked for, trying again: %s", reason(error))
                await asyncio.sleep(_RETRY_SECONDS)

    async def _pull(self, client: Client) -> None:
        """Pull as long as the connection has this client."""
        loop = asyncio.get_running_loop()
        inbox = client.new_inbox()
        self._subscription = await client.subscribe(
            f"{inbox}.*", cb=self._arrived, pending_msgs_limit=_PENDING_MESSAGES, pending_bytes_limit=-1
        )
        try:
            while True:
                await self._connection.connected.wait()
                if self._connection.client is not client:
                    return
                if self._asked and loop.time() - self._last_sign > 2 * _HEARTBEAT_SECONDS:
                    self.connected()
                if self._refused:
                    # A deleted consumer, a leader that changes: the platform is about to mend it.
                    await asyncio.sleep(_PAUSE_SECONDS)
                    self._refused = False
                self._wake.clear()
                wanted = min(self._room() - self._asked, _MAX_BATCH)
                # Many small requests would cost more than they bring.
                if wanted > 0 and (wanted >= self._asked or not self._asked):
                    await self._ask(f"{inbox}.{self._generation}", wanted)
                    self._last_sign = loop.time()
                try:
                    async with asyncio.timeout(_HEARTBEAT_SECONDS):
                        await self._wake.wait()
                except TimeoutError:
                    continue
        finally:
            await self._unsubscribe()

    async def _ask(self, inbox: str, batch: int) -> None:
        content = {
            "batch": batch,
            "max_bytes": _MAX_BATCH_BYTES,
            "expires": int(_EXPIRES_SECONDS * 1e9),
            "idle_heartbeat": int(_HEARTBEAT_SECONDS * 1e9),
        }
        self._asked += batch
        await self._connection.client.publish(self._subject, json.dumps(content).encode(), reply=inbox)

    async def _arrived(self, message: Msg) -> None:
        self._last_sign = asyncio.get_running_loop().time()
        headers = message.headers or {}
        status = delivery_status(message)
        if status is None:
            self._asked = max(self._asked - 1, 0)
            self._warned = False
            self._take(message)
            return
        if status == "100":
            return
        if not message.subject.endswith(f".{self._generation}"):
            return
        pending = int(headers.get("Nats-Pending-Messages") or self._asked)
        self._asked = max(self._asked - pending, 0)
        # A request that brought all it could is over, and one that timed out: the next one follows at once.
        if status not in ("404", "408", "409") and not self._warned:
            logger.warning("The event engine does not have the streams of this environment yet (%s)", status)
            self._warned = True
        self._refused = status != "408" and headers.get("Description") not in _ANSWERED
        self.wake()

    async def _unsubscribe(self) -> None:
        if self._subscription is not None:
            with contextlib.suppress(nats.errors.Error, OSError):
                await self._subscription.unsubscribe()
