"""Of objects that claim the same thing (an id, a name) the oldest has it."""

from collections.abc import Iterable

from tieline_core.ids import object_id
from tieline_operator.conditions import ID_TAKEN
from tieline_operator.indexes import BY_ID, joined, namespace_of
from tieline_operator.plans import Object, Outcome, failed
from tieline_operator.world import View


def elder(obj: Object, others: Iterable[Object]) -> Object | None:
    """The oldest of ``others`` if it is older than ``obj`` (or as old, with the smaller uid)."""
    oldest = min(others, key=_age, default=None)
    return oldest if oldest is not None and _age(oldest) < _age(obj) else None


def id_taken(obj: Object, view: View) -> Outcome | None:
    """The outcome when an older object of this kind has the same id."""
    identifier = object_id(obj)
    other = elder(obj, view.by_index(BY_ID, joined(namespace_of(obj), identifier)))
    if other is None:
        return None
    return failed(
        ID_TAKEN,
        f'The older object "{other["metadata"]["name"]}" has the id {identifier} too; '
        "remove the label tieline.dev/id here to get another",
    )


def _age(obj: Object) -> tuple[str, str]:
    metadata = obj["metadata"]
    return metadata["creationTimestamp"], metadata["uid"]
