"""Direct runs on their way into the event engine: what pods report of them, and the calls of agents."""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from nats.js.errors import NotFoundError

from tieline_api import errors
from tieline_api.engine.connection import Engine
from tieline_api.engine.errors import EngineUnavailableError, NoStreamError
from tieline_api.errors import ApiError
from tieline_api.runs.model import DIRECT_KINDS
from tieline_api.runs.records import CLOCKS_DIFFER, read_records
from tieline_common.backoff import exponential, jitter
from tieline_common.cancellation import cancel_and_wait
from tieline_protocol.event_streams import EventStreams
from tieline_protocol.run_records import MAX_DIRECT_INPUT, RunRecord, packed

logger = logging.getLogger("tieline.runs")

_REPORTS = 16
"""Reports of pods that are read at once, each of up to 4 MiB."""
_REPORTS_OF_ONE = 4
"""Those of one organisation."""
_MAX_CALLS = 10_000
_MAX_ATTEMPTS = 30
"""How often a call is refused by an engine that is there, such as one that has no stream for it."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 10.0
_STOP_SECONDS = 5.0


def direct_records(content: bytes, *, now: float, with_inputs: bool) -> tuple[list[RunRecord], int]:
    """What a pod reports of direct runs that have ended, within limits, and how many of its records are none.

    A record has what a direct run can have: one attempt that began when the run did, and has ended by ``now``
    (seconds since 1970).
    """
    found, malformed = read_records(content, stored_at=now, kinds=DIRECT_KINDS)
    records = [
        _direct(one.record, now, with_inputs) for one in found if one.record.status in ("succeeded", "failed")
    ]
    return records, malformed + len(found) - len(records)


def _direct(record: RunRecord, now: float, with_inputs: bool) -> RunRecord:
    began = record.queued_at
    ended = min(max(record.ended_at or began, began), max(now + CLOCKS_DIFFER, began))
    keeps = with_inputs and record.input is not None and len(record.input) <= MAX_DIRECT_INPUT
    return RunRecord(
        id=record.id,
        kind=record.kind,
        task=record.task,
        status=record.status,
        attempt=1,
        attempts=1,
        user=record.user,
        activation_id=record.activation_id,
        version=record.version,
        error=record.error,
        trace_id=record.trace_id,
        tags=record.tags,
        progress=record.progress,
        queued_at=began,
        at=ended,
        started_at=began,
        ended_at=ended,
        input=record.input if keeps else None,
        request=record.request if keeps else None,
    )


@dataclass(eq=False)
class _Call:
    streams: EventStreams
    record: RunRecord
    attempts: int = 0


class DirectRuns:
    """Stores direct runs in the event engine. ``start`` and ``stop`` what stores calls in the background."""

    def __init__(self, engine: Engine, counts: Counter[str]) -> None:
        """``counts`` has ``dropped``: the calls that were not stored."""
        self._engine = engine
        self._counts = counts
        self._reports: Counter[str] = Counter()
        self._calls: deque[_Call] = deque()
        self._arrived = asyncio.Event()
        self._emptied = asyncio.Event()
        self._emptied.set()
        self._task: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def report(self, organisation: str) -> AsyncIterator[None]:
        """Room for a report of a pod while it is read and stored. Raises ApiError 429 where there is none."""
        if self._reports.total() >= _REPORTS or self._reports[organisation] >= _REPORTS_OF_ONE:
            raise errors.too_many_requests(
                "Too many reports of runs are being stored: send this one again", retry_after=1
            )
        self._reports[organisation] += 1
        try:
            yield
        finally:
            self._reports[organisation] -= 1
            if not self._reports[organisation]:
                del self._reports[organisation]

    async def store(self, streams: EventStreams, records: list[RunRecord]) -> None:
        """Stores what pods of an environment report; returns once the engine has it. Raises ApiError."""
        await self._publish(streams.direct, await asyncio.to_thread(packed, records))

    def called(self, streams: EventStreams, record: RunRecord) -> None:
        """Stores a call of an agent soon: the call does not wait for it."""
        if len(self._calls) >= _MAX_CALLS:
            self._counts["dropped"] += 1
            return
        self._calls.append(_Call(streams, record))
        self._emptied.clear()
        self._arrived.set()

    async def start(self) -> None:
        """Begins to store calls."""
        self._task = asyncio.create_task(self._store_calls(), name="store calls of agents")

    async def stop(self) -> None:
        """Stores what waits, for a few seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_STOP_SECONDS):
                if self._engine.connected:
                    await self._emptied.wait()
        await cancel_and_wait(self._task)
        self._counts["dropped"] += len(self._calls)

    async def _publish(self, subject: str, content: bytes) -> None:
        try:
            await self._engine.ask(lambda jetstream: jetstream.publish(subject, content))
        except (NoStreamError, NotFoundError):
            raise EngineUnavailableError(
                "The event engine has no stream for direct runs of the organisation yet: try again in a moment"
            ) from None

    async def _store_calls(self) -> None:
        rounds = 0
        while True:
            if not self._calls:
                rounds = 0
                self._emptied.set()
                self._arrived.clear()
                await self._arrived.wait()
            if await self._store_round():
                rounds += 1
                await asyncio.sleep(jitter(exponential(rounds, first=_FIRST_PAUSE, cap=_LONGEST_PAUSE)))

    async def _store_round(self) -> bool:
        """Tries each call that waits, those of an organisation until one of them fails. Whether one did.

        Each organisation has a stream of its own, so one that cannot be stored delays no others.
        """
        failed: set[str] = set()
        for call in list(self._calls):
            if call.streams.organisation in failed:
                continue
            try:
                await self._publish(call.streams.calls, packed([call.record]))
            except ApiError as error:
                failed.add(call.streams.organisation)
                self._count_refusal(call, error)
            else:
                self._calls.remove(call)
        return bool(failed)

    def _count_refusal(self, call: _Call, error: ApiError) -> None:
        """Gives a call up that an engine which is there has refused too often."""
        if not self._engine.connected:
            return
        call.attempts += 1
        if call.attempts >= _MAX_ATTEMPTS:
            self._calls.remove(call)
            self._counts["dropped"] += 1
            logger.warning(
                "A call of an agent was not stored: %s", error.message, extra={"run": call.record.id}
            )
