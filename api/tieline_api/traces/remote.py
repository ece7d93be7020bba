"""Traces in a store elsewhere: what Tempo and Jaeger have in common.

A source finds candidates; which of them are wanted, in what order, and where the next page begins, is decided
here, by the same rules as in the embedded store. So a source that finds too much does no harm.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

import aiohttp

from tieline_api.traces.origins import ENVIRONMENT, Origin, is_of, shown
from tieline_api.traces.query import Page, Position, RunQuery
from tieline_api.traces.spans import Owner, Span

TIMEOUT = aiohttp.ClientTimeout(total=10, connect=5)
MAX_ANSWER = 64 * 1024 * 1024
LOOK_BACK = 7 * 86400 * 10**9
"""Nanoseconds before its end that are searched where nobody says a start: stores want both."""


class RemoteStoreError(Exception):
    """The store elsewhere gave no answer that can be used; the message is for the person who asked."""


class Source(Protocol):
    """A store that can be asked."""

    async def trace(self, trace_id: bytes) -> list[Span]:
        """All its spans of a trace, whosever they are; raises RemoteStoreError."""

    async def search(self, service: str, wanted: RunQuery, *, limit: int) -> list[list[Span]]:
        """Up to ``limit`` traces of a service that may be wanted, the newest first; raises RemoteStoreError."""


class HttpSource:
    """What the clients of such stores have in common: where the store is, and how it is asked."""

    name: ClassVar[str]
    """What people know it as."""

    def __init__(
        self,
        url: str,
        client: aiohttp.ClientSession,
        *,
        headers: Callable[[], Mapping[str, str]] = dict,
        now: Callable[[], int] = time.time_ns,
    ) -> None:
        self._url = url.rstrip("/")
        self._client = client
        self._headers = headers
        self._now = now

    async def _ask(
        self, path: str, parameters: Mapping[str, Any] | None = None, *, accept: str = "application/json"
    ) -> bytes | None:
        """The answer to a GET, None for 404; raises RemoteStoreError."""
        headers = {**self._headers(), "Accept": accept}
        try:
            async with self._client.get(
                f"{self._url}{path}",
                params=parameters,
                headers=headers,
                timeout=TIMEOUT,
                allow_redirects=False,
            ) as response:
                if response.status == 404:
                    return None
                if response.status != 200:
                    raise RemoteStoreError(f"{self.name} answered {response.status}")
                content = bytearray()
                async for chunk in response.content.iter_chunked(65536):
                    content += chunk
                    if len(content) > MAX_ANSWER:
                        raise RemoteStoreError(
                            f"{self.name} answered with more than {MAX_ANSWER // 2**20} MiB"
                        )
                return bytes(content)
        except (aiohttp.ClientError, TimeoutError, OSError, asyncio.IncompleteReadError):
            raise RemoteStoreError(f"{self.name} cannot be reached at the moment") from None


async def trace(source: Source, organisation: str, project: str, trace_id: bytes) -> list[Span]:
    """The spans of a trace that are the project's, in the order of their start; raises RemoteStoreError."""
    found = await source.trace(trace_id)
    mine = [span for span in found if is_of(span.attributes, organisation, project)]
    return sorted((shown(span) for span in mine), key=lambda span: span.start)


async def runs(source: Source, origin: Origin, wanted: RunQuery) -> Page:
    """The page of an environment's runs that ``wanted`` describes; raises RemoteStoreError."""
    limit = wanted.first + 1
    traces = await source.search(origin.service, wanted, limit=limit)
    entries = [
        span
        for spans in traces
        for mine in [[span for span in spans if _is_from(span, origin.owner)]]
        if _fits(mine, wanted)
        for span in mine
        if span.entry and _is_wanted(span, wanted)
    ]
    entries.sort(key=position, reverse=True)
    page = entries[: wanted.first]
    if len(entries) > wanted.first:
        return Page([shown(span) for span in page], position(page[-1]))
    # The store stopped looking before it had found them all: go on behind the last that it looked at.
    seen = min((position(span) for spans in traces for span in spans if span.entry), default=None)
    further = len(traces) >= limit and seen is not None and (wanted.beyond is None or seen < wanted.beyond)
    return Page([shown(span) for span in page], seen if further else None)


def position(span: Span) -> Position:
    """Where a run stands in a list."""
    return span.start, int.from_bytes(span.span_id) >> 1


def window(wanted: RunQuery, now: int) -> tuple[int, int]:
    """The times between which to search, in nanoseconds: both in."""
    ends = [now + 60 * 10**9, *([wanted.end] if wanted.end is not None else [])]
    if wanted.beyond is not None:
        ends.append(wanted.beyond[0])
    end = min(ends)
    start = max(0, wanted.start if wanted.start is not None else end - LOOK_BACK)
    return min(start, end), end


def _is_from(span: Span, owner: Owner) -> bool:
    mine = is_of(span.attributes, owner.organisation, owner.project)
    return mine and span.attributes.get(ENVIRONMENT) == owner.environment


def _fits(spans: Sequence[Span], wanted: RunQuery) -> bool:
    """Whether a trace has what is looked up in all of its spans."""
    return all(any(span.attributes.get(key) == value for span in spans) for key, value in wanted.filter)


def _is_wanted(span: Span, wanted: RunQuery) -> bool:
    if wanted.task is not None and (span.task != wanted.task or not span.task):
        return False
    if wanted.error is not None and wanted.error is not (span.status == "ERROR"):
        return False
    if wanted.start is not None and span.start < wanted.start:
        return False
    if wanted.end is not None and span.start >= wanted.end:
        return False
    exact = {"executionId": span.execution_id, "task": span.task}
    if any(key in exact and exact[key] != value for key, value in wanted.filter):
        return False
    return wanted.beyond is None or position(span) < wanted.beyond
