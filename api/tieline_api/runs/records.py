"""Records as pods wrote them, checked: code of users runs beside what writes them."""

import hashlib
import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import orjson

from tieline_api.runs.model import KINDS
from tieline_core.identity.ids import parse_id
from tieline_protocol.approvals import MAX_COMMENT, MAX_NAME, STATES
from tieline_protocol.events import RunKind
from tieline_protocol.run_progress import valid_progress
from tieline_protocol.run_records import (
    ENDED,
    InvalidRecordsError,
    RunError,
    RunRecord,
    StepApproval,
    StepRecord,
    TooManyValuesError,
    UpstreamAnswer,
    decode,
)
from tieline_protocol.run_tags import valid_tags

MAX_RECORDS = 2000
"""Of a message; pods write at most 500."""
MAX_STEPS = 500
MAX_STEPS_BYTES = 64 * 1024
_MAX_NAME = 128
_MAX_ID = 256
_MAX_APPROVER = 2 * MAX_NAME + 3
"""Of who answered an approval: a name for people, and that of the user in brackets."""
_MAX_TEXT = 2048
_MAX_BODY = 4096
_MAX_ATTEMPT = 1_000_000
_MAX_SECONDS = 9_000_000_000
"""In the year 2255: in nanoseconds it fits into 64 bits."""
CLOCKS_DIFFER = 60.0
_LONGEST_WAIT = 2 * 366 * 86400.0
"""A delay is at most a year, and a year is for what comes after it."""
_NANOSECONDS = 1_000_000_000
_MICROSECONDS = 1_000_000


@dataclass(frozen=True)
class CheckedRecord:
    """A record within limits. Of two records of an attempt the one with the higher ``order`` counts.

    Of two records of a run it is the same, but one that says that the run has ended counts before all others.
    """

    record: RunRecord
    order: tuple[int, int, int, bytes]
    ended_at: float | None = None
    """When a run that has ended did, as far as that can be."""


def read_records(
    content: bytes, *, stored_at: float | None = None, kinds: Collection[RunKind] = KINDS
) -> tuple[list[CheckedRecord], int]:
    """The records of a message that was stored at this time (seconds since 1970), and how many of them are none.

    Records of other kinds than these are none.
    """
    found: list[CheckedRecord] = []
    malformed = 0
    for record in _records(content):
        if record is None or len(found) == MAX_RECORDS:
            malformed += 1
            continue
        try:
            found.append(checked(record, stored_at=stored_at, kinds=kinds))
        except (AttributeError, OverflowError, TypeError, ValueError):
            malformed += 1
    return found, malformed


def _records(content: bytes) -> Iterator[RunRecord | None]:
    """Each record, None for one that is none: others of its message are read nevertheless."""
    try:
        yield from decode(content)
    except TooManyValuesError:
        yield None
    except InvalidRecordsError:
        try:
            parts = orjson.loads(content)
        except ValueError:
            parts = None
        if not isinstance(parts, list):
            yield None
            return
        for part in parts:
            try:
                yield from decode(orjson.dumps([part]))
            except (InvalidRecordsError, TypeError):
                yield None


def checked(
    record: RunRecord, *, stored_at: float | None = None, kinds: Collection[RunKind] = KINDS
) -> CheckedRecord:
    """The record with what is too long cut, and queued at a time that can be.

    Raises ValueError, TypeError and the like for what makes no sense.
    """
    if parse_id(_text(record.id, _MAX_NAME)) != record.id:
        raise ValueError("no id")
    if record.kind not in kinds:
        raise ValueError("no kind that may be here")
    clean = replace(
        record,
        task=_text(record.task, _MAX_NAME),
        attempt=_attempt(record.attempt),
        attempts=None if record.attempts is None else _attempt(record.attempts),
        queued_at=_possible(_seconds(record.queued_at), stored_at),
        at=_seconds(record.at),
        started_at=_maybe_seconds(record.started_at),
        ended_at=_maybe_seconds(record.ended_at),
        next_attempt_at=_maybe_seconds(record.next_attempt_at),
        discarded_at=_maybe_seconds(record.discarded_at) if record.status == "dead" else None,
        user=_maybe_text(record.user, _MAX_ID),
        activation_id=parse_id(_text(record.activation_id, _MAX_NAME)) or "",
        version=_text(record.version, _MAX_ID),
        key=_maybe_text(record.key, _MAX_ID * 2),
        shared_key=record.shared_key is True,
        event_id=_maybe_text(record.event_id, _MAX_ID),
        batch=record.batch is True,
        trace_id=_trace_id(record.trace_id),
        replay_of=parse_id(record.replay_of) if record.replay_of else None,
        parent=parse_id(record.parent) if record.parent else None,
        result=None,
        error=_error(record.error) if record.error else None,
        steps=_steps(record.steps),
        tags=valid_tags(record.tags),
        progress=valid_progress(record.progress),
    )
    _, attempt, phase = clean.rank
    moment = round(clean.at * _MICROSECONDS)
    tie = hashlib.blake2b(orjson.dumps(replace(clean, input=None, step_results=None)), digest_size=8).digest()
    ended_at = _possible(clean.at if clean.ended_at is None else clean.ended_at, stored_at)
    return CheckedRecord(clean, (attempt, phase, moment, tie), ended_at if clean.status in ENDED else None)


def nanoseconds(seconds: float) -> int:
    """A time of a record, to the microsecond."""
    return round(seconds * _MICROSECONDS) * (_NANOSECONDS // _MICROSECONDS)


def error_to_json(error: RunError | None) -> str:
    """What ``error_from_json`` reads; empty for none."""
    return orjson.dumps(error).decode() if error else ""


def error_from_json(text: str) -> RunError | None:
    """The error that ``error_to_json`` wrote."""
    if not text:
        return None
    content: dict[str, Any] = orjson.loads(text)
    upstream = content["upstream"]
    return RunError(
        type=content["type"],
        message=content["message"],
        upstream=UpstreamAnswer(**upstream) if upstream else None,
    )


def steps_to_json(steps: Iterable[StepRecord]) -> str:
    """What ``steps_from_json`` reads, without what steps do not have; empty for none."""
    content = [step.to_dict() for step in steps]
    return orjson.dumps(content).decode() if content else ""


def steps_from_json(text: str, most: int) -> tuple[list[StepRecord], int]:
    """The last ``most`` steps of an attempt, which are kept as JSON, and how many are left out before them."""
    steps: list[dict[str, Any]] = orjson.loads(text) if text else []
    left_out = max(len(steps) - most, 0)
    return [StepRecord.from_dict(step) for step in steps[left_out:]], left_out


def _error(error: RunError) -> RunError:
    upstream = error.upstream
    return RunError(
        type=_text(error.type, _MAX_ID),
        message=_text(error.message, _MAX_TEXT),
        upstream=UpstreamAnswer(
            status=_status(upstream.status),
            body=_text(upstream.body, _MAX_BODY),
            system=_text(upstream.system, _MAX_ID),
        )
        if upstream
        else None,
    )


def _approval(approval: StepApproval) -> StepApproval:
    return StepApproval(
        id=_text(approval.id, _MAX_ID),
        state=approval.state if approval.state in STATES else "open",
        by=_text(approval.by, _MAX_APPROVER),
        at=_seconds(approval.at) if approval.at is not None else None,
        comment=_text(approval.comment, MAX_COMMENT),
    )


def _steps(steps: Iterable[StepRecord]) -> tuple[StepRecord, ...]:
    found: list[StepRecord] = []
    size = 0
    for step in steps:
        clean = StepRecord(
            name=_text(step.name, _MAX_ID),
            occurrence=_attempt(step.occurrence),
            started_at=_seconds(step.started_at),
            ended_at=_seconds(step.ended_at),
            recorded=bool(step.recorded),
            error=_maybe_text(step.error, _MAX_TEXT),
            approval=_approval(step.approval) if step.approval else None,
            child=parse_id(step.child) if step.child else None,
        )
        comment = clean.approval.comment if clean.approval else ""
        size += len(clean.name) + len(clean.error or "") + len(comment) + 100
        if len(found) == MAX_STEPS or size > MAX_STEPS_BYTES:
            break
        found.append(clean)
    return tuple(found)


def _text(value: object, longest: int) -> str:
    if not isinstance(value, str):
        raise TypeError("no text")
    # What is no Unicode cannot be stored, nor answered.
    return value[:longest].encode("utf-8", "replace").decode()


def _maybe_text(value: object, longest: int) -> str | None:
    return None if value is None else _text(value, longest)


def _trace_id(value: object) -> str:
    text = _text(value, _MAX_NAME)
    return text.lower() if len(text) == 32 and all(one in "0123456789abcdefABCDEF" for one in text) else ""


def _whole(value: object, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise ValueError("no such number")
    return value


def _attempt(value: object) -> int:
    return _whole(value, _MAX_ATTEMPT)


def _status(value: object) -> int:
    return _whole(value, 999)


def _seconds(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError("no time")
    if not math.isfinite(value) or not 0 <= value <= _MAX_SECONDS:
        raise ValueError("no such time")
    return float(value)


def _possible(queued_at: float, stored_at: float | None) -> float:
    """Not later than it was reported, and not longer ago than an event can wait: lists are in this order."""
    if stored_at is None:
        return queued_at
    return max(stored_at - _LONGEST_WAIT, min(queued_at, stored_at + CLOCKS_DIFFER))


def _maybe_seconds(value: object) -> float | None:
    return None if value is None else _seconds(value)
