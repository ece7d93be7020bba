"""Answers to approvals of runs in memory: in tests, and to ``tieline run``."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tieline.errors import TielineError
from tieline.events.memory import MemoryQueue
from tieline.events.wait_store import KeptEvent, Outcome, Wait
from tieline.execution.ulids import new_ulid
from tieline_protocol import approvals
from tieline_protocol.approvals import Answer, Approval, answer_event, approval_index, refusal, wait_name


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


async def answer_locally(
    queue: MemoryQueue, identifier: str, person: Person, given: Given, *, now: float
) -> None:
    """Answer an approval as the platform does, and have the run woken. Raises ApprovalRefusedError."""
    approval, outcome = next(
        ((one, outcome) for one, outcome in queue.waits.approvals() if one.id == identifier), (None, None)
    )
    if approval is None:
        raise ApprovalRefusedError(f"There is no approval {identifier!r}")
    if why := refusal(approval, user=person.name, groups=person.groups, roles=person.roles):
        raise ApprovalRefusedError(why)
    if outcome is not None or now >= approval.until:
        raise ApprovalRefusedError(_ended(outcome))
    if problem := _problem(approval, given):
        raise ApprovalRefusedError(problem)
    answer = Answer(
        approval=approval.id,
        approved=given.approved,
        by=person.name,
        at=now,
        comment=given.comment,
        values=given.values,
    )
    metadata, payload = answer_event(new_ulid(), now), answer.encode()
    await queue.publish(metadata, payload)
    wait = Wait(index=approval_index(approval.id), run=approval.run, name=wait_name(approval.id))
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
