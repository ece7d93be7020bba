"""Sends spans in batches, in the background. No run ever waits for it, or fails by it."""

import asyncio
import gzip
import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field

import aiohttp

from tieline.telemetry.otlp_json import Redact, encode
from tieline.telemetry.spans import Span, Value
from tieline.telemetry.trace_endpoint import Destination
from tieline_common.backoff import exponential, jitter

logger = logging.getLogger("tieline.tracing")

_BATCH = 512
_TIMEOUT = aiohttp.ClientTimeout(total=10, connect=5)
_LONGEST_BACKOFF = 30.0
_TRANSIENT = frozenset({408, 429, 500, 502, 503, 504})


@dataclass(eq=False)
class Exporter:
    """A bounded queue of spans, and what empties it. ``take`` may be called in any thread."""

    destination: Destination | None
    _: KW_ONLY
    resource: Mapping[str, Value]
    redact: Redact = lambda text: text
    interval: float = 1.0
    longest_queue: int = 4096
    dropped: int = 0
    """Spans that were not sent: the queue was full, or the destination refused them."""
    sent: int = 0
    _waiting: deque[Span] = field(default_factory=deque)
    _loop: asyncio.AbstractEventLoop | None = None
    _full: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a whole batch waits: it is sent at once, so that a busy pod does not run out of room."""

    def take(self, span: Span) -> None:
        """Queue a span that has ended; without room it is counted and dropped."""
        if self.destination is None:
            return
        waiting = self._waiting
        if len(waiting) >= self.longest_queue:
            self.dropped += 1
            return
        waiting.append(span)
        if len(waiting) == _BATCH and self._loop is not None:
            self._loop.call_soon_threadsafe(self._full.set)

    async def run(self) -> None:
        """Send until cancelled."""
        destination = self.destination
        if destination is None:
            return
        self._loop = asyncio.get_running_loop()
        try:
            async with self._client() as client:
                await self._send_on(client, destination)
        finally:
            # Threads may still end spans when the loop is gone.
            self._loop = None

    async def _send_on(self, client: aiohttp.ClientSession, destination: Destination) -> None:
        failures = reported = 0
        while True:
            if await self._empty(client, destination, await self._due(failures)):
                if failures:
                    logger.info("Traces are sent again")
                failures = 0
            else:
                if not failures:
                    logger.warning("Cannot send traces to %s, trying again", destination.shown)
                failures += 1
            if self.dropped > reported:
                logger.warning("Dropped %d spans", self.dropped - reported)
                reported = self.dropped

    async def flush(self, seconds: float = 5.0) -> None:
        """Send what waits, once, for at most ``seconds``; what is left then is dropped. For the end."""
        destination = self.destination
        if destination is None or not self._waiting:
            return
        try:
            async with asyncio.timeout(seconds), self._client() as client:
                await self._empty(client, destination, len(self._waiting))
        except TimeoutError:
            pass
        finally:
            self.dropped += len(self._waiting)
            self._waiting.clear()

    async def _empty(self, client: aiohttp.ClientSession, destination: Destination, count: int) -> bool:
        """Send the first ``count`` spans, batch after batch; False when the destination is away, and they wait on."""
        while (size := min(count, _BATCH, len(self._waiting))) > 0:
            count -= size
            batch = [self._waiting.popleft() for _ in range(size)]
            try:
                status = await self._send(client, destination, batch)
            except (aiohttp.ClientError, TimeoutError, OSError):
                status = 503
            except asyncio.CancelledError:
                self._put_back(batch)
                raise
            except Exception:
                # Whatever is wrong with these spans, the next ones are another matter.
                logger.exception("Cannot encode traces")
                status = 400
            if status in _TRANSIENT:
                self._put_back(batch)
                return False
            if 200 <= status < 300:
                self.sent += len(batch)
            else:
                logger.warning("%s refused traces: it answered %d", destination.shown, status)
                self.dropped += len(batch)
        return True

    async def _send(self, client: aiohttp.ClientSession, destination: Destination, batch: list[Span]) -> int:
        body = gzip.compress(encode(batch, resource=self.resource, redact=self.redact), compresslevel=1)
        # No redirects: the token is for this address alone.
        async with client.post(
            destination.url,
            data=body,
            headers=destination.headers(),
            allow_redirects=False,
            ssl=destination.trust() if destination.trust is not None else True,
        ) as response:
            await response.read()
            return response.status

    def _put_back(self, batch: list[Span]) -> None:
        self._waiting.extendleft(reversed(batch))
        while len(self._waiting) > self.longest_queue:
            self._waiting.pop()
            self.dropped += 1

    async def _due(self, failures: int) -> int:
        """Wait until it is time to send, and tell how many spans: all after a while, or whole batches earlier."""
        if failures:
            longest = exponential(failures + 1, first=self.interval, cap=_LONGEST_BACKOFF)
            await asyncio.sleep(jitter(longest, 0.5, 1.0))
            return len(self._waiting)
        try:
            async with asyncio.timeout(self.interval):
                await self._full.wait()
        except TimeoutError:
            return len(self._waiting)
        self._full.clear()
        # The rest waits for company: a request for a few spans costs as much as one for a batch.
        return len(self._waiting) // _BATCH * _BATCH

    @staticmethod
    def _client() -> aiohttp.ClientSession:
        return aiohttp.ClientSession(timeout=_TIMEOUT, cookie_jar=aiohttp.DummyCookieJar())
