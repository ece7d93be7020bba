"""SQLite files in WAL mode: opened for writing with a bound, read within a time, set aside when unreadable."""

import logging
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

_PAGE_BYTES = 4096
_BUSY_SECONDS = 5.0
_STEPS_BETWEEN_CHECKS = 10_000
UNREADABLE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
"""Codes of errors of a file that is none of SQLite's, or damaged."""


class TooSlowError(Exception):
    """A question took longer than it may."""


def connect(
    path: Path, *, max_bytes: int, make_tables: Callable[[sqlite3.Connection], None]
) -> sqlite3.Connection:
    """Opens the file for writing, and makes it when it is not there. ``make_tables`` runs in a transaction.

    Raises sqlite3.Error and OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        connection.execute(f"pragma page_size = {_PAGE_BYTES}")
        connection.execute("pragma journal_mode = wal")
        # A crash of the machine may lose the last moments, never the file.
        connection.execute("pragma synchronous = normal")
        connection.execute(f"pragma journal_size_limit = {16 * 1024 * 1024}")
        connection.execute(f"pragma max_page_count = {max(max_bytes // _PAGE_BYTES, 64)}")
        with transaction(connection):
            make_tables(connection)
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All of it, or nothing."""
    connection.execute("begin immediate")
    try:
        yield
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise


def version(connection: sqlite3.Connection) -> int:
    """The version of the file's tables; 0 for a new file."""
    found: int = connection.execute("pragma user_version").fetchone()[0]
    return found


def execute_all(connection: sqlite3.Connection, statements: str) -> None:
    """Each of the statements, within the transaction that there is."""
    for statement in statements.split(";"):
        connection.execute(statement)


@contextmanager
def reading(path: Path, *, seconds: float) -> Iterator[sqlite3.Connection]:
    """A connection that cannot write; what takes longer than ``seconds`` raises TooSlowError."""
    until = time.monotonic() + seconds
    with closing(
        sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=seconds, isolation_level=None
        )
    ) as connection:
        # Not mode=ro: that cannot read a file in WAL mode which nobody has open.
        connection.execute("pragma query_only = on")
        connection.set_progress_handler(lambda: time.monotonic() > until, _STEPS_BETWEEN_CHECKS)
        try:
            yield connection
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
                raise TooSlowError(f"The question took longer than {seconds:g} seconds") from None
            raise


def used_bytes(connection: sqlite3.Connection) -> int:
    """What rows and indexes take; pages that are free to be used again do not count."""
    pages = connection.execute("pragma page_count").fetchone()[0]
    free = connection.execute("pragma freelist_count").fetchone()[0]
    return int(pages - free) * _PAGE_BYTES


def set_aside(path: Path, *, what: str, logger: logging.Logger) -> None:
    """Keeps a file that cannot be read under another name, so that a new one can be made."""
    aside = path.with_name(f"{path.name}.unreadable")
    logger.error("The file of %s cannot be read, setting it aside as %s", what, aside)
    with suppress(OSError):
        path.replace(aside)
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
