"""Writes the run history: records of runs that change at about the same time go in one message.

The engine syncs each message to the disk, where events and acknowledgements wait for their turn too. So few messages
are written: a record of a run under way waits for the next one that somebody waits for, and is left out where that one
says more. Messages follow each other at a distance, while the first one after a pause is written at once.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import replace

from tieline.errors import reason
from tieline.events.queue import EventsUnavailableError, MessageTooLargeError
from tieline.events.run_reports import RecordsRefusedError
from tieline_common.backoff import exponential, jitter
from tieline_protocol import run_records
from tieline_protocol.run_records import RunRecord

logger = logging.getLogger("tieline.events")

_MAX_MESSAGE_BYTES = 1024 * 1024
_MAX_MESSAGE_RECORDS = 500
_MAX_WAITING = 10_000
_MAX_WAITING_BYTES = 32 * 1024 * 1024
"""Of inputs."""
_FIRST_RETRY = 0.2
_LONGEST_RETRY = 10.0
_DISTANCE = 0.004
"""Seconds from the beginning of a message to that of the next, for each record in it that somebody waited for: where
events run one after the other nobody waits longer, where many end at a time they share messages."""
_LONGEST_DISTANCE = 0.02
_LINGER = 0.1
"""How long a record that nobody waits for waits for others, in seconds."""
_UNDER_WAY = frozenset(("queued", "running"))


class HistoryWriter:
    """Collects records while the message before is on its way. Run ``run`` as a task."""

    def __init__(self, write: Callable[[bytes], Awaitable[None]], *, linger: float = _LINGER) -> None:
        """``linger`` is how long a record that nobody waits for waits for others, in seconds."""
        self._write = write
        self._linger = linger
        self._waiting: deque[tuple[RunRecord, asyncio.Future[None] | None]] = deque()
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._due: asyncio.TimerHandle | None = None
        self._input_bytes = 0
        self._under_way = 0
        self.dropped = 0
        """Records that were not written: they were refused, or could not be written for long."""

    def add(self, record: RunRecord) -> None:
        """Write a record soon. While none can be written, the newest of these lose their inputs beyond a bound, and
        are dropped beyond another one."""
        if len(self._waiting) >= _MAX_WAITING:
            self.dropped += 1
            return
        if (large := _large_bytes(record)) and self._input_bytes + large > _MAX_WAITING_BYTES:
            record = replace(record, input=None, request=None, step_results=None)
        self._append(record, None)
        if self._due is None:
            self._due = asyncio.get_running_loop().call_later(self._linger, self._write_soon)

    async def write(self, record: RunRecord) -> None:
        """Write a record, and return once it is stored."""
        stored = asyncio.get_running_loop().create_future()
        self._append(record, stored)
        self._wake.set()
        await stored

    async def run(self) -> None:
        """Write what is added, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await self._wake.wait()
            self._wake.clear()
            began = loop.time()
            waited_for = await self._write_next() if self._waiting else 0
            if not self._waiting:
                self._idle.set()
            distance = min(waited_for * _DISTANCE, _LONGEST_DISTANCE)
            await asyncio.sleep(max(began + distance - loop.time(), 0))

    def _write_soon(self) -> None:
        self._due = None
        self._wake.set()

    def _append(self, record: RunRecord, stored: asyncio.Future[None] | None) -> None:
        self._waiting.append((record, stored))
        self._input_bytes += _large_bytes(record)
        self._idle.clear()

    async def flush(self, seconds: float) -> None:
        """Wait until ``run`` has written what is left, for ``seconds`` at most."""
        self._wake.set()
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            logger.warning("Records of %d runs could not be written", len(self._waiting) + self._under_way)

    async def _write_next(self) -> int:
        """How many records somebody waited for."""
        records: list[RunRecord] = []
        futures: list[asyncio.Future[None]] = []
        under_way: dict[str, int] = {}
        """Where records are that a later one of the same run takes the place of."""
        size = 0
        while self._waiting and len(records) < _MAX_MESSAGE_RECORDS:
            record, stored = self._waiting[0]
            size += _large_bytes(record) * 2 + 1000
            if records and size > _MAX_MESSAGE_BYTES:
                break
            self._waiting.popleft()
            self._input_bytes -= _large_bytes(record)
            place = under_way.pop(record.id, None)
            if place is not None and record.rank > records[place].rank:
                records[place] = record
            else:
                place = len(records)
                records.append(record)
            if record.status in _UNDER_WAY:
                under_way[record.id] = place
            if stored is not None:
                futures.append(stored)
        if self._waiting:
            self._wake.set()
        self._under_way = len(records)
        await self._store(records)
        self._under_way = 0
        for one in futures:
            if not one.done():
                one.set_result(None)
        return len(futures)

    async def _store(self, records: list[RunRecord]) -> None:
        """Returns once the records are stored; what is too large is stored without its details."""
        content = _encoded(records)
        if not run_records.is_readable(content):
            content = _encoded(_without_details(records))
        attempt = 0
        while True:
            try:
                await self._write(content)
                break
            except MessageTooLargeError as error:
                smaller = _encoded(_without_details(records))
                if content == smaller:
                    logger.error(
                        "Records of %d runs are too large to be written: %s", len(records), reason(error)
                    )
                    self.dropped += len(records)
                    break
                content = smaller
            except RecordsRefusedError as error:
                logger.error("Records of %d runs were refused: %s", len(records), reason(error))
                self.dropped += len(records)
                break
            except EventsUnavailableError as error:
                attempt += 1
                if attempt == 1:
                    logger.warning("The run history cannot be written yet: %s", reason(error))
                await asyncio.sleep(jitter(exponential(attempt, first=_FIRST_RETRY, cap=_LONGEST_RETRY)))


def _without_details(records: list[RunRecord]) -> list[RunRecord]:
    """The records without what may be large: what became of the runs is still in the history."""
    return [replace(record, input=None, request=None, steps=(), step_results=None) for record in records]


def _large_bytes(record: RunRecord) -> int:
    """Of the input and the results of steps."""
    return len(record.input or b"") + len(record.step_results or b"")


def _encoded(records: list[RunRecord]) -> bytes:
    """The records, without those that cannot be written: one of them must not stop the others."""
    try:
        return run_records.encode(records)
    except Exception:
        kept = []
        for record in records:
            try:
                run_records.encode([record])
            except Exception as error:
                logger.error("A record of run %s cannot be written: %s", record.id, reason(error))
            else:
                kept.append(record)
        return run_records.encode(kept)
