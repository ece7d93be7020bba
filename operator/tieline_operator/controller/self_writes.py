"""Filters watch events caused by the operator's own writes.

Every write comes back as an event. If the write found the object as it was planned on, a second reconcile would find
the same. This holds only for kinds whose plan does not depend on their own status.
"""

from cachetools import FIFOCache

from tieline_core.identity.ids import ID_LABEL
from tieline_core.kubernetes import Resource
from tieline_core.kubernetes.informer import LAST_APPLIED
from tieline_core.kubernetes.resources import ACTIVATIONS, CONNECTION_TEMPLATES, END_USERS, SYSTEMS
from tieline_operator.apply.plan import Object

_CONVERGES_IN_ONE_PASS = frozenset({ACTIVATIONS, CONNECTION_TEMPLATES, END_USERS, SYSTEMS})
_MAX_REMEMBERED = 4096


class SelfWriteFilter:
    """Remembers the latest writes by resourceVersion."""

    def __init__(self) -> None:
        self._versions: FIFOCache[tuple[str, str], None] = FIFOCache(_MAX_REMEMBERED)

    def note(self, resource: Resource, planned: Object, written: Object) -> None:
        """Records a write: the plan was made from ``planned``, and the object is ``written`` now."""
        if resource in _CONVERGES_IN_ONE_PASS and _relevant_metadata(planned) == _relevant_metadata(written):
            self._versions[written["metadata"]["uid"], written["metadata"]["resourceVersion"]] = None

    def holds(self, uid: str, version: str) -> bool:
        """Whether this version of an object is a recorded write; forgets it."""
        return self._versions.pop((uid, version), False) is None


def _relevant_metadata(obj: Object) -> tuple[object, ...]:
    """All that others may have changed, besides the status. A change of the spec increments the generation."""
    metadata = obj["metadata"]
    labels = {name: value for name, value in metadata.get("labels", {}).items() if name != ID_LABEL}
    return (
        metadata.get("generation"),
        labels,
        {name: value for name, value in metadata.get("annotations", {}).items() if name != LAST_APPLIED},
        metadata.get("ownerReferences"),
        metadata.get("finalizers"),
        metadata.get("deletionTimestamp"),
    )
