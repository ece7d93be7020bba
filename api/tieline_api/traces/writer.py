"""Writing spans, and removing the oldest. Used by one thread at a time."""

import logging
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import orjson

from tieline_api import sqlite_files
from tieline_api.sqlite_files import transaction, used_bytes
from tieline_api.traces.database import connect
from tieline_api.traces.spans import Owner, Span

logger = logging.getLogger("tieline.traces")

_INSERT = (
    "insert or ignore into spans (owner, trace_id, span_id, parent_id, name, start, end, entry, status, message, "
    "service, task, execution_id, attributes, received) "
    "values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_REMOVED_AT_ONCE = 2000
_KEPT_SHARE = 0.9
"""When there is too much, so much of the limit is left: pruning is not for each batch."""
_HARD_SHARE = 1.25
"""The file may be so much larger than what the spans may take: removing needs room, too."""


class Writer:
    """The one connection that writes. Every method raises sqlite3.Error and OSError."""

    def __init__(self, path: Path, *, max_bytes: int, max_age: float, clock: Callable[[], float]) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._max_age = max_age
        self._clock = clock
        self._connection: sqlite3.Connection | None = None
        self._owners: dict[Owner, int] = {}

    def write(self, batch: Sequence[tuple[Owner, Span]], positions: Mapping[str, int] | None = None) -> None:
        """All of ``batch`` in one transaction; spans that are there already stay as they are.

        ``positions`` are how far the streams of organisations have been read with it.
        """
        try:
            self._insert(batch, positions or {})
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_FULL:
                raise
            # The oldest make room for the newest; when even that finds no room, the batch is lost.
            self._remove_oldest()
            self._insert(batch, positions or {})

    def sweep(self) -> None:
        """Remove what is too old, and the oldest of what is too much."""
        if self._connection is None and not self._path.exists():
            return
        connection = self._open()
        oldest = int(self._clock() - self._max_age)
        while True:
            # In order of arrival, so the first that is young enough ends it.
            removed = connection.execute(
                "delete from spans where id in (select id from spans order by id limit ?) and received < ?",
                (_REMOVED_AT_ONCE, oldest),
            ).rowcount
            if removed < _REMOVED_AT_ONCE:
                break
        if used_bytes(connection) > self._max_bytes:
            while used_bytes(connection) > self._max_bytes * _KEPT_SHARE and self._remove_oldest():
                pass

    def begin(self, organisation: str, created: str) -> int:
        """How far the stream of an organisation was read, 0 for one that was made since then."""
        connection = self._open()
        with transaction(connection):
            known = connection.execute(
                "select created, position from streams where organisation = ?", (organisation,)
            ).fetchone()
            if known and known[0] == created:
                return int(known[1])
            connection.execute(
                "insert or replace into streams (organisation, created, position) values (?, ?, 0)",
                (organisation, created),
            )
            return 0

    def close(self) -> None:
        """Close the file; the next use opens it anew."""
        connection, self._connection = self._connection, None
        self._owners.clear()
        if connection is not None:
            connection.close()

    def set_aside(self) -> None:
        """Keep a file that cannot be read under another name, so that a new one can be made."""
        sqlite_files.set_aside(self._path, what="traces", logger=logger)

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = connect(self._path, max_bytes=int(self._max_bytes * _HARD_SHARE))
        return self._connection

    def _insert(self, batch: Sequence[tuple[Owner, Span]], positions: Mapping[str, int]) -> None:
        connection = self._open()
        now = int(self._clock())
        try:
            with transaction(connection):
                connection.executemany(
                    _INSERT, [_row(self._owner(connection, owner), span, now) for owner, span in batch]
                )
                connection.executemany(
                    "update streams set position = max(position, ?) where organisation = ?",
                    [(position, organisation) for organisation, position in positions.items()],
                )
        except BaseException:
            self._owners.clear()
            raise

    def _remove_oldest(self) -> int:
        return (
            self._open()
            .execute(
                "delete from spans where id in (select id from spans order by id limit ?)",
                (_REMOVED_AT_ONCE,),
            )
            .rowcount
        )

    def _owner(self, connection: sqlite3.Connection, owner: Owner) -> int:
        known = self._owners.get(owner)
        if known is not None:
            return known
        values = (owner.organisation, owner.project, owner.environment)
        connection.execute(
            "insert or ignore into owners (organisation, project, environment) values (?, ?, ?)", values
        )
        found: int = connection.execute(
            "select id from owners where organisation = ? and project = ? and environment = ?", values
        ).fetchone()[0]
        self._owners[owner] = found
        return found


def _row(owner: int, span: Span, now: int) -> tuple[object, ...]:
    return (
        owner, span.trace_id, span.span_id, span.parent_id or None, span.name, span.start, span.end,
        int(span.entry), span.status, span.message, span.service, span.task, span.execution_id,
        orjson.dumps(span.attributes).decode(), now,
    )  # fmt: skip
