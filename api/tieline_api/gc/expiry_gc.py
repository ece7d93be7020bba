"""Takes expired credentials out of the connections that REST has made.

The operator deletes their Secrets and reports it in the status, and never writes a spec. The API then removes the
entries it created. Entries owned by Git or a person stay and are never used.
"""

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from tieline_api.cluster.cluster_cache import ClusterCache
from tieline_api.cluster.writer import Writer, refuse_removal, set_or_drop
from tieline_api.conversion.times import expired
from tieline_api.errors import ApiError
from tieline_core.identity.ids import object_id, object_name
from tieline_core.kubernetes import KubeError
from tieline_core.kubernetes.periodic_gc import run_periodically
from tieline_core.objects import Object
from tieline_core.resources.objects import (
    ConnectionCredentialDict,
    ConnectionObject,
)

logger = logging.getLogger(__name__)

SWEEP_SECONDS = 10.0
PATIENCE = timedelta(hours=1)
"""How long the operator is waited for."""


class _NothingToDoError(Exception):
    """Another replica was here before."""


class ExpiredCredentialCollector:
    """Looks through the cache; every replica may."""

    def __init__(
        self,
        cluster: ClusterCache,
        writer: Writer,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._cluster = cluster
        self._writer = writer
        self._now = now
        self._left_alone: dict[str, str] = {}

    async def run_periodically(self) -> None:
        """Sweeps every few seconds, for ever."""
        await run_periodically(self.sweep, seconds=SWEEP_SECONDS, what="expired credentials")

    async def sweep(self) -> int:
        """Takes out what has expired; returns how many connections were changed."""
        count = 0
        found = self._cluster.connections.list()
        if self._left_alone:
            there = {obj["metadata"]["uid"] for obj in found}
            self._left_alone = {uid: at for uid, at in self._left_alone.items() if uid in there}
        for obj in [obj for obj in found if self._has_work(obj)]:
            try:
                count += await self._clean(obj)
            except (ApiError, KubeError) as error:
                metadata = obj["metadata"]
                self._left_alone[metadata["uid"]] = metadata["resourceVersion"]
                logger.warning(
                    "Cannot take out an expired credential: %s",
                    error.message,
                    extra={"kind": "Connection", "object": f"{metadata['namespace']}/{metadata['name']}"},
                )
        return count

    def _has_work(self, obj: ConnectionObject) -> bool:
        items = obj["spec"].get("credentials") or ()
        if not any("expiresAt" in item for item in items):
            return False
        metadata = obj["metadata"]
        if metadata["name"] != object_name(object_id(obj)):
            return False
        if self._left_alone.get(metadata["uid"]) == metadata["resourceVersion"]:
            return False
        return any(self._is_over(obj, item) for item in items)

    async def _clean(self, obj: ConnectionObject) -> bool:
        def change(live: ConnectionObject, mine: Object) -> None:
            over = {item["id"] for item in live["spec"].get("credentials") or () if self._is_over(live, item)}
            if not over:
                raise _NothingToDoError
            for identifier in over:
                step = {"id": identifier}
                refuse_removal(live, ("credentials", step), what=f'The expired credential "{identifier}"')
            left = [item for item in mine["spec"].get("credentials") or () if item["id"] not in over]
            set_or_drop(mine["spec"], "credentials", left)

        metadata = obj["metadata"]
        try:
            await self._writer.change(
                self._cluster.connections, metadata["namespace"], metadata["name"], change
            )
        except _NothingToDoError:
            return False
        logger.info(
            "Took out what has expired",
            extra={"kind": "Connection", "object": f"{metadata['namespace']}/{metadata['name']}"},
        )
        return True

    def _is_over(self, obj: ConnectionObject, item: ConnectionCredentialDict) -> bool:
        """Whether a credential has expired and the operator has reported it, or could not for long."""
        now = self._now()
        if not expired(item, now):
            return False
        statuses = (obj.get("status") or {}).get("credentials") or ()
        return any(one["id"] == item["id"] and one.get("expired") for one in statuses) or expired(
            item, now - PATIENCE
        )
