"""The embedded store: spans are handed in without waiting, one thread writes, anybody reads.

Nothing that is wrong with the file or the disk reaches whoever hands spans in: what cannot be kept is
counted, logged once, and tried anew with the next batch. Reads go on from what is there.
"""

import logging
import sqlite3
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tieline_api.sqlite_files import UNREADABLE, reading
from tieline_api.traces import query
from tieline_api.traces.spans import Owner, Span
from tieline_api.traces.writer import Writer

T = TypeVar("T")

logger = logging.getLogger("tieline.traces")

_BATCH = 512
_GATHER_SECONDS = 0.05
"""How long a batch waits for more, so that single spans do not cost a transaction each."""
_SWEEP_SECONDS = 60.0
_BATCHES_BETWEEN_SWEEPS = 64
_RETRY_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What the store may take."""

    max_bytes: int = 512 * 1024 * 1024
    """Beyond it the oldest spans go."""
    max_age_seconds: float = 7 * 86400.0
    """Since they arrived."""
    max_queued: int = 20_000
    """Spans that wait to be written."""
    max_queued_bytes: int = 32 * 1024 * 1024
    """What their attributes may take."""
    read_seconds: float = 5.0
    """Longest time of one question."""


class TraceStore:
    """Spans in a file. ``start`` and ``stop`` the thread that writes; the file is made with the first span."""

    def __init__(
        self, path: Path, limits: Limits | None = None, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._path = path
        self._limits = limits or Limits()
        self._writer = Writer(
            path, max_bytes=self._limits.max_bytes, max_age=self._limits.max_age_seconds, clock=clock
        )
        self._waiting: deque[tuple[Owner, Span]] = deque()
        self._changed = threading.Condition()
        self._positions: dict[str, int] = {}
        """How far streams are read with all that waits."""
        self._busy = False
        self._stopping = False
        self._bytes = 0
        self._failing = ""
        self._retry_at = 0.0
        self._thread: threading.Thread | None = None
        self.written = 0
        """Spans that were written."""
        self.dropped: Counter[str] = Counter()
        """Spans that were not, by reason: ``queue_full``, ``disk_full``, ``failed``."""

    def start(self) -> None:
        """Begin to write."""
        self._thread = threading.Thread(target=self._work, name="traces", daemon=True)
        self._thread.start()

    def stop(self, seconds: float = 10.0) -> None:
        """Write what waits, for at most ``seconds``, and close the file."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(seconds)

    def offer(self, owner: Owner, spans: Sequence[Span]) -> bool:
        """Queue all of ``spans``, or none when they are too many now. Never waits for the disk."""
        size = sum(span.size for span in spans)
        with self._changed:
            if (
                self._stopping
                or len(self._waiting) + len(spans) > self._limits.max_queued
                or self._bytes + size > self._limits.max_queued_bytes
            ):
                self.dropped["queue_full"] += len(spans)
                return False
            self._waiting.extend((owner, span) for span in spans)
            self._bytes += size
            self._changed.notify_all()
        return True

    def put(self, owner: Owner, spans: Sequence[Span], *, seconds: float) -> None:
        """Queue ``spans`` as soon as there is room. Raises OSError when there is none for so long."""
        size = sum(span.size for span in spans)

        def has_room() -> bool:
            fits = (
                len(self._waiting) + len(spans) <= self._limits.max_queued
                and self._bytes + size <= self._limits.max_queued_bytes
            )
            return fits or not self._waiting or self._stopping

        with self._changed:
            if not self._changed.wait_for(has_room, seconds) or self._stopping:
                raise OSError("the store of traces takes no spans")
            self._waiting.extend((owner, span) for span in spans)
            self._bytes += size
            self._changed.notify_all()

    def begin(self, organisation: str, created: str) -> int:
        """How far the stream of an organisation was read. Raises sqlite3.Error and OSError."""
        # A connection of its own: the thread's one is the thread's.
        other = Writer(
            self._path,
            max_bytes=self._limits.max_bytes,
            max_age=self._limits.max_age_seconds,
            clock=time.time,
        )
        try:
            return other.begin(organisation, created)
        finally:
            other.close()

    def reached(self, organisation: str, position: int) -> None:
        """What was queued before is what the organisation's stream has up to ``position``."""
        with self._changed:
            self._positions[organisation] = position
            self._changed.notify_all()

    @property
    def queued(self) -> int:
        """Spans that wait to be written."""
        return len(self._waiting)

    def flush(self, seconds: float = 10.0) -> bool:
        """Wait until all that was queued is written or dropped; False when that takes longer."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and not self._busy, seconds)

    def trace(self, organisation: str, project: str, trace_id: bytes) -> list[Span]:
        """All spans of a trace, or [] when there is none. Raises TooSlowError and sqlite3.Error."""
        return self._read(lambda found: query.trace(found, organisation, project, trace_id), empty=[])

    def runs(self, owner: Owner, wanted: query.RunQuery) -> query.Page:
        """A page of an environment's runs. Raises TooSlowError and sqlite3.Error."""
        return self._read(lambda found: query.runs(found, owner, wanted), empty=query.Page([], None))

    def _read(self, ask: Callable[[sqlite3.Connection], T], *, empty: T) -> T:
        if not self._path.exists():
            return empty
        with reading(self._path, seconds=self._limits.read_seconds) as connection:
            return ask(connection)

    def _work(self) -> None:
        swept, batches = time.monotonic(), 0
        while (taken := self._next()) is not None:
            batch, positions = taken
            if batch or positions:
                self._write(batch, positions)
                batches += 1
            with self._changed:
                self._busy = False
                self._changed.notify_all()
            due = batches >= _BATCHES_BETWEEN_SWEEPS or time.monotonic() - swept > _SWEEP_SECONDS
            if due and not self._failing:
                swept, batches = time.monotonic(), 0
                self._guard(self._writer.sweep, lost=0)
        self._writer.close()

    def _next(self) -> tuple[list[tuple[Owner, Span]], dict[str, int]] | None:
        """The next batch, with the positions that are reached by it; empty when nothing came, None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._positions or self._stopping, _SWEEP_SECONDS)
            if len(self._waiting) < _BATCH and not self._stopping:
                self._changed.wait_for(
                    lambda: len(self._waiting) >= _BATCH or self._stopping, _GATHER_SECONDS
                )
            if not self._waiting and not self._positions:
                return None if self._stopping else ([], {})
            self._busy = True
            batch = [self._waiting.popleft() for _ in range(min(_BATCH, len(self._waiting)))]
            self._bytes -= sum(span.size for _, span in batch)
            positions: dict[str, int] = {}
            if not self._waiting:
                positions, self._positions = self._positions, {}
            return batch, positions

    def _write(self, batch: list[tuple[Owner, Span]], positions: dict[str, int]) -> None:
        if time.monotonic() < self._retry_at:
            self.dropped[self._failing] += len(batch)
            return
        if self._guard(lambda: self._writer.write(batch, positions), lost=len(batch)):
            self.written += len(batch)
            if self._failing:
                logger.info("Traces are kept again")
                self._failing = ""

    def _guard(self, work: Callable[[], None], *, lost: int) -> bool:
        """Whether ``work`` was done; what goes wrong is counted and logged, and goes no further."""
        try:
            work()
        except Exception as error:
            code = getattr(error, "sqlite_errorcode", None)
            reason = "disk_full" if code == sqlite3.SQLITE_FULL else "failed"
            if lost:
                self.dropped[reason] += lost
            if not self._failing:
                # What a disk or SQLite says is enough; anything else is a fault of ours: show where.
                foreseen = isinstance(error, sqlite3.Error | OSError)
                message = "Cannot keep traces in %s, dropping them: %s"
                logger.error(message, self._path, error, exc_info=not foreseen)
            self._failing = reason
            self._retry_at = time.monotonic() + _RETRY_SECONDS
            if reason == "failed":
                self._writer.close()
            if code in UNREADABLE:
                self._writer.set_aside()
            return False
        return True
