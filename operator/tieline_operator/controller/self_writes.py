"""What the operator has just written itself, so that the news of it is no reason to look again.

Every write comes back as an event. Where the object was planned on is what the write has found there, its plan holds
and a second look would find the same. This is known only of kinds whose plan does not go on from their own status.
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
    """The latest writes to objects, by resource version."""

    def __init__(self) -> None:
        self._versions: FIFOCache[tuple[str, str], None] = FIFOCache(_MAX_REMEMBERED)

    def note(self, resource: Resource, planned: Object, written: Object) -> None:
        """An object that ``planned`` was decided on has been written and is ``written`` now."""
        if resource in _CONVERGES_IN_ONE_PASS and _relevant_metadata(planned) == _relevant_metadata(written):
            self._versions[written["metadata"]["uid"], written["metadata"]["resourceVersion"]] = None

    def holds(self, uid: str, version: str) -> bool:
        """Whether this state of an object is one that was noted. Asked once for each."""
        return self._versions.pop((uid, version), False) is None


def _relevant_metadata(obj: Object) -> tuple[object, ...]:
    """All that others may have changed, besides the status. A spec's changes count its generation up."""
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
