"""Deletes Secrets of REST's that nothing refers to: what a process left that died in the middle of a write."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from tieline_api.store.secrets import MADE_FOR, CredentialStore, secret_references
from tieline_api.store.world import World
from tieline_core.ids import parse_time
from tieline_core.kube import Cache, Kube, NotFound
from tieline_core.kube.resources import CONNECTIONS, SYSTEMS, Resource
from tieline_core.owners import is_owned
from tieline_core.sweeping import keep_sweeping

Obj = Mapping[str, Any]

SWEEP_SECONDS = 300.0
GRACE = timedelta(minutes=10)
"""Far longer than a write takes: a Secret that is younger may be about to be referred to."""


class SecretSweep:
    """Looks through the caches, and at the API server before it deletes anything."""

    def __init__(
        self,
        kube: Kube,
        world: World,
        store: CredentialStore,
        *,
        grace: timedelta = GRACE,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._kube = kube
        self._world = world
        self._store = store
        self._grace = grace
        self._now = now
        self._owners: Mapping[str, tuple[Resource, Cache]] = {
            CONNECTIONS.kind: (CONNECTIONS, world.connections),
            SYSTEMS.kind: (SYSTEMS, world.systems),
        }

    async def keep_sweeping(self) -> None:
        """Sweeps now and then, for ever."""
        await keep_sweeping(self.sweep, seconds=SWEEP_SECONDS, what="Secrets that nothing refers to")

    async def sweep(self, namespace: str | None = None) -> int:
        """Deletes what is left over, adopts what has no owner yet; returns how many were deleted."""
        return sum([await self._look_at(secret) for secret in list(self._world.secrets.list(namespace))])

    async def _look_at(self, secret: Obj) -> bool:
        metadata = secret["metadata"]
        kind, _, name = (metadata.get("annotations") or {}).get(MADE_FOR, "").partition("/")
        if kind not in self._owners or self._is_young(metadata):
            return False
        resource, cache = self._owners[kind]
        cached = cache.get(metadata["namespace"], name)
        if cached is not None and _is_in_place(cached, secret):
            return False
        owner = await self._live(resource, metadata["namespace"], name)
        if owner is not None and metadata["name"] in secret_references(owner):
            if not is_owned(secret, owner["metadata"]["uid"]):
                await self._store.adopt_one(owner, metadata["name"])
            return False
        if self._serves_another(secret):
            return False
        return await self._store.delete_unchanged(secret)

    def _is_young(self, metadata: Obj) -> bool:
        return parse_time(metadata["creationTimestamp"]) > self._now() - self._grace

    async def _live(self, resource: Resource, namespace: str, name: str) -> Obj | None:
        try:
            return await self._kube.get(resource, name, namespace)
        except NotFound:
            return None

    def _serves_another(self, secret: Obj) -> bool:
        """Whether somebody has made another object refer to it."""
        metadata = secret["metadata"]
        return any(
            metadata["name"] in secret_references(other)
            for _, cache in self._owners.values()
            for other in cache.list(metadata["namespace"])
        )


def _is_in_place(owner: Obj, secret: Obj) -> bool:
    return secret["metadata"]["name"] in secret_references(owner) and is_owned(
        secret, owner["metadata"]["uid"]
    )
