"""What is known of requests that systems refused, written as an annotation of their Connections.

Few writes come of many reports: one when refusals begin, one each five minutes, one when a request is accepted.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from tieline_api.cache.cluster_cache import ClusterCache
from tieline_common.bounded_dict import BoundedDict
from tieline_core.credentials.refusals import ANNOTATION, REFUSALS, REPORTER, Refusals, refusals_of
from tieline_core.kubernetes import Kube
from tieline_core.kubernetes.resources import CONNECTIONS
from tieline_core.objects import ObjectView

_WRITE_EACH = timedelta(minutes=5)
# Between pods that are answered differently, the state changes no more often than this.
_TURN_EACH = timedelta(seconds=2)
_REMEMBERED = 10_000
_MOST = 1_000_000_000


class RefusalReports:
    """Keeps the annotation; one for a process."""

    def __init__(
        self, kube: Kube, world: ClusterCache, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._kube = kube
        self._world = world
        self._now = now
        self._unwritten: BoundedDict[str, int] = BoundedDict(_REMEMBERED)
        """Refused requests by the uid of the Connection, since the annotation was written."""
        self._written: BoundedDict[str, datetime] = BoundedDict(_REMEMBERED)

    async def answered(self, connection: ObjectView, status: int, count: int = 1) -> None:
        """``count`` requests were answered with ``status``. Raises KubeError."""
        known, now = refusals_of(connection), self._now()
        found = self._after(connection["metadata"]["uid"], known, status, count, now)
        if found is not None:
            await self._write(connection, found, now)

    def _after(
        self, uid: str, known: Refusals | None, status: int, count: int, now: datetime
    ) -> Refusals | None:
        """What is known after a report; None where nothing is to be written."""
        refused = known is not None and known.accepted is None
        if status in REFUSALS:
            self._unwritten[uid] = min(self._unwritten.get(uid, 0) + count, _MOST)
        if known is not None and refused and status in REFUSALS:
            if abs(now - known.last) < _WRITE_EACH:
                return None
            total = min(known.count + self._unwritten[uid], _MOST)
            return replace(known, status=status, count=total, last=now)
        if refused is (status in REFUSALS) or self._has_turned(uid, now):
            return None
        if known is not None and refused:
            return replace(known, accepted=now)
        return Refusals(status=status, count=self._unwritten[uid], since=now, last=now)

    def _has_turned(self, uid: str, now: datetime) -> bool:
        """Whether the state has changed a moment ago."""
        written = self._written.get(uid)
        return written is not None and written + _TURN_EACH > now

    async def _write(self, connection: ObjectView, found: Refusals, now: datetime) -> None:
        metadata = connection["metadata"]
        manifest = {
            "apiVersion": CONNECTIONS.api_version,
            "kind": CONNECTIONS.kind,
            "metadata": {
                **{key: metadata[key] for key in ("name", "namespace", "uid")},
                "annotations": {ANNOTATION: found.to_annotation()},
            },
        }
        self._written[metadata["uid"]] = now
        applied = await self._kube.apply(CONNECTIONS, manifest, field_manager=REPORTER, force=True)
        self._unwritten.pop(metadata["uid"], None)
        self._world.connections.observe(applied.object)
