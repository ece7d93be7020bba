"""Of objects that claim the same thing (an id, a name) the oldest has it."""

from collections.abc import Iterable

from tieline_core.identity.ids import object_id
from tieline_operator.apply.conditions import ID_TAKEN
from tieline_operator.apply.plan import Object, Outcome, failed
from tieline_operator.cache.cluster_cache import Lister
from tieline_operator.cache.indexers import BY_ID, BY_ID_ANYWHERE, joined, namespace_of


def older_claimant(obj: Object, others: Iterable[Object]) -> Object | None:
    """The oldest of ``others`` if it is older than ``obj`` (or as old, with the smaller uid)."""
    oldest = min(others, key=_age, default=None)
    return oldest if oldest is not None and _age(oldest) < _age(obj) else None


def id_conflict(obj: Object, view: Lister) -> Outcome | None:
    """The outcome when an older object of this kind has the same id."""
    identifier = object_id(obj)
    other = older_claimant(obj, view.by_index(BY_ID, joined(namespace_of(obj), identifier)))
    if other is None:
        return None
    return failed(
        ID_TAKEN,
        f'The older object "{other["metadata"]["name"]}" has the id {identifier} too; '
        "remove the label tieline.dev/id here to get another",
    )


def cross_organisation_id_conflict(obj: Object, projects: Lister) -> Outcome | None:
    """The outcome when an older Project of another organisation has the same id.

    Nothing is said about that organisation.
    """
    identifier, namespace = object_id(obj), namespace_of(obj)
    others = [
        other
        for other in projects.by_index(BY_ID_ANYWHERE, identifier)
        if namespace_of(other) != namespace and "deletionTimestamp" not in other["metadata"]
    ]
    if older_claimant(obj, others) is None:
        return None
    return failed(
        ID_TAKEN,
        f"An older Project of another organisation has the id {identifier} too; remove the label tieline.dev/id "
        "here to get another (the ids of the environments follow from it)",
    )


def _age(obj: Object) -> tuple[str, str]:
    metadata = obj["metadata"]
    return metadata["creationTimestamp"], metadata["uid"]
