"""What was found about Secrets and credentials, remembered for the version that it was found of, while there is one."""

from collections import OrderedDict
from collections.abc import Hashable
from datetime import datetime
from typing import Any

from tieline_api.cache.cluster_cache import ClusterCache
from tieline_core.credentials.validation.secret_facts import SecretFacts, facts_of
from tieline_core.kubernetes import Change

_REMEMBERED = 20_000


class Facts:
    """Facts of Secrets; those of a version are made once, because keys take a millisecond to read."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[str, SecretFacts]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def of(self, world: ClusterCache, namespace: str, name: str) -> SecretFacts:
        """The facts of a Secret of the credential type."""
        found = world.secrets.get(namespace, name)
        if found is None:
            return SecretFacts(name=name)
        uid, version = found["metadata"]["uid"], found["metadata"]["resourceVersion"]
        known = self._known.get(uid)
        if known is None or known[0] != version:
            known = self._known[uid] = version, facts_of(name, found)
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return known[1]

    def changed(self, change: Change) -> None:
        """A Secret changed: of one that is gone nothing is remembered."""
        if change.new is None:
            self._known.pop(change.object["metadata"]["uid"], None)


class FindingsCache:
    """What was told of an object, for as long as nothing that it was made of has changed."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[Hashable, datetime | None, list[dict[str, Any]]]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def find(self, uid: str, made_of: Hashable, now: datetime) -> list[dict[str, Any]] | None:
        """What was told of an object that is made of these versions."""
        known = self._known.get(uid)
        if known is None or known[0] != made_of or (known[1] is not None and now >= known[1]):
            return None
        self._known.move_to_end(uid)
        return known[2]

    def keep(
        self, uid: str, made_of: Hashable, told: list[dict[str, Any]], until: datetime | None = None
    ) -> None:
        """Remembers what was told, at most ``until`` a moment at which time alone changes it."""
        self._known[uid] = (made_of, until, told)
        self._known.move_to_end(uid)
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)

    def changed(self, change: Change) -> None:
        """An object changed: of one that is gone nothing is remembered."""
        if change.new is None:
            self._known.pop(change.object["metadata"]["uid"], None)
