"""The pending events of ``tieline run``, in a SQLite file: they outlive the process that serves a version."""

import asyncio
import fcntl
import logging
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tieline.events.memory_waits import SavedRow
from tieline.events.queue import EventsUnavailableError
from tieline.events.run_store import KeptStep
from tieline_protocol.events import HEADER, EventMetadata

logger = logging.getLogger("tieline.events")

_POLL_SECONDS = 0.05
_WARN_SECONDS = 15.0
"""Longer than a version takes to end when the next one is there."""
_TABLES = """
CREATE TABLE IF NOT EXISTS events (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  metadata TEXT NOT NULL,
  payload BLOB NOT NULL,
  ready_at REAL NOT NULL,
  waits_until REAL,
  begun INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS recorded_steps (
  run TEXT, name TEXT, occurrence INTEGER, place INTEGER NOT NULL, work TEXT NOT NULL, version TEXT NOT NULL,
  result BLOB NOT NULL, PRIMARY KEY (run, name, occurrence)
);
CREATE TABLE IF NOT EXISTS waits (
  kind TEXT, place TEXT, name TEXT, metadata TEXT NOT NULL, content BLOB NOT NULL, expires REAL NOT NULL,
  saved_at REAL NOT NULL, number INTEGER NOT NULL, PRIMARY KEY (kind, place, name)
);
CREATE TABLE IF NOT EXISTS answers (approval TEXT PRIMARY KEY, run TEXT NOT NULL, content BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS ids (id TEXT PRIMARY KEY, seen REAL NOT NULL);
"""


@dataclass(frozen=True, kw_only=True)
class SavedEvent:
    """An event that has not ended."""

    number: int
    metadata: EventMetadata
    payload: bytes
    ready_at: float
    """Seconds since 1970: when it was published, or its delay ends."""
    waits_until: float | None
    """When it is tried again, after an attempt."""


class EventFile:
    """Several processes may add events; the one that holds the file runs them. All raises EventsUnavailableError."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._open: sqlite3.Connection | None = None
        self._lock: IO[str] | None = None

    async def hold(self) -> None:
        """Wait until no other process runs the events of this file."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        lock = self._path.with_suffix(".lock").open("w")
        warn_at: float | None = time.monotonic() + _WARN_SECONDS
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                if warn_at is not None and time.monotonic() > warn_at:
                    warn_at = None
                    logger.warning(
                        "Events wait: another process runs those of %s, and has to end", self._path
                    )
                await asyncio.sleep(_POLL_SECONDS)
            else:
                self._lock = lock
                return

    def close(self) -> None:
        """Let the next process run the events."""
        if self._open is not None:
            self._open.close()
            self._open = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def add(self, metadata: EventMetadata, payload: bytes, *, ready_at: float) -> int:
        """Store an event; returns its number."""
        with self._database() as database:
            added = database.execute(
                "INSERT INTO events (metadata, payload, ready_at) VALUES (?, ?, ?)",
                (metadata.header(), payload, ready_at),
            )
            return added.lastrowid or 0

    def is_new(self, identifier: str, *, now: float, window: float) -> bool:
        """Whether nothing with this id was added for ``window`` seconds; it is known from now on."""
        with self._database() as database:
            database.execute("DELETE FROM ids WHERE seen <= ?", (now - window,))
            added = database.execute("INSERT OR IGNORE INTO ids (id, seen) VALUES (?, ?)", (identifier, now))
            return added.rowcount > 0

    def begin(self, number: int) -> int:
        """An attempt begins: how many processes ended in the middle of it before."""
        with self._database() as database:
            row = database.execute("SELECT begun FROM events WHERE number = ?", (number,)).fetchone()
            database.execute("UPDATE events SET begun = begun + 1 WHERE number = ?", (number,))
            return int(row[0]) if row else 0

    def wait(self, number: int, metadata: EventMetadata, until: float) -> None:
        """An attempt ended, or something it waits for has come, and the event is run again at a time."""
        with self._database() as database:
            database.execute(
                "UPDATE events SET metadata = ?, waits_until = ?, begun = 0 WHERE number = ?",
                (metadata.header(), until, number),
            )

    def remove(self, number: int) -> None:
        """The event has ended."""
        with self._database() as database:
            database.execute("DELETE FROM events WHERE number = ?", (number,))

    def save_step(self, run: str, step: KeptStep) -> None:
        """Keep a step's result."""
        with self._database() as database:
            database.execute(
                "INSERT OR IGNORE INTO recorded_steps (run, name, occurrence, place, work, version, result) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                (run, step.name, step.occurrence, step.place, step.work, step.version, step.result),
            )

    def forget_steps(self, run: str) -> None:
        """Delete the results of a run that has ended."""
        with self._database() as database:
            database.execute("DELETE FROM recorded_steps WHERE run = ?", (run,))

    def save_wait_row(self, row: SavedRow) -> None:
        """Write a row of waits; replaces the row with its key."""
        with self._database() as database:
            database.execute(
                "INSERT OR REPLACE INTO waits (kind, place, name, metadata, content, expires, saved_at, number) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    row.kind,
                    row.place,
                    row.name,
                    row.metadata,
                    row.content,
                    row.expires,
                    row.saved_at,
                    row.number,
                ),
            )

    def remove_wait_row(self, kind: str, place: str, name: str) -> None:
        """Delete a row of waits."""
        with self._database() as database:
            database.execute(
                "DELETE FROM waits WHERE kind = ? AND place = ? AND name = ?", (kind, place, name)
            )

    def wait_rows(self, *, now: float) -> list[SavedRow]:
        """All rows of waits that have not expired; the others are deleted."""
        with self._database() as database:
            database.execute("DELETE FROM waits WHERE expires <= ?", (now,))
            rows = database.execute(
                "SELECT kind, place, name, metadata, content, expires, saved_at, number FROM waits ORDER BY number"
            ).fetchall()
        return [
            SavedRow(
                kind=kind,
                place=place,
                name=name,
                metadata=metadata,
                content=content,
                expires=expires,
                saved_at=saved_at,
                number=number,
            )
            for kind, place, name, metadata, content, expires, saved_at, number in rows
        ]

    def leave_answer(self, approval: str, run: str, content: bytes) -> None:
        """Leave an answer to an approval, or a signal, for the process that runs the events, unless there is one."""
        with self._database() as database:
            database.execute(
                "INSERT OR IGNORE INTO answers (approval, run, content) VALUES (?, ?, ?)",
                (approval, run, content),
            )

    def take_answers(self) -> list[tuple[str, str, bytes]]:
        """The answers that were left, each with its id and the run that it is for. They are deleted."""
        with self._database() as database:
            rows = database.execute("DELETE FROM answers RETURNING approval, run, content").fetchall()
        return [(identifier, run, content) for identifier, run, content in rows]

    def events(self) -> list[SavedEvent]:
        """All events, in the order in which they became ready."""
        with self._database() as database:
            rows = database.execute(
                "SELECT number, metadata, payload, ready_at, waits_until FROM events ORDER BY ready_at, number"
            ).fetchall()
        return [
            SavedEvent(
                number=number,
                metadata=EventMetadata.parse({HEADER: metadata}),
                payload=payload,
                ready_at=ready_at,
                waits_until=waits_until,
            )
            for number, metadata, payload, ready_at, waits_until in rows
        ]

    def steps(self) -> list[tuple[str, KeptStep]]:
        """All steps, each with its run."""
        with self._database() as database:
            rows = database.execute(
                "SELECT run, name, occurrence, place, work, version, result FROM recorded_steps"
            ).fetchall()
        return [
            (
                run,
                KeptStep(
                    name=name,
                    occurrence=occurrence,
                    place=place,
                    work=work,
                    version=version,
                    result=result,
                ),
            )
            for run, name, occurrence, place, work, version, result in rows
        ]

    @contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        """One transaction."""
        try:
            if self._open is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._open = sqlite3.connect(self._path, isolation_level="IMMEDIATE", timeout=10)
                # It need not outlive a power failure.
                self._open.execute("PRAGMA synchronous = OFF")
                self._open.executescript(_TABLES)
            with self._open:
                yield self._open
        except (OSError, sqlite3.Error) as error:
            raise EventsUnavailableError(f"{self._path} cannot be used: {error}; remove it") from error
