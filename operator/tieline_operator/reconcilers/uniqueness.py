"""Ids and names of objects: on a uniqueness conflict, the claim that was seen first wins."""

from collections.abc import Iterable
from dataclasses import replace

from tieline_core.identity.claims import Claim, creation_claim, id_claim
from tieline_core.identity.ids import ID_LABEL, object_id, parse_id
from tieline_operator.apply.conditions import ID_CHANGED, ID_INVALID, ID_TAKEN
from tieline_operator.apply.plan import Object, Outcome, Plan, failed
from tieline_operator.cache.cluster_cache import Lister
from tieline_operator.cache.indexers import BY_ID, BY_ID_ANYWHERE, joined, namespace_of


def earlier_claimant(obj: Object, others: Iterable[Object], claim: Claim = creation_claim) -> str | None:
    """The name of the one of ``others`` with the first claim, if that precedes the claim of ``obj``."""
    first = min(others, key=claim, default=None)
    return first["metadata"]["name"] if first is not None and claim(first) < claim(obj) else None


def id_conflict(obj: Object, lister: Lister) -> Outcome | None:
    """The outcome when another object of this kind has the same id."""
    identifier = object_id(obj)
    other = earlier_claimant(obj, lister.by_index(BY_ID, joined(namespace_of(obj), identifier)), id_claim)
    if other is None:
        return None
    return failed(ID_TAKEN, f'"{other}" has the id {identifier} already; {_another_id(obj)}')


def cross_organisation_id_conflict(obj: Object, projects: Lister) -> Outcome | None:
    """The outcome when a Project of another organisation has the same id.

    One that is being deleted has the id until it is gone: it may be replaced. The message reveals nothing about that
    organisation.
    """
    identifier, namespace = object_id(obj), namespace_of(obj)
    others = [
        other for other in projects.by_index(BY_ID_ANYWHERE, identifier) if namespace_of(other) != namespace
    ]
    if earlier_claimant(obj, others, id_claim) is None:
        return None
    return failed(
        ID_TAKEN,
        f"A Project of another organisation has the id {identifier} already; {_another_id(obj)} "
        "(the ids of the environments follow from it)",
    )


def with_id_label_check(obj: Object, plan: Plan) -> Plan:
    """The plan, with a failure if the id label holds no ULID, or another one than the id that the object has.

    The object works, under the id that it has. The label is left as it is: Git may manage it.
    """
    label, identifier = obj["metadata"].get("labels", {}).get(ID_LABEL), object_id(obj)
    if label is None or parse_id(label) == identifier or plan.outcome.status != "True":
        return plan
    if parse_id(label):
        outcome = failed(
            ID_CHANGED,
            f"The label tieline.dev/id holds {label}, but this object has the id {identifier}, and an id never "
            f"changes; set the label to {identifier}, or create another object with the other id",
        )
    else:
        outcome = failed(
            ID_INVALID,
            f'The label tieline.dev/id holds "{label}", which is no ULID, so the id is {identifier}; '
            "remove the label, or write a ULID (26 letters and digits) there",
        )
    return replace(plan, outcome=outcome)


def _another_id(obj: Object) -> str:
    if (obj.get("status") or {}).get("id"):
        return "delete this one and create it again without the label tieline.dev/id to get another"
    return "remove the label tieline.dev/id here to get another"
