"""Conditions as in KEP-1623, with Reconciling and Stalled for kstatus."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from tieline_core.identity.ids import format_time, object_id
from tieline_operator.apply.plan import Object, Outcome, Plan, PlannedCondition, failed

READY = "Ready"
ID_TAKEN = "IdTaken"
"""The reason of an object that claims an id which another one has."""
ID_CHANGED = "IdChanged"
"""The reason of an object whose id label holds another id than it has. It works, under the id that it has."""
ID_INVALID = "IdInvalid"
"""The reason of an object whose id label holds no ULID. It works, under the id that it has without the label."""
ORGANISATION_MISSING = "OrganisationMissing"
"""The reason of an object whose namespace carries no organisation's id."""
ORGANISATION_CHANGED = "OrganisationChanged"
"""The reason of an object whose namespace carries another organisation's id than it has."""
ORGANISATION_TAKEN = "OrganisationTaken"
"""The reason of a namespace that carries the id of another one, and of the objects in it."""
_NOT_ITS_FAULT = frozenset(
    {ID_CHANGED, ID_INVALID, ORGANISATION_CHANGED, ORGANISATION_MISSING, ORGANISATION_TAKEN}
)
_INVALID = "Invalid"
_WITHOUT_CLAIM = frozenset({ID_TAKEN, _INVALID})
"""Reasons of objects whose id was refused, or not compared with those of others."""
_MAX_MESSAGE = 8192
_MAX_ERRORS = 5


def full_status(obj: Object, plan: Plan, now: datetime) -> dict[str, Any]:
    """The status that ``obj`` should have after ``plan``.

    Ready is always there. ``lastTransitionTime`` moves only when a condition's status does. The id is recorded once
    it is the object's alone, and stays. One that never got the id that it claims gets another without the label.
    """
    generation = obj["metadata"].get("generation", 0)
    outcome = plan.outcome
    conditions = [_condition(READY, outcome.status, outcome, obj, now)]
    if outcome.status == "Unknown":
        conditions.append(_condition("Reconciling", "True", outcome, obj, now))
    if outcome.status == "False":
        conditions.append(_condition("Stalled", "True", outcome, obj, now))
    conditions += [_condition(one.type, one.status, one, obj, now) for one in plan.conditions]
    content = {key: value for key, value in plan.status.items() if key != "id"}
    unclaimed = outcome.reason in _WITHOUT_CLAIM and not obj.get("status", {}).get("id")
    recorded = {} if unclaimed else {"id": object_id(obj)}
    return {**recorded, **content, "observedGeneration": generation, "conditions": conditions}


def find_condition(obj: Object | None, kind: str = READY) -> Mapping[str, Any] | None:
    """The condition of type ``kind`` in an object's status."""
    conditions = obj.get("status", {}).get("conditions", []) if obj else []
    return next((condition for condition in conditions if condition["type"] == kind), None)


def is_terminating(obj: Object | None) -> bool:
    """Whether the object exists and is being deleted."""
    return obj is not None and "deletionTimestamp" in obj["metadata"]


def has_failed(obj: Object) -> bool:
    """Whether the object's own Ready says that it cannot be used.

    One whose id label is wrong can. Where the namespace is no organisation, each object in it says so itself.
    """
    condition = find_condition(obj)
    return (
        condition is not None and condition["status"] == "False" and condition["reason"] not in _NOT_ITS_FAULT
    )


def invalid(error: ValidationError, kind: str) -> Outcome:
    """The outcome for an object that this version's models refuse (stored by another version, say).

    ``kind`` is the object's; the invalid one may be another that it refers to.
    """
    errors = [
        f"{'.'.join(str(part) for part in item['loc'])}: {item['msg']}"
        for item in error.errors(include_url=False, include_input=False, include_context=False)
    ]
    more = f"; and {len(errors) - _MAX_ERRORS} more" if len(errors) > _MAX_ERRORS else ""
    which = "The object" if error.title == kind else f"A {error.title} that it refers to"
    return failed(_INVALID, f"{which} is invalid; correct {'; '.join(errors[:_MAX_ERRORS])}{more}")


def _condition(
    kind: str, status: str, outcome: Outcome | PlannedCondition, obj: Object, now: datetime
) -> dict[str, Any]:
    before = find_condition(obj, kind)
    same = before is not None and before["status"] == status
    return {
        "type": kind,
        "status": status,
        "observedGeneration": obj["metadata"].get("generation", 0),
        "lastTransitionTime": before["lastTransitionTime"] if before and same else format_time(now),
        "reason": outcome.reason,
        "message": _cut(outcome.message),
    }


def _cut(message: str) -> str:
    return message if len(message) <= _MAX_MESSAGE else f"{message[: _MAX_MESSAGE - 1]}…"
