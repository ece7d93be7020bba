"""Deletes Secrets of REST's that nothing refers to: what a process left that died in the middle of a write."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from tieline_api.cluster.cluster_cache import ClusterCache
from tieline_api.credentials.credential_secrets import MADE_FOR, CredentialStore, secret_references
from tieline_core.identity.ids import format_time, parse_time
from tieline_core.identity.owner_references import is_owned
from tieline_core.kubernetes import Informer, Kube
from tieline_core.kubernetes.periodic_gc import run_periodically
from tieline_core.kubernetes.reading import find
from tieline_core.kubernetes.resources import CONNECTIONS, NOTIFICATION_CHANNELS, SYSTEMS, Resource
from tieline_core.objects import ObjectView

SWEEP_SECONDS = 300.0
GRACE_SECONDS = 600.0
"""Far longer than a write takes: a Secret that nothing refers to yet may be about to be referred to."""
UNREFERENCED = "tieline.dev/unreferenced-since"
"""Annotation of a Secret: when a sweep first found that nothing refers to it."""


class SecretCollector:
    """Looks through the caches, and at the API server before it deletes anything.

    The Secret itself keeps the time since which nothing refers to it, so that restarts do not postpone its deletion.
    """

    def __init__(
        self,
        kube: Kube,
        cluster: ClusterCache,
        store: CredentialStore,
        *,
        grace: float = GRACE_SECONDS,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._kube = kube
        self._cluster = cluster
        self._store = store
        self._grace = timedelta(seconds=grace)
        self._now = now
        self._owners: Mapping[str, tuple[Resource, Informer[Any]]] = {
            CONNECTIONS.kind: (CONNECTIONS, cluster.connections),
            SYSTEMS.kind: (SYSTEMS, cluster.systems),
            NOTIFICATION_CHANNELS.kind: (NOTIFICATION_CHANNELS, cluster.notification_channels),
        }

    async def run_periodically(self) -> None:
        """Sweeps now and then, for ever."""
        await run_periodically(self.sweep, seconds=SWEEP_SECONDS, what="Secrets that nothing refers to")

    async def sweep(self, namespace: str | None = None) -> int:
        """Deletes what is left over, adopts what has no owner yet; returns how many were deleted."""
        now = self._now()
        return sum([await self._sweep_one(secret, now) for secret in self._cluster.secrets.list(namespace)])

    async def _sweep_one(self, secret: ObjectView, now: datetime) -> bool:
        since = _unreferenced_since(secret)
        if not self._is_doubtful(secret):
            if since is not None:
                await self._store.annotate(secret, {UNREFERENCED: None})
            return False
        if since is None or since > now:
            secret = await self._store.annotate(secret, {UNREFERENCED: format_time(now)})
            since = now.replace(microsecond=0)
        return now - since >= self._grace and await self._look_at(secret)

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


def _unreferenced_since(secret: ObjectView) -> datetime | None:
    try:
        return parse_time((secret["metadata"].get("annotations") or {})[UNREFERENCED])
    except (KeyError, ValueError):
        return None


def _is_in_place(owner: ObjectView, secret: ObjectView) -> bool:
    return secret["metadata"]["name"] in secret_references(owner) and is_owned(
        secret, owner["metadata"]["uid"]
    )
