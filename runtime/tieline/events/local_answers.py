"""Answers to approvals of runs in memory: in tests, and to ``tieline run``."""

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tieline.errors import TielineError, reason
from tieline.events.memory import MemoryQueue
from tieline.events.memory_waits import MemoryWaits
from tieline.events.queue import EventsUnavailableError
from tieline.events.wait_store import KeptEvent, Outcome, Wait
from tieline.execution.ulids import new_ulid
from tieline.plain_json import encode
from tieline_protocol import approvals
from tieline_protocol.approvals import Answer, Approval, answer_event, approval_index, refusal, wait_name
from tieline_protocol.signals import (
    MAX_PAYLOAD_BYTES,
    NAME_PATTERN,
    InvalidSignalError,
    SentSignal,
    is_name,
    signal_event,
)

if TYPE_CHECKING:
    from tieline.events.event_file import EventFile  # pods do not need SQLite

logger = logging.getLogger("tieline.events")

_LOOK_SECONDS = 0.5
_SIGNAL = "signal-"
"""Begins the ids of signals among the answers of the file."""


class ApprovalRefusedError(TielineError):
    """The answer does not count; the message says why.

    >>> issubclass(ApprovalRefusedError, TielineError)
    True
    """


@dataclass(frozen=True, kw_only=True)
class Person:
    """Who answers."""

    name: str
    roles: tuple[str, ...] = approvals.ROLES
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Given:
    """What they answer."""

    approved: bool
    comment: str = ""
    values: Mapping[str, Any] | None = None


def checked_answer(
    waits: MemoryWaits, identifier: str, person: Person, given: Given, *, now: float
) -> tuple[Approval, Answer]:
    """An answer as the platform would take it. Raises ApprovalRefusedError."""
    approval, outcome = next(
        ((one, outcome) for one, outcome in waits.approvals() if one.id == identifier), (None, None)
    )
    if approval is None:
        raise ApprovalRefusedError(f"There is no approval {identifier!r}")
    if why := refusal(approval, user=person.name, groups=person.groups, roles=person.roles):
        raise ApprovalRefusedError(why)
    if outcome is not None or now >= approval.until:
        raise ApprovalRefusedError(_ended(outcome))
    if problem := _problem(approval, given):
        raise ApprovalRefusedError(problem)
    return approval, Answer(
        approval=approval.id,
        approved=given.approved,
        by=person.name,
        at=now,
        comment=given.comment,
        values=given.values,
    )


async def answer_locally(
    queue: MemoryQueue, identifier: str, person: Person, given: Given, *, now: float
) -> None:
    """Answer an approval as the platform does, and have the run woken. Raises ApprovalRefusedError."""
    approval, answer = checked_answer(queue.waits, identifier, person, given, now=now)
    await _store(queue, approval.run, answer)


async def signal_locally(
    queue: MemoryQueue, run: str, name: str, payload: Any, *, by: str, now: float
) -> None:
    """Send a signal to a run as the platform does. Raises ValueError."""
    await _send(queue, sent_signal(run, name, payload, by=by, now=now))


def sent_signal(run: str, name: str, payload: Any, *, by: str, now: float) -> SentSignal:
    """A signal as the platform would take it. Raises ValueError and TypeError."""
    if not is_name(name):
        raise ValueError(f"A signal cannot have the name {name!r}: it must match {NAME_PATTERN}")
    text = encode(payload)
    if len(text.encode()) > MAX_PAYLOAD_BYTES:
        raise ValueError(f"The payload of a signal has at most {MAX_PAYLOAD_BYTES:,} bytes")
    return SentSignal(run=run, name=name, payload=text, by=by, at=now)


async def _send(queue: MemoryQueue, signal: SentSignal) -> None:
    await queue.publish(signal_event(new_ulid(), signal.at), signal.encode())


async def take_answers(queue: MemoryQueue, file: "EventFile") -> None:
    """Take the answers and signals that ``tieline`` leaves in the file, until cancelled."""
    while True:
        try:
            for identifier, run, content in file.take_answers():
                if identifier.startswith(_SIGNAL):
                    await _send(queue, SentSignal.decode(content))
                else:
                    await _store(queue, run, Answer.decode(content))
        except (EventsUnavailableError, approvals.InvalidApprovalError, InvalidSignalError) as error:
            logger.warning("An answer or a signal cannot be taken: %s", reason(error))
        await asyncio.sleep(_LOOK_SECONDS)


async def leave_answer(file: "EventFile", identifier: str, person: Person, given: Given) -> None:
    """Leave an answer for ``tieline run``. Raises ApprovalRefusedError and EventsUnavailableError."""
    approval, answer = checked_answer(kept_in(file), identifier, person, given, now=time.time())
    file.leave_answer(approval.id, approval.run, answer.encode())


def leave_signal(file: "EventFile", run: str, name: str, payload: Any, *, by: str) -> None:
    """Leave a signal for ``tieline run``. Raises ValueError and EventsUnavailableError."""
    if all(one.metadata.run != run for one in file.events()):
        raise ValueError(f"No run {run} is here, or it has ended")
    signal = sent_signal(run, name, payload, by=by, now=time.time())
    file.leave_answer(f"{_SIGNAL}{new_ulid()}", run, signal.encode())


def kept_in(file: "EventFile") -> MemoryWaits:
    """What a file has of waits. Raises EventsUnavailableError."""
    waits = MemoryWaits(file)
    waits.read()
    return waits


async def _store(queue: MemoryQueue, run: str, answer: Answer) -> None:
    metadata, payload = answer_event(new_ulid(), answer.at), answer.encode()
    await queue.publish(metadata, payload)
    wait = Wait(index=approval_index(answer.approval), run=run, name=wait_name(answer.approval))
    await queue.waits.decide(wait, Outcome(event=KeptEvent(metadata=metadata, payload=payload)))


def _ended(outcome: Outcome | None) -> str:
    if outcome is None or outcome.event is None:
        return "Nobody has answered in time"
    first = Answer.decode(outcome.event.payload)
    at = datetime.fromtimestamp(first.at, UTC).isoformat(timespec="seconds")
    return f"{first.by} has {'approved' if first.approved else 'rejected'} it at {at}"


def _problem(approval: Approval, given: Given) -> str | None:
    if len(given.comment) > approvals.MAX_COMMENT:
        return f"The comment has more than {approvals.MAX_COMMENT} characters"
    if approvals.is_deeper(given.values):
        return f"The values nest deeper than {approvals.MAX_DEPTH} levels"
    # A rejection need not fill the form.
    if approval.form is None or not given.approved:
        return None
    from tieline_protocol.variables import variable_errors  # noqa: PLC0415  (most runs need not load it)

    found = variable_errors(approval.form, given.values or {})
    return f"The values do not follow the form: {found[0]}" if found else None
