"""Conditions in the form of KEP-1623, with Reconciling and Stalled for kstatus."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from tieline_core.identity.ids import format_time, object_id
from tieline_operator.apply.plan import Object, Outcome, Plan, failed

READY = "Ready"
ID_TAKEN = "IdTaken"
"""The reason of an object that has the id of an older one."""
ID_INVALID = "IdInvalid"
"""The reason of an object whose id label holds no ULID. It works, under the id that it has without the label."""
_MAX_MESSAGE = 8192
_MAX_ERRORS = 5


def full_status(obj: Object, plan: Plan, now: datetime) -> dict[str, Any]:
    """The status that ``obj`` should have after ``plan``.

    Ready is always there. ``lastTransitionTime`` moves only when a condition's status does. The id is recorded once
    it is the object's alone: one whose id is taken gets another when the label is removed.
    """
    generation = obj["metadata"].get("generation", 0)
    previous = obj.get("status", {}).get("conditions", [])
    outcome = plan.outcome
    wanted = [_condition(READY, outcome.status, outcome, generation, previous, now)]
    if outcome.status == "Unknown":
        wanted.append(_condition("Reconciling", "True", outcome, generation, previous, now))
    if outcome.status == "False":
        wanted.append(_condition("Stalled", "True", outcome, generation, previous, now))
    content = {key: value for key, value in plan.status.items() if key != "id"}
    recorded = {} if outcome.reason == ID_TAKEN else {"id": object_id(obj)}
    return {**recorded, **content, "observedGeneration": generation, "conditions": wanted}


def find(obj: Object, kind: str = READY) -> Mapping[str, Any] | None:
    """The condition of type ``kind`` in an object's status."""
    conditions = obj.get("status", {}).get("conditions", [])
    return next((condition for condition in conditions if condition["type"] == kind), None)


def has_failed(obj: Object) -> bool:
    """Whether the object's own Ready says that it cannot be used. One whose id label is wrong can."""
    condition = find(obj)
    return condition is not None and condition["status"] == "False" and condition["reason"] != ID_INVALID


def invalid(error: ValidationError, kind: str) -> Outcome:
    """The outcome for an object that this version's models refuse (stored by another version, say).

    ``kind`` is the object's; the invalid one may be another that it refers to.
    """
    told = [
        f"{'.'.join(str(part) for part in item['loc'])}: {item['msg']}"
        for item in error.errors(include_url=False, include_input=False, include_context=False)
    ]
    more = f"; and {len(told) - _MAX_ERRORS} more" if len(told) > _MAX_ERRORS else ""
    which = "The object" if error.title == kind else f"A {error.title} that it refers to"
    return failed("Invalid", f"{which} is invalid; correct {'; '.join(told[:_MAX_ERRORS])}{more}")


def _condition(
    kind: str,
    status: str,
    outcome: Outcome,
    generation: int,
    previous: Sequence[Mapping[str, Any]],
    now: datetime,
) -> dict[str, Any]:
    before = next((condition for condition in previous if condition["type"] == kind), None)
    same = before is not None and before["status"] == status
    return {
        "type": kind,
        "status": status,
        "observedGeneration": generation,
        "lastTransitionTime": before["lastTransitionTime"] if before and same else format_time(now),
        "reason": outcome.reason,
        "message": _cut(outcome.message),
    }


def _cut(message: str) -> str:
    return message if len(message) <= _MAX_MESSAGE else f"{message[: _MAX_MESSAGE - 1]}…"
