"""Deletes Secrets of REST's that nothing refers to: what a process left that died in the middle of a write."""

import time
from collections.abc import Callable, Mapping

from tieline_api.cache.cluster_cache import ClusterCache
from tieline_api.store.credential_secrets import MADE_FOR, CredentialStore, secret_references
from tieline_core.identity.owner_references import is_owned
from tieline_core.kubernetes import Informer, Kube
from tieline_core.kubernetes.periodic_gc import run_periodically
from tieline_core.kubernetes.reading import find
from tieline_core.kubernetes.resources import CONNECTIONS, NOTIFICATION_CHANNELS, SYSTEMS, Resource
from tieline_core.objects import ObjectView

SWEEP_SECONDS = 300.0
GRACE_SECONDS = 600.0
"""Far longer than a write takes: a Secret that nothing refers to yet may be about to be referred to."""


class SecretCollector:
    """Looks through the caches, and at the API server before it deletes anything.

    How long nothing has referred to a Secret is counted from when this process first found it so:
    clocks that differ make nothing old.
    """

    def __init__(
        self,
        kube: Kube,
        world: ClusterCache,
        store: CredentialStore,
        *,
        grace: float = GRACE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kube = kube
        self._world = world
        self._store = store
        self._grace = grace
        self._clock = clock
        self._found: dict[str, float] = {}
        self._owners: Mapping[str, tuple[Resource, Informer]] = {
            CONNECTIONS.kind: (CONNECTIONS, world.connections),
            SYSTEMS.kind: (SYSTEMS, world.systems),
            NOTIFICATION_CHANNELS.kind: (NOTIFICATION_CHANNELS, world.notification_channels),
        }

    async def run_periodically(self) -> None:
        """Sweeps now and then, for ever."""
        await run_periodically(self.sweep, seconds=SWEEP_SECONDS, what="Secrets that nothing refers to")

    async def sweep(self, namespace: str | None = None) -> int:
        """Deletes what is left over, adopts what has no owner yet; returns how many were deleted."""
        now = self._clock()
        doubtful = {
            secret["metadata"]["uid"]: secret
            for secret in self._world.secrets.list(namespace)
            if self._is_doubtful(secret)
        }
        self._found = {uid: self._found.get(uid, now) for uid in doubtful}
        old = [doubtful[uid] for uid, since in self._found.items() if now - since >= self._grace]
        return sum([await self._look_at(secret) for secret in old])

    def _is_doubtful(self, secret: ObjectView) -> bool:
        """Whether a Secret of REST's is not, as the caches have it, just where it belongs."""
        kind, name = _made_for(secret)
        if kind not in self._owners:
            return False
        _, cache = self._owners[kind]
        owner = cache.get(secret["metadata"]["namespace"], name)
        return owner is None or not _is_in_place(owner, secret)

    async def _look_at(self, secret: ObjectView) -> bool:
        metadata = secret["metadata"]
        kind, name = _made_for(secret)
        resource, _ = self._owners[kind]
        owner = await find(self._kube, resource, name, metadata["namespace"])
        if owner is not None and metadata["name"] in secret_references(owner):
            if not is_owned(secret, owner["metadata"]["uid"]):
                await self._store.adopt_one(owner, metadata["name"])
            return False
        if self._serves_another(secret):
            return False
        return await self._store.delete_unchanged(secret)

    def _serves_another(self, secret: ObjectView) -> bool:
        """Whether somebody has made another object refer to it."""
        metadata = secret["metadata"]
        return any(
            metadata["name"] in secret_references(other)
            for _, cache in self._owners.values()
            for other in cache.list(metadata["namespace"])
        )


def _made_for(secret: ObjectView) -> tuple[str, str]:
    kind, _, name = (secret["metadata"].get("annotations") or {}).get(MADE_FOR, "").partition("/")
    return kind, name


def _is_in_place(owner: ObjectView, secret: ObjectView) -> bool:
    return secret["metadata"]["name"] in secret_references(owner) and is_owned(
        secret, owner["metadata"]["uid"]
    )
