"""The index of runs: an SQLite file that is made from the engine's streams, and can be made from them again.

An organisation has two streams: one of direct runs, and one of all others, so that many direct runs displace no others.

One record changes a run and one of its attempts. How far a stream was read is kept in the same transaction, so that a
replica that was killed goes on where it was. Inputs stay in the stream.
"""

import logging
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from tieline_api import sqlite_files
from tieline_api.runs import writing
from tieline_api.runs.backlog import Waiting
from tieline_api.runs.issues import Issue, IssueFilter, IssuePageRequest, StoredDecision, VersionAge
from tieline_api.runs.model import AttemptPage, PageRequest, Run, RunFilter
from tieline_api.runs.queries import counts, issues, lists, single_runs
from tieline_api.runs.release_tally import ReleaseTally
from tieline_api.runs.tables import VERSION, make_tables
from tieline_api.runs.tally import Tally, Windows
from tieline_api.runs.writing import IndexedMessage
from tieline_api.sqlite_files import UNREADABLE, reading, transaction, used_bytes, version

T = TypeVar("T")

logger = logging.getLogger("tieline.runs")

_PUT_AT_ONCE = 50
"""Runs of one transaction: a message that says more than the smallest file has room for is taken in parts."""
_KEPT_SHARE = 0.9
_HARD_SHARE = 1.25
"""The file may be so much larger than what runs may take: removing needs room, too."""


class RunIndex:
    """Runs in a file. Every method may be called in any thread; raises sqlite3.Error, OSError and TooSlowError."""

    def __init__(self, path: Path, *, max_bytes: int, read_seconds: float = 5.0) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._read_seconds = read_seconds
        self._writing = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def begin(self, organisation: str, created: str, *, direct: bool = False) -> int:
        """How far a stream of the organisation was read: that of ``direct`` runs, or of all others.

        What is known of an earlier such stream is removed.
        """

        def work(connection: sqlite3.Connection) -> int:
            forget = partial(writing.forget, connection, organisation, direct)
            return writing.begin(connection, organisation, writing.stream_of(direct), created, forget=forget)

        return self._write(work)

    def forget(self, organisation: str, *, direct: bool = False) -> None:
        """Removes all that is known of a stream of an organisation."""
        self._write(lambda connection: writing.forget(connection, organisation, direct))

    def apply(
        self,
        organisation: str,
        messages: Sequence[IndexedMessage],
        *,
        position: int,
        direct: bool = False,
    ) -> None:
        """Takes what the stream has up to ``position``."""

        runs = list(writing.by_run(organisation, messages).items())
        for start in range(0, len(runs), _PUT_AT_ONCE):
            self._write_making_room(
                partial(writing.put_all, runs=runs[start : start + _PUT_AT_ONCE], direct=direct)
            )
        stream = writing.stream_of(direct)
        self._write_making_room(lambda one: writing.reached(one, organisation, stream, position))

    def _write_making_room(self, work: Callable[[sqlite3.Connection], None]) -> None:
        """Where the file is full, what is old of those who take most makes room."""
        try:
            self._write(work)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_FULL:
                raise
            self._write(writing.evict)
            self.bound()
            self._write(work)

    def sweep(self, organisation: str, *, first: int, direct: bool = False) -> None:
        """Removes the runs of which the stream, whose oldest message is ``first``, has nothing any more."""
        while self._write(lambda connection: writing.remove_before(connection, organisation, first, direct)):
            pass

    def bound(self) -> None:
        """Removes what is too much: of the environment that takes most, in the organisation that does, the oldest
        direct runs, and the oldest others where it has none."""
        if self._write(used_bytes) > self._max_bytes:
            while self._write(used_bytes) > self._max_bytes * _KEPT_SHARE and self._write(writing.evict):
                pass

    def page(self, wanted: RunFilter, page: PageRequest, limit: int) -> list[Run]:
        """The first ``limit`` runs after (or before) the page's position, in the order in which they follow it."""
        return self._read(lambda connection: lists.page(connection, wanted, page, limit), empty=[])

    def count(self, wanted: RunFilter, most: int) -> int:
        """How many runs there are, counted up to ``most``."""
        return self._read(lambda connection: lists.count(connection, wanted, most), empty=0)

    def tally(self, organisation: str, windows: Windows) -> Tally:
        """How many of an organisation's runs were queued in each window, and how many of these failed."""
        return self._read(lambda connection: counts.tally(connection, organisation, windows), empty=Tally())

    def release_tally(self, organisation: str, environment: str, starts: Sequence[int]) -> ReleaseTally:
        """See ``counts.release_tally``."""
        return self._read(
            lambda connection: counts.release_tally(connection, organisation, environment, starts),
            empty=ReleaseTally(),
        )

    def backlog(self, organisation: str, most: int) -> list[Waiting]:
        """What waits in an organisation, in up to ``most`` groups: the one with the oldest run first."""
        return self._read(lambda connection: counts.backlog(connection, organisation, most), empty=[])

    def get(self, organisation: str, environments: Sequence[str], run: str) -> Run | None:
        """A run of one of the environments: of several that have reported this id, that of the first."""
        return next(iter(self.find(organisation, environments, run)), None)

    def find(self, organisation: str, environments: Sequence[str], run: str) -> list[Run]:
        """The run with this id of each of the environments that has reported one; who was the first comes first."""
        return self._read(
            lambda connection: single_runs.find(connection, organisation, environments, run), empty=[]
        )

    def attempts(self, organisation: str, run: Run, *, most: int, most_steps: int) -> AttemptPage:
        """The newest attempts of a run, with the newest steps."""
        return self._read(
            lambda connection: single_runs.attempts(
                connection, organisation, run, most=most, most_steps=most_steps
            ),
            empty=AttemptPage([]),
        )

    def ahead_of(self, organisation: str, runs: Sequence[Run]) -> Mapping[tuple[str, str], str]:
        """See ``single_runs.ahead_of``."""
        return self._read(lambda connection: single_runs.ahead_of(connection, organisation, runs), empty={})

    def by_event(self, organisation: str, environment: str, task: str, event_id: str) -> Run | None:
        """The first run of the event with this id."""
        return self._read(
            lambda connection: single_runs.by_event(connection, organisation, environment, task, event_id),
            empty=None,
        )

    def waiting_tasks(self, organisation: str, environment: str, most: int) -> Mapping[str, int]:
        """See ``counts.waiting_tasks``."""
        return self._read(
            lambda connection: counts.waiting_tasks(connection, organisation, environment, most), empty={}
        )

    def environments_with_events(self, organisation: str, environments: Sequence[str]) -> list[str]:
        """See ``counts.environments_with_events``."""
        return self._read(
            lambda connection: counts.environments_with_events(connection, organisation, environments),
            empty=[],
        )

    def begin_decisions(self, organisation: str, created: str) -> int:
        """How far the organisation's stream of decisions about issues was read."""

        def work(connection: sqlite3.Connection) -> int:
            forget = partial(writing.forget_decisions, connection, organisation)
            return writing.begin(connection, organisation, writing.DECISIONS, created, forget=forget)

        return self._write(work)

    def decide(self, organisation: str, found: Sequence[StoredDecision], *, position: int) -> None:
        """Takes what the stream of decisions has up to ``position``."""

        def work(connection: sqlite3.Connection) -> None:
            writing.put_decisions(connection, organisation, found)
            writing.reached(connection, organisation, writing.DECISIONS, position)

        self._write_making_room(work)

    def forget_decisions(self, organisation: str, *, before: int | None = None) -> None:
        """Removes decisions: all, or those that are older than the message ``before``."""
        self._write(partial(writing.forget_decisions, organisation=organisation, before=before))

    def issues(self, wanted: IssueFilter, page: IssuePageRequest, limit: int) -> list[Issue]:
        """The first ``limit`` issues after (or before) the page's position, in the order in which they follow it."""
        return self._read(lambda connection: issues.page(connection, wanted, page, limit), empty=[])

    def users_of_issue(self, organisation: str, issue: str, most: int) -> list[tuple[str, int]]:
        """The users with most of an issue's runs, and how many those are."""
        return self._read(lambda connection: issues.users(connection, organisation, issue, most), empty=[])

    def count_issues(self, wanted: IssueFilter, most: int, *, age: VersionAge, now: int) -> int:
        """How many issues there are, counted up to ``most``."""
        return self._read(
            lambda connection: issues.count(connection, wanted, most, age=age, now=now), empty=0
        )

    def close(self) -> None:
        """Closes the file; the next use opens it anew."""
        with self._writing:
            self._close()

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._writing:
            try:
                if self._connection is None:
                    self._connection = sqlite_files.connect(
                        self._path, max_bytes=int(self._max_bytes * _HARD_SHARE), make_tables=make_tables
                    )
                with transaction(self._connection):
                    return work(self._connection)
            except sqlite3.Error as error:
                code = getattr(error, "sqlite_errorcode", None)
                if code != sqlite3.SQLITE_FULL:
                    self._close()
                if code in UNREADABLE:
                    sqlite_files.set_aside(self._path, what="runs", logger=logger)
                raise

    def _read(self, ask: Callable[[sqlite3.Connection], T], *, empty: T) -> T:
        if not self._path.exists():
            return empty
        with reading(self._path, seconds=self._read_seconds) as connection:
            if version(connection) != VERSION:
                return empty
            return ask(connection)
