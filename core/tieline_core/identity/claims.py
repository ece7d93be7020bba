"""Which of several objects has an id or a name that all of them claim: the one whose claim was seen first.

The operator records what an object has in its status (``status.id``, ``status.name``), which the roles of people cannot
write and which a backup keeps. A recorded claim precedes all others. So nobody takes an id or a name with an older
object: what the API server says of an object's age says nothing about its labels and its spec.
"""

from collections.abc import Callable

from tieline_core.identity.ids import object_id, parse_id
from tieline_core.objects import ObjectView

ClaimOrder = tuple[int, str, str]
"""Sorts claims: whether it is recorded; then the object's age and uid."""

_RECORDED, _UNSEEN, _REFUSED = range(3)


def id_claim(obj: ObjectView) -> ClaimOrder:
    """The order of claims on an object's id (``object_id``)."""
    recorded = parse_id((obj.get("status") or {}).get("id") or "")
    return _order(obj, recorded=recorded == object_id(obj))


def name_claim(obj: ObjectView) -> ClaimOrder:
    """The order of claims on the name in an object's spec, where that may change."""
    recorded = (obj.get("status") or {}).get("name")
    return _order(obj, recorded=recorded is not None and recorded == obj["spec"].get("name"))


def creation_claim(obj: ObjectView) -> ClaimOrder:
    """The order of claims on something that an object is created with and that never changes."""
    return 0, obj["metadata"]["creationTimestamp"], obj["metadata"]["uid"]


Claim = Callable[[ObjectView], ClaimOrder]


def _order(obj: ObjectView, *, recorded: bool) -> ClaimOrder:
    # What the operator has seen without recording the claim was refused it, or claims it since.
    seen = bool((obj.get("status") or {}).get("conditions"))
    rank = _RECORDED if recorded else _REFUSED if seen else _UNSEEN
    return rank, obj["metadata"]["creationTimestamp"], obj["metadata"]["uid"]
