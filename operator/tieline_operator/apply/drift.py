"""Reports drift: which child somebody else changed, which fields, and by which manager.

The applier reverts drift, and does not depend on this module. A child has drifted when it differs although the
desired manifest is the one that was applied last (the annotation has the same hash), or when it is gone and the
operator did not delete it. What the API server and controllers add is no difference.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from cachetools import LRUCache, TTLCache

from tieline_core.kubernetes import KubeError, NotFound, Resource
from tieline_core.kubernetes.managed_fields import FieldOwner, Path, other_owners
from tieline_operator.apply.diff import APPLIED_ANNOTATION, differing, format_path
from tieline_operator.apply.event_recorder import EventRecorder
from tieline_operator.apply.plan import MANAGER, Object

logger = logging.getLogger(__name__)

REASON = "DriftRepaired"
CHANGED, DELETED, SCALED = "changed", "deleted", "scaled"
# At most one Event a child in this time, however often somebody changes it.
QUIET_SECONDS = 600.0
# The reconcile that recreates a deleted child follows at once, or when another replica has taken over.
_REMEMBERED_SECONDS = 60.0
_MAX_REMEMBERED = 1000
_MAX_FIELDS = 5

ChildKey = tuple[Resource, str, str]


class LiveReader(Protocol):
    """Reads objects from the API server: caches drop managed fields, and hold labelled objects only."""

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Mapping[str, Any]: ...

    async def list(
        self, resource: Resource, namespace: str | None = None, *, field_selector: str | None = None
    ) -> Sequence[Object]: ...


@dataclass(frozen=True)
class Drift:
    """A child that somebody else changed or deleted."""

    resource: Resource
    namespace: str
    name: str
    what: str
    """``changed``, ``deleted``, or ``scaled`` by something that scales by itself."""
    fields: tuple[Path, ...] = ()
    by: tuple[str, ...] = ()
    """The field managers that the API server names, where it knows them."""

    @property
    def key(self) -> ChildKey:
        return self.resource, self.namespace, self.name

    @property
    def message(self) -> str:
        """The message of the Event. It holds no values."""
        if self.what == DELETED:
            return f"{self.resource.kind} {self.name} was deleted by another client and has been recreated"
        shown = ", ".join(format_path(path) for path in self.fields[:_MAX_FIELDS])
        more = f" and {len(self.fields) - _MAX_FIELDS} more" if len(self.fields) > _MAX_FIELDS else ""
        by = f" by {', '.join(self.by)}" if self.by else ""
        return (
            f"{self.resource.kind} {self.name} was changed{by}, and has been put right: {shown}{more}. "
            "What should stay belongs into the spec of the object that owns it"
        )


@dataclass(eq=False)
class DriftReporter:
    """Detects drift while the applier reverts it, counts it, and posts Events."""

    kube: LiveReader
    events: EventRecorder
    counted: Callable[[str, str], None] = lambda _kind, _what: None
    """Called for each drift, with the kind of child and ``Drift.what``."""
    clock: Callable[[], float] = time.monotonic
    _own_deletions: LRUCache[str, None] = field(default_factory=lambda: LRUCache(_MAX_REMEMBERED))
    _reported: LRUCache[ChildKey, tuple[float, int]] = field(
        default_factory=lambda: LRUCache(_MAX_REMEMBERED)
    )

    def __post_init__(self) -> None:
        self._owners_of_deleted: TTLCache[ChildKey, frozenset[str]] = TTLCache(
            _MAX_REMEMBERED, _REMEMBERED_SECONDS, timer=self.clock
        )

    def deleting(self, uid: str) -> None:
        """The operator is about to delete this object itself."""
        self._own_deletions[uid] = None

    def gone(self, resource: Resource, obj: Object) -> None:
        """A watch reports that an object was deleted."""
        metadata = obj["metadata"]
        if self._own_deletions.pop(metadata["uid"], False) is None:
            return
        key = resource, metadata["namespace"], metadata["name"]
        self._owners_of_deleted[key] = _owner_uids(obj)

    def missing(self, resource: Resource, desired: Mapping[str, Any]) -> Drift | None:
        """The drift, if somebody else deleted a child that is about to be created."""
        metadata = desired["metadata"]
        key = resource, metadata["namespace"], metadata["name"]
        if self._owners_of_deleted.get(key, frozenset()).isdisjoint(_owner_uids(desired)):
            return None
        return Drift(*key, what=DELETED)

    async def changed(self, resource: Resource, desired: Mapping[str, Any], actual: Object) -> Drift | None:
        """The drift, if somebody else changed a child that is about to be applied. Reads who it was."""
        if _stamp(desired) is None or _stamp(desired) != _stamp(actual):
            return None
        fields = tuple(differing(desired, actual))
        metadata = desired["metadata"]
        by: tuple[FieldOwner, ...] = ()
        try:
            live = await self.kube.get(resource, metadata["name"], metadata["namespace"])
            by = other_owners(live, fields, manager=MANAGER)
        except NotFound:
            pass
        except KubeError as error:
            logger.debug("Cannot read who changed %s: %s", resource.plural, error)
        return Drift(
            resource,
            metadata["namespace"],
            metadata["name"],
            what=SCALED if _scaled_by_itself(fields, by) else CHANGED,
            fields=fields,
            by=tuple(sorted({owner.manager for owner in by})),
        )

    async def report(self, resource: Resource, obj: Object, drift: Drift) -> None:
        """Emits an Event on the owner and counts the repair. Repeated drift of a child is only counted."""
        self._owners_of_deleted.pop(drift.key, None)
        self.counted(drift.resource.kind, drift.what)
        if drift.what == SCALED:
            return
        now = self.clock()
        last, unreported = self._reported.get(drift.key, (float("-inf"), 0))
        if now - last < QUIET_SECONDS:
            self._reported[drift.key] = last, unreported + 1
            return
        self._reported[drift.key] = now, 0
        again = f" (and {unreported} times since the last report)" if unreported else ""
        message = drift.message + again
        more = {"kind": resource.kind, "object": f"{drift.namespace}/{obj['metadata']['name']}"}
        logger.warning("Drift repaired: %s", message, extra=more)
        await self.events.post(resource, obj, {"status": "False", "reason": REASON, "message": message})


def _scaled_by_itself(fields: tuple[Path, ...], by: tuple[FieldOwner, ...]) -> bool:
    """An autoscaler writes nothing but the number of replicas, through the subresource; so does ``kubectl scale``."""
    return (
        bool(by)
        and fields == (("spec", "replicas"),)
        and all(owner.subresource == "scale" and not owner.manager.startswith("kubectl") for owner in by)
    )


def _stamp(obj: Mapping[str, Any]) -> str | None:
    stamp: str | None = obj["metadata"].get("annotations", {}).get(APPLIED_ANNOTATION)
    return stamp


def _owner_uids(obj: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(owner["uid"] for owner in obj["metadata"].get("ownerReferences", ()))
