"""Puts the records of runs into the tables, and removes runs from them."""

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import orjson

from tieline_api.runs.fingerprints import issue_of
from tieline_api.runs.issues import StoredDecision
from tieline_api.runs.records import CheckedRecord, error_to_json, nanoseconds, steps_to_json
from tieline_protocol.run_progress import Progress
from tieline_protocol.run_records import ENDED_PHASE
from tieline_protocol.run_tags import MAX_TAGS

_REMOVED_AT_ONCE = 2000
_EVICTED_AT_ONCE = 200
"""Who takes most is asked again after so many, so that nobody falls below the share of others."""
_ROW_BYTES = 650
"""Of a run's row and its entries in indexes, without texts; about as much as an attempt's row with its own."""
_ISSUE_BYTES = 450
"""What a failed run takes beside that, in two more indexes and in the counts of its issue."""
_TAG_BYTES = 350
"""The same of a tag, in the table and its indexes."""
_PROGRESS_BYTES = 150
"""The same of progress."""
_OF_RECORD = (
    "kind", "task", "status", "attempt", "phase", "moment", "tie", "queued", "attempts", "user", "activation_id",
    "version", "key", "shared_key", "event_id", "batch", "started", "ended", "next_attempt", "waits_for",
    "discarded", "error", "trace_id", "replay_of", "parent", "issue", "failed", "size",
)  # fmt: skip
_PUT_RUN = (
    f"insert into runs (organisation, environment, id, {', '.join(_OF_RECORD)}, direct, stored, first_at, last_at) "  # noqa: S608
    f"values (?, ?, ?, {', '.join('?' * len(_OF_RECORD))}, ?, ?, ?, ?) on conflict do update set "
    # A run stays where it is in lists, whatever later records say of when it was queued.
    f"{', '.join(f'{name} = excluded.{name}' for name in _OF_RECORD if name != 'queued')} "
    f"where (excluded.phase >= {ENDED_PHASE}, excluded.attempt, excluded.phase, excluded.moment, excluded.tie) > "
    f"(runs.phase >= {ENDED_PHASE}, runs.attempt, runs.phase, runs.moment, runs.tie)"
)
_TOUCH_RUN = (
    "update runs set last_at = max(last_at, ?), input_at = max(coalesce(input_at, 0), coalesce(?, 0)) "
    "where organisation = ? and environment = ? and id = ?"
)
_OF_ATTEMPT = (
    "status",
    "phase",
    "moment",
    "tie",
    "started",
    "ended",
    "error",
    "trace_id",
    "version",
    "steps",
    "size",
)
_PUT_ATTEMPT = (
    f"insert into attempts (organisation, environment, run, number, {', '.join(_OF_ATTEMPT)}) "  # noqa: S608
    f"values (?, ?, ?, ?, {', '.join('?' * len(_OF_ATTEMPT))}) on conflict do update set "
    f"{', '.join(f'{name} = excluded.{name}' for name in _OF_ATTEMPT)} "
    "where (excluded.phase, excluded.moment, excluded.tie) > (attempts.phase, attempts.moment, attempts.tie)"
)

_PUT_TAG = (
    "insert into tags (organisation, environment, run, name, value, attempt, phase, moment, queued, size) "
    "select organisation, environment, id, ?, ?, ?, ?, ?, queued, ? from runs "
    "where organisation = ? and environment = ? and id = ? on conflict do update set "
    "value = excluded.value, attempt = excluded.attempt, phase = excluded.phase, moment = excluded.moment, "
    "size = excluded.size where (excluded.attempt, excluded.phase, excluded.moment, excluded.value) > "
    "(tags.attempt, tags.phase, tags.moment, tags.value)"
)
_PUT_PROGRESS = (
    "insert into progress values (?, ?, ?, ?, ?, ?, ?, ?) on conflict do update set attempt = excluded.attempt, "
    "at = excluded.at, text = excluded.text, fraction = excluded.fraction, size = excluded.size "
    "where (excluded.attempt, excluded.at, excluded.text, excluded.fraction) > "
    "(progress.attempt, progress.at, progress.text, progress.fraction)"
)
_BOUND_TAGS = (
    "delete from tags where organisation = ?1 and environment = ?2 and run = ?3 and name in (select name from tags "
    "where organisation = ?1 and environment = ?2 and run = ?3 order by attempt desc, phase desc, moment desc, "
    "value desc, name limit -1 offset ?4)"
)


@dataclass(frozen=True)
class IndexedMessage:
    """The records of one message of a history, which all are of one environment."""

    sequence: int
    environment: str
    records: Sequence[CheckedRecord]
    stored_at: float = 0.0
    """When the engine stored it (seconds since 1970): two streams have no numbers in common."""


DECISIONS = "issues"
"""The name in the tables of the stream of decisions about issues."""


def stream_of(direct: bool) -> str:
    """The name in the tables of the stream of direct runs, or of all others."""
    return "direct" if direct else "history"


def begin(
    connection: sqlite3.Connection,
    organisation: str,
    stream: str,
    created: str,
    *,
    forget: Callable[[], None],
) -> int:
    """How far a stream was read. ``forget`` removes what is known of an earlier stream of its name."""
    known = connection.execute(
        "select created, position from streams where organisation = ? and stream = ?", (organisation, stream)
    ).fetchone()
    if known and known[0] == created:
        return int(known[1])
    forget()
    connection.execute("insert into streams values (?, ?, ?, 0)", (organisation, stream, created))
    return 0


def reached(connection: sqlite3.Connection, organisation: str, stream: str, position: int) -> None:
    """Notes how far a stream was read."""
    connection.execute(
        "update streams set position = max(position, ?) where organisation = ? and stream = ?",
        (position, organisation, stream),
    )


def forget(connection: sqlite3.Connection, organisation: str, direct: bool) -> None:
    """Removes all that is known of a stream of runs."""
    scope = (organisation, direct)
    for table in ("attempts", "tags", "progress"):
        connection.execute(
            f"delete from {table} where organisation = ? and exists (select 1 from runs r where "  # noqa: S608
            f"r.organisation = {table}.organisation and r.environment = {table}.environment "
            f"and r.id = {table}.run and r.direct = ?)",
            scope,
        )
    connection.execute("delete from runs where organisation = ? and direct = ?", scope)
    connection.execute(
        "delete from streams where organisation = ? and stream = ?", (organisation, stream_of(direct))
    )
    # Where the other stream has runs there, something is left to count.
    connection.execute("delete from usage where organisation = ? and bytes <= 0", (organisation,))


def put_decisions(connection: sqlite3.Connection, organisation: str, found: Sequence[StoredDecision]) -> None:
    """Puts decisions about issues; the latest message counts."""
    connection.executemany(
        "insert into issue_states values (?, ?, ?, ?, ?) on conflict do update set "
        "sequence = excluded.sequence, assignee = excluded.assignee, content = excluded.content "
        "where excluded.sequence > issue_states.sequence",
        [
            (
                organisation,
                one.issue,
                one.sequence,
                one.decision.assignee or None,
                orjson.dumps(one.decision.to_json()).decode(),
            )
            for one in found
        ],
    )


def forget_decisions(connection: sqlite3.Connection, organisation: str, *, before: int | None = None) -> None:
    """Removes decisions: all, or those older than the message ``before``."""
    if before is not None:
        connection.execute(
            "delete from issue_states where organisation = ? and sequence < ?", (organisation, before)
        )
        return
    connection.execute("delete from issue_states where organisation = ?", (organisation,))
    connection.execute("delete from streams where organisation = ? and stream = ?", (organisation, DECISIONS))


RunKey = tuple[str, str, str]
"""Organisation, environment and id."""


@dataclass
class RunUpdate:
    """What some messages say of a run: of several records those that count."""

    record: CheckedRecord
    attempts: dict[int, CheckedRecord]
    queued: int
    """As the first of them says."""
    stored: int
    """When the engine stored the first of them."""
    first_at: int
    last_at: int = 0
    input_at: int | None = None
    tags: dict[str, tuple[int, int, int, str]] = field(default_factory=dict)
    """By the name of a tag: the attempt, phase and moment of the record that counts, and the value."""
    progress: Progress | None = None
    """The latest that a record has."""

    def add_tags(self, one: CheckedRecord) -> None:
        """Takes those of a record."""
        attempt, phase, moment, _ = one.order
        for name, value in one.record.tags.items():
            tag = (attempt, phase, moment, value)
            self.tags[name] = max(self.tags.get(name, tag), tag)


def by_run(organisation: str, messages: Sequence[IndexedMessage]) -> dict[RunKey, RunUpdate]:
    found: dict[RunKey, RunUpdate] = {}
    for message in messages:
        for one in message.records:
            run = (organisation, message.environment, one.record.id)
            update = found.get(run)
            if update is None:
                queued, stored = nanoseconds(one.record.queued_at), nanoseconds(message.stored_at)
                update = found[run] = RunUpdate(one, {}, queued, stored, message.sequence)
            update.record = max(update.record, one, key=_order_in_run)
            if attempt := one.order[0]:
                update.attempts[attempt] = max(update.attempts.get(attempt, one), one, key=_order)
            update.last_at = message.sequence
            if one.record.input is not None:
                update.input_at = message.sequence
            if one.record.tags:
                update.add_tags(one)
            if (said := one.record.progress) is not None and (
                update.progress is None or said.order > update.progress.order
            ):
                update.progress = said
    return found


def _order_in_run(one: CheckedRecord) -> tuple[bool, tuple[int, int, int, bytes]]:
    return one.order[1] >= ENDED_PHASE, one.order


def _order(one: CheckedRecord) -> tuple[int, int, int, bytes]:
    return one.order


def put_all(
    connection: sqlite3.Connection, runs: Sequence[tuple[RunKey, RunUpdate]], *, direct: bool
) -> None:
    for run, update in runs:
        if _has_room_for(connection, run, update.record.record.kind, direct):
            _put(connection, run, update, direct)


def _has_room_for(connection: sqlite3.Connection, run: RunKey, kind: str, direct: bool) -> bool:
    """Whether a record of this kind and stream may describe the run. A known run that counts less is removed.

    Ids are random, so two streams have the same one only where code has copied it: the API alone reports calls, and
    the event engine knows more of a run than a pod that says that it did one at once.
    """
    known = connection.execute(
        "select kind, direct from runs where organisation = ? and environment = ? and id = ?", run
    ).fetchone()
    if known is None or (known[1] == direct and (known[0] == "call") == (kind == "call")):
        return True
    if _standing(known[0], bool(known[1])) > _standing(kind, direct):
        return False
    _remove(connection, [run])
    return True


def _standing(kind: str, direct: bool) -> int:
    return 2 if kind == "call" else int(not direct)


def _put(connection: sqlite3.Connection, run: RunKey, update: RunUpdate, direct: bool) -> None:
    record, (attempt, phase, moment, tie) = update.record.record, update.record.order
    error, issue = error_to_json(record.error), issue_of(run[1], record)
    failed = None if issue is None else nanoseconds(update.record.ended_at or record.at)
    size = _size(record.task, record.user, record.version, record.key, record.event_id, error)
    connection.execute(
        _PUT_RUN,
        (
            *run, record.kind, record.task, record.status, attempt, phase, moment, tie,
            update.queued, record.attempts, record.user, record.activation_id, record.version,
            record.key, record.shared_key, record.event_id, record.batch, _maybe(record.started_at),
            _maybe(record.ended_at), _maybe(record.next_attempt_at), record.waits_for,
            _maybe(record.discarded_at), error, record.trace_id, record.replay_of, record.parent, issue, failed,
            size if issue is None else size + _ISSUE_BYTES,
            direct, update.stored, update.first_at, update.last_at,
        ),
    )  # fmt: skip
    connection.execute(_TOUCH_RUN, (update.last_at, update.input_at, *run))
    if update.tags:
        _put_tags(connection, run, update)
    if (said := update.progress) is not None:
        attempt, at, text, fraction = said.order
        content = (*run, attempt, at, text, fraction, _PROGRESS_BYTES + 3 * len(text))
        connection.execute(_PUT_PROGRESS, content)
    if direct:
        return  # it has one attempt, of which the run says all
    for number, one in update.attempts.items():
        record, (_, phase, moment, tie) = one.record, one.order
        steps = steps_to_json(record.steps)
        connection.execute(
            _PUT_ATTEMPT,
            (
                *run, number, record.status, phase, moment, tie, _maybe(record.started_at), _maybe(record.ended_at),
                (error := error_to_json(record.error)), record.trace_id, record.version, steps,
                _size(record.version, error, steps),
            ),
        )  # fmt: skip


def _put_tags(connection: sqlite3.Connection, run: RunKey, update: RunUpdate) -> None:
    """Adds to what other records say. Attempts of hostile code may have other names each: the latest ten stay."""
    connection.executemany(
        _PUT_TAG,
        [
            (name, value, attempt, phase, moment, _TAG_BYTES + 3 * len(f"{name}{value}".encode()), *run)
            for name, (attempt, phase, moment, value) in update.tags.items()
        ],
    )
    connection.execute(_BOUND_TAGS, (*run, MAX_TAGS))


def _size(*texts: str | None) -> int:
    """About what a row takes in the file."""
    return _ROW_BYTES + sum(len(text.encode()) for text in texts if text)


def _maybe(seconds: float | None) -> int | None:
    return None if seconds is None else nanoseconds(seconds)


def remove_before(connection: sqlite3.Connection, organisation: str, first: int, direct: bool) -> int:
    found = connection.execute(
        "select organisation, environment, id from runs where organisation = ? and direct = ? and last_at < ? "
        "limit ?",
        (organisation, direct, first, _REMOVED_AT_ONCE),
    ).fetchall()
    return _remove(connection, found)


def evict(connection: sqlite3.Connection) -> int:
    """Removes some runs of the environment that takes most, in the organisation that does, and not what others have.

    Direct runs go first: they are many, and nothing is left to do with most of them. What is oldest the stream says,
    and not when a record claims that its run was queued.
    """
    most = connection.execute(
        "select organisation, environment from usage where organisation = "
        "(select organisation from usage group by organisation order by sum(bytes) desc, organisation limit 1) "
        "order by bytes desc, environment limit 1"
    ).fetchone()
    if most is None:
        return 0
    found = connection.execute(
        "select organisation, environment, id from runs where organisation = ? and environment = ? "
        "order by direct desc, last_at limit ?",
        (*most, _EVICTED_AT_ONCE),
    ).fetchall()
    if not found:
        # Nothing is left to count: others are next.
        connection.execute("delete from usage where organisation = ? and environment = ?", most)
        return 1
    return _remove(connection, found)


def _remove(connection: sqlite3.Connection, runs: Sequence[RunKey]) -> int:
    for table, column in (("attempts", "run"), ("tags", "run"), ("progress", "run"), ("runs", "id")):
        connection.executemany(
            f"delete from {table} where organisation = ? and environment = ? and {column} = ?",  # noqa: S608
            runs,
        )
    return len(runs)
