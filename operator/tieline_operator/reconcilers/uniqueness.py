"""Ids and names of objects: on a uniqueness conflict, the oldest object wins."""

from collections.abc import Iterable
from dataclasses import replace

from tieline_core.identity.ids import ID_LABEL, object_id, parse_id
from tieline_operator.apply.conditions import ID_INVALID, ID_TAKEN, is_terminating
from tieline_operator.apply.plan import Object, Outcome, Plan, failed
from tieline_operator.cache.cluster_cache import Lister
from tieline_operator.cache.indexers import BY_ID, BY_ID_ANYWHERE, joined, namespace_of


def older_claimant(obj: Object, others: Iterable[Object]) -> str | None:
    """The name of the oldest of ``others`` if it is older than ``obj`` (or as old, with the smaller uid)."""
    oldest = min(others, key=_age, default=None)
    return oldest["metadata"]["name"] if oldest is not None and _age(oldest) < _age(obj) else None


def id_conflict(obj: Object, lister: Lister) -> Outcome | None:
    """The outcome when an older object of this kind has the same id."""
    identifier = object_id(obj)
    other = older_claimant(obj, lister.by_index(BY_ID, joined(namespace_of(obj), identifier)))
    if other is None:
        return None
    return failed(
        ID_TAKEN,
        f'The older object "{other}" has the id {identifier} too; '
        "remove the label tieline.dev/id here to get another",
    )


def cross_organisation_id_conflict(obj: Object, projects: Lister) -> Outcome | None:
    """The outcome when an older Project of another organisation has the same id.

    The message reveals nothing about that organisation.
    """
    identifier, namespace = object_id(obj), namespace_of(obj)
    others = [
        other
        for other in projects.by_index(BY_ID_ANYWHERE, identifier)
        if namespace_of(other) != namespace and not is_terminating(other)
    ]
    if older_claimant(obj, others) is None:
        return None
    return failed(
        ID_TAKEN,
        f"An older Project of another organisation has the id {identifier} too; remove the label tieline.dev/id "
        "here to get another (the ids of the environments follow from it)",
    )


def with_id_label_check(obj: Object, plan: Plan) -> Plan:
    """The plan, with a failure if the id label holds no ULID.

    The object works, under the id that it has without a label. The label is left as it is: Git may manage it.
    """
    label = obj["metadata"].get("labels", {}).get(ID_LABEL)
    if label is None or parse_id(label) or plan.outcome.status != "True":
        return plan
    outcome = failed(
        ID_INVALID,
        f'The label tieline.dev/id holds "{label}", which is no ULID, so the id is {object_id(obj)}; '
        "remove the label, or write a ULID (26 letters and digits) there",
    )
    return replace(plan, outcome=outcome)


def _age(obj: Object) -> tuple[str, str]:
    metadata = obj["metadata"]
    return metadata["creationTimestamp"], metadata["uid"]
