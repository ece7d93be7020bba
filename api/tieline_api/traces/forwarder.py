"""Sends export requests on to a store elsewhere, in the background: whoever hands them in never waits."""

import asyncio
import contextlib
import logging
from collections import Counter, deque
from collections.abc import Callable, Mapping

import aiohttp

from tieline_common.backoff import exponential, jitter

logger = logging.getLogger("tieline.traces")

MAX_QUEUED_BYTES = 32 * 1024 * 1024
_TIMEOUT = aiohttp.ClientTimeout(total=15, connect=5)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
_TRANSIENT = frozenset({408, 429, 500, 502, 503, 504})

Headers = Callable[[], Mapping[str, str]]


class Forwarder:
    """A bounded queue of export requests, and what empties it."""

    def __init__(
        self, url: str, *, headers: Headers = dict, max_bytes: int = MAX_QUEUED_BYTES, what: str = "traces"
    ) -> None:
        """``what`` it sends, for the log."""
        self._url = url
        self._what = what
        self._headers = headers
        self._max_bytes = max_bytes
        self._waiting: deque[tuple[str, bytes, int]] = deque()
        self._bytes = 0
        self._arrived = asyncio.Event()
        self._emptied = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.written = 0
        """Spans that were sent on."""
        self.dropped: Counter[str] = Counter()
        """Spans that were not, by reason: ``queue_full``, ``refused``, ``stopped``."""

    @property
    def queued(self) -> int:
        """Spans that wait to be sent."""
        return sum(spans for _, _, spans in self._waiting)

    def start(self) -> None:
        """Begin to send."""
        self._task = asyncio.create_task(self._work(), name=f"forward {self._what}")

    async def stop(self, seconds: float = 5.0) -> None:
        """Send what waits, for at most ``seconds``; what is left then is dropped."""
        if self._waiting and self._task is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._emptied.wait(), seconds)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self.dropped["stopped"] += self.queued
        self._waiting.clear()

    def offer(self, content_type: str, body: bytes, spans: int) -> bool:
        """Queue a request, or say that too much waits already."""
        if self._bytes + len(body) > self._max_bytes:
            self.dropped["queue_full"] += spans
            return False
        self._waiting.append((content_type, body, spans))
        self._bytes += len(body)
        self._emptied.clear()
        self._arrived.set()
        return True

    async def _work(self) -> None:
        failures = 0
        async with aiohttp.ClientSession(timeout=_TIMEOUT, cookie_jar=aiohttp.DummyCookieJar()) as client:
            while True:
                if not self._waiting:
                    self._emptied.set()
                    self._arrived.clear()
                    await self._arrived.wait()
                content_type, body, spans = self._waiting[0]
                status = await self._send(client, content_type, body)
                if status in _TRANSIENT:
                    if not failures:
                        logger.warning(
                            "Cannot send %s to %s (%d), trying again", self._what, self._url, status
                        )
                    failures += 1
                    longest = exponential(failures + 1, first=_FIRST_PAUSE, cap=_LONGEST_PAUSE)
                    await asyncio.sleep(jitter(longest, 0.5, 1.0))
                    continue
                if failures:
                    logger.info("Sending %s works again", self._what)
                failures = 0
                self._waiting.popleft()
                self._bytes -= len(body)
                if 200 <= status < 300:
                    self.written += spans
                else:
                    logger.warning("%s refused %s: it answered %d", self._url, self._what, status)
                    self.dropped["refused"] += spans

    async def _send(self, client: aiohttp.ClientSession, content_type: str, body: bytes) -> int:
        headers = {**self._headers(), "Content-Type": content_type}
        try:
            # No redirects: the headers are for this address alone.
            async with client.post(self._url, data=body, headers=headers, allow_redirects=False) as response:
                await response.read()
                return response.status
        except (aiohttp.ClientError, TimeoutError, OSError):
            return 503
