"""Facts about Secrets and findings about credentials, cached for a version of the object."""

from collections.abc import Hashable
from datetime import datetime
from typing import Any

from cachetools import LRUCache

from tieline_api.cluster.cluster_cache import ClusterCache
from tieline_core.credentials.validation.secret_facts import SecretFacts, facts_of
from tieline_core.kubernetes import Change

_REMEMBERED = 20_000


class SecretFactsCache:
    """Facts of Secrets, computed once a version: reading a key takes a millisecond."""

    def __init__(self) -> None:
        self._known: LRUCache[str, tuple[str, SecretFacts]] = LRUCache(_REMEMBERED)

    def __len__(self) -> int:
        return len(self._known)

    def of(self, cluster: ClusterCache, namespace: str, name: str) -> SecretFacts:
        """The facts of a Secret of the credential type."""
        found = cluster.secrets.get(namespace, name)
        if found is None:
            return SecretFacts(name=name)
        uid, version = found["metadata"]["uid"], found["metadata"]["resourceVersion"]
        known = self._known.get(uid)
        if known is None or known[0] != version:
            known = self._known[uid] = version, facts_of(name, found)
        return known[1]

    def changed(self, change: Change[Any]) -> None:
        """Forgets a Secret that was deleted."""
        if change.new is None:
            self._known.pop(change.object["metadata"]["uid"], None)


class FindingsCache:
    """Findings about an object, valid until one of the objects that they depend on changes."""

    def __init__(self) -> None:
        self._known: LRUCache[str, tuple[Hashable, datetime | None, list[dict[str, Any]]]] = LRUCache(
            _REMEMBERED
        )

    def __len__(self) -> int:
        return len(self._known)

    def find(self, uid: str, versions: Hashable, now: datetime) -> list[dict[str, Any]] | None:
        """The findings for these versions of the objects that they depend on."""
        known = self._known.get(uid)
        if known is None or known[0] != versions or (known[1] is not None and now >= known[1]):
            return None
        return known[2]

    def keep(
        self, uid: str, versions: Hashable, findings: list[dict[str, Any]], until: datetime | None = None
    ) -> None:
        """Caches findings, at most ``until`` the moment at which time alone changes them."""
        self._known[uid] = (versions, until, findings)

    def changed(self, change: Change[Any]) -> None:
        """Forgets an object that was deleted."""
        if change.new is None:
            self._known.pop(change.object["metadata"]["uid"], None)
