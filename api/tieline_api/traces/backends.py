"""The two places that traces can be kept in, with one face."""

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol, TypeVar

import aiohttp

from tieline_api import errors
from tieline_api.engine.connection import Engine
from tieline_api.settings import Settings
from tieline_api.sqlite_files import TooSlowError
from tieline_api.traces import otlp, remote
from tieline_api.traces.forwarder import Forwarder
from tieline_api.traces.jaeger import Jaeger
from tieline_api.traces.origins import Origin, with_origin
from tieline_api.traces.otlp_batch import Batch
from tieline_api.traces.query import Page, RunQuery
from tieline_api.traces.remote import RemoteStoreError, Source
from tieline_api.traces.span_stream import SpanStream
from tieline_api.traces.spans import Span
from tieline_api.traces.store import Limits, TraceStore
from tieline_api.traces.tempo import Tempo

T = TypeVar("T")

_SMALL = 64 * 1024
_MIB = 1024 * 1024


class SpanCounts(Protocol):
    """What became of the spans that were handed in."""

    @property
    def written(self) -> int:
        """Those that were stored, or sent on."""

    @property
    def dropped(self) -> Counter[str]:
        """Those that were not, by reason."""

    @property
    def queued(self) -> int:
        """Those that wait."""


class EmbeddedTraces:
    """In a file of this replica's."""

    def __init__(
        self,
        path: Path,
        limits: Limits,
        *,
        engine: Engine,
        serves: Callable[[str], bool],
    ) -> None:
        """Spans of the organisations that are served go through ``engine`` to all replicas."""
        self.store = TraceStore(path, limits)
        self.counts: SpanCounts = self
        days = limits.max_age_seconds / 86400
        self._stream = SpanStream(engine, self.store, days=days, serves=serves)

    @property
    def written(self) -> int:
        """Spans that were stored."""
        return self.store.written

    @property
    def dropped(self) -> Counter[str]:
        """Spans that were not, by reason."""
        return self.store.dropped

    @property
    def queued(self) -> int:
        """Spans that wait to be written."""
        return self.store.queued + self._stream.queued

    @property
    def stalled(self) -> int:
        """Organisations whose spans cannot be read further."""
        return self._stream.stalled

    async def start(self) -> None:
        """Begin to write."""
        self.store.start()
        await self._stream.start()

    async def stop(self) -> None:
        """Write what waits, and close the file."""
        await self._stream.stop()
        await asyncio.to_thread(self.store.stop)

    async def take(self, origin: Origin, content_type: str, body: bytes) -> Batch | None:
        """Queues the spans of an OTLP request; what was not taken of it, None when too much waits.

        Raises OtlpDecodeError and TooManySpansError.
        """
        batch = await _aside(len(body), lambda: otlp.parse(content_type, body))
        if not batch.spans:
            return batch
        if await self._stream.offer(origin.owner, content_type, body, batch.spans):
            return batch
        return batch if self.store.offer(origin.owner, batch.spans) else None

    async def trace(self, organisation: str, project: str, trace_id: bytes) -> list[Span]:
        """The project's spans of a trace, [] for none; raises ApiError."""
        await self._settle(organisation)
        return await self._read(lambda: self.store.trace(organisation, project, trace_id))

    async def runs(self, origin: Origin, wanted: RunQuery) -> Page:
        """A page of an environment's runs; raises ApiError."""
        await self._settle(origin.owner.organisation)
        return await self._read(lambda: self.store.runs(origin.owner, wanted))

    async def _settle(self, organisation: str) -> None:
        """After a start: what other replicas have received, and this one before, is read first."""
        await self._stream.settle(organisation)

    @staticmethod
    async def _read(question: Callable[[], T]) -> T:
        try:
            return await asyncio.to_thread(question)
        except TooSlowError:
            raise errors.unavailable(
                "Looking for traces took too long: narrow it down by start, end, task or executionId"
            ) from None
        except sqlite3.Error:
            raise errors.unavailable("The stored traces cannot be read at the moment") from None


class RemoteTraces:
    """In Tempo or Jaeger: sent on by OTLP with whose they are, and asked for there."""

    def __init__(self, *, forwarder: Forwarder, source: Callable[[aiohttp.ClientSession], Source]) -> None:
        self._forwarder = self.counts = forwarder
        self._make_source = source
        self._client: aiohttp.ClientSession | None = None
        self._source: Source | None = None
        self.stalled = 0
        """See EmbeddedTraces: no stream is read."""

    async def start(self) -> None:
        """Begin to send."""
        self._client = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar())
        self._source = self._make_source(self._client)
        self._forwarder.start()

    async def stop(self) -> None:
        """Send what waits, and close connections."""
        await self._forwarder.stop()
        if self._client is not None:
            await self._client.close()

    async def take(self, origin: Origin, content_type: str, body: bytes) -> Batch | None:
        """Queue spans; see EmbeddedTraces."""
        marked, spans = await _aside(len(body), lambda: with_origin(content_type, body, origin))
        return Batch() if self._forwarder.offer(content_type, marked, spans) else None

    async def trace(self, organisation: str, project: str, trace_id: bytes) -> list[Span]:
        """One trace; see EmbeddedTraces."""
        try:
            return await remote.trace(self._asked(), organisation, project, trace_id)
        except RemoteStoreError as error:
            raise errors.unavailable(str(error)) from None

    async def runs(self, origin: Origin, wanted: RunQuery) -> Page:
        """A page of runs; see EmbeddedTraces."""
        try:
            return await remote.runs(self._asked(), origin, wanted)
        except RemoteStoreError as error:
            raise errors.unavailable(str(error)) from None

    def _asked(self) -> Source:
        if self._source is None:
            raise errors.unavailable("The API is about to start; try again in a moment")
        return self._source


Traces = EmbeddedTraces | RemoteTraces
"""Takes spans of environments, and answers questions about them."""


async def _aside(size: int, work: Callable[[], T]) -> T:
    """Small requests are read at once, large ones where they hold nobody up."""
    return work() if size <= _SMALL else await asyncio.to_thread(work)


def make_traces(settings: Settings, engine: Engine, serves: Callable[[str], bool]) -> Traces:
    """The place that the configuration names."""
    if settings.traces_store == "embedded":
        return EmbeddedTraces(
            Path(settings.traces_file),
            Limits(max_bytes=settings.traces_mebibytes * _MIB, max_age_seconds=settings.traces_days * 86400),
            engine=engine,
            serves=serves,
        )
    kind = Tempo if settings.traces_store == "tempo" else Jaeger
    headers = headers_in(settings.traces_headers_file)
    return RemoteTraces(
        forwarder=Forwarder(settings.traces_otlp_url, headers=headers),
        source=lambda client: kind(settings.traces_query_url, client, headers=headers),
    )


def headers_in(path: str | None) -> Callable[[], Mapping[str, str]]:
    """Headers of requests to an external backend, ``Name: value`` a line; read each time, as they may be replaced."""

    def read() -> Mapping[str, str]:
        if path is None:
            return {}
        try:
            lines = Path(path).read_text().splitlines()
        except (OSError, UnicodeDecodeError):
            return {}
        pairs = (line.partition(":") for line in lines if line.strip())
        return {name.strip(): value.strip() for name, _, value in pairs}

    return read
