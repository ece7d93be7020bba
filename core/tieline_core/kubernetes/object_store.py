"""What a cache holds, and what news do to it: no I/O here.

The rule behind everything: a store that has seen all changes up to its ``version`` knows what there was at
that version. Older news, from wherever they come, cannot teach it anything.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic

from typing_extensions import TypeVar

from tieline_core.objects import Object, ObjectView

logger = logging.getLogger(__name__)

Stored = TypeVar("Stored", bound=ObjectView, default=Object)
"""The type of a cache's objects, such as ActivationObject."""
Objects = list[Stored]
Key = tuple[str, str]
Indexer = Callable[[Object], Iterable[str]]
MergeFunction = Callable[[Object, Object], Object]

_MAX_TOMBSTONES = 4096


def is_older(version: str, than: str) -> bool:
    """Whether ``version`` is known to be older than the other.

    resourceVersions are integers that grow within a resource (KEP-5504). An aggregated API server may hand out
    something else; then nothing is known but whether two are equal.
    """
    return version.isdecimal() and than.isdecimal() and int(version) < int(than)


def is_covered(version: str, by: str) -> bool:
    """Whether who has seen all changes up to ``by`` is known to have seen ``version``."""
    return version == by or is_older(version, by)


def no_transform(obj: Object) -> Object:
    """The transformation that changes nothing."""
    return obj


@dataclass(frozen=True)
class Change(Generic[Stored]):
    """An object as it was and as it is; ``old`` is None for a new one, ``new`` for one that is gone."""

    old: Stored | None
    new: Stored | None

    @property
    def object(self) -> Stored:
        """The newest state that was seen."""
        found = self.new if self.new is not None else self.old
        if found is None:
            raise ValueError("A change has an object")
        return found


Changes = list[Change]


class Store:
    """Objects by namespace and name, with indexes. Cluster-wide objects are in the namespace ``""``."""

    def __init__(
        self, indexers: Mapping[str, Indexer] | None = None, merge: MergeFunction | None = None
    ) -> None:
        """``merge`` makes of an object's old and new state the one to keep; it changes neither."""
        self.version = ""
        """All changes up to this resourceVersion are in."""
        self._merge = merge
        self._objects: dict[str, dict[str, Object]] = {}
        self._indexers = dict(indexers or {})
        # Most values lead to one object: then its key is there, and no dict of keys.
        self._indexes: dict[str, dict[str, Key | dict[Key, None]]] = {name: {} for name in self._indexers}
        self._indexed: dict[Key, tuple[tuple[str, ...], ...]] = {}
        self._tombstones: dict[str, str] = {}
        self._forgotten: dict[str, None] = {}

    # --- reading ----------------------------------------------------------------------------------------

    def get(self, key: Key) -> Object | None:
        """The object, or None."""
        return self._objects.get(key[0], {}).get(key[1])

    def list(self, namespace: str | None = None) -> Objects:
        """All objects, or those of a namespace."""
        if namespace is not None:
            return [*self._objects.get(namespace, {}).values()]
        # Copies, each made in one step: metrics are read in another thread.
        return [obj for objects in [*self._objects.values()] for obj in [*objects.values()]]

    def by_index(self, index: str, key: str) -> Objects:
        """The objects for which the index's function gave ``key``."""
        return [self._objects[namespace][name] for namespace, name in _keys(self._indexes[index].get(key))]

    def __len__(self) -> int:
        return sum(map(len, self._objects.values()))

    # --- news of the API server -------------------------------------------------------------------------

    def put(self, obj: Object) -> Change | None:
        """A new state of an object; None when it is known, older than what is known, or buried."""
        metadata = obj["metadata"]
        version, uid = metadata["resourceVersion"], metadata["uid"]
        tombstone = self._tombstones.get(uid)
        if tombstone is not None and is_covered(version, tombstone):
            return None
        if uid in self._forgotten and "deletionTimestamp" not in metadata:
            return None
        old = self.get(key_of(obj))
        if old is not None:
            known = old["metadata"]
            if is_older(version, known["resourceVersion"]):
                return None
            if version == known["resourceVersion"] and uid == known["uid"]:
                return None
        return self._set(obj, old)

    def delete(self, obj: Object) -> Change | None:
        """An object's last state; None when there is no such object, or another one under its name."""
        metadata = obj["metadata"]
        self._add_tombstone(metadata["uid"], metadata["resourceVersion"])
        self._forgotten.pop(metadata["uid"], None)
        return self._remove(key_of(obj), uid=metadata["uid"], last=obj)

    def replace(self, items: Iterable[Object], version: str) -> "Changes":
        """A list of everything, as it was at ``version``: what is not in it is gone.

        Only what was observed after the list was made stays. A list that is older than what is known comes
        from an API server whose data were restored from a backup: then it alone is true.
        """
        restored = is_older(version, self.version)
        if restored:
            logger.warning("The API server went back from version %s to %s", self.version, version)
            self._tombstones.clear()
            self._forgotten.clear()
        changes: list[Change | None] = []
        listed: set[Key] = set()
        for obj in items:
            key = key_of(obj)
            listed.add(key)
            if restored:
                old = self.get(key)
                changes.append(self._set(obj, old) if old != obj else None)
            else:
                changes.append(self.put(obj))
        for obj in self.list():
            key = key_of(obj)
            if key not in listed and (restored or not is_older(version, obj["metadata"]["resourceVersion"])):
                changes.append(self._remove(key))
        self.version = version
        self._clear_tombstones()
        return [change for change in changes if change is not None]

    def advance(self, version: str) -> None:
        """All changes up to ``version`` have been put in."""
        if not is_older(version, self.version):
            self.version = version
            self._clear_tombstones()

    # --- one's own writes -------------------------------------------------------------------------------

    def observe(self, obj: Object) -> Change | None:
        """What a write returned; None when the store knows as much, or more (such as its deletion since)."""
        return None if self.has_seen(obj["metadata"]["resourceVersion"]) else self.put(obj)

    def forget(self, obj: Mapping[str, Any]) -> Change | None:
        """What was just deleted: late news of it are ignored, also of states that the deleter had not seen.

        Only a newer state that waits for a finalizer brings it back: it is not gone yet.
        """
        metadata = obj["metadata"]
        known = self.get(key_of(obj))
        if known is not None and known["metadata"]["uid"] == metadata["uid"]:
            self._add_tombstone(metadata["uid"], known["metadata"]["resourceVersion"])
        elif self.has_seen(metadata["resourceVersion"]):
            return None  # the news of its end were quicker
        self._add_tombstone(metadata["uid"], metadata["resourceVersion"])
        self._forgotten[metadata["uid"]] = None
        _trim(self._forgotten)
        return self._remove(key_of(obj), uid=metadata["uid"])

    def has_seen(self, version: str) -> bool:
        """Whether all changes up to ``version`` are known to be in."""
        return is_covered(version, self.version)

    # --- inside -----------------------------------------------------------------------------------------

    def _set(self, obj: Object, old: Object | None) -> Change:
        key = key_of(obj)
        if self._merge and old is not None and old["metadata"]["uid"] == obj["metadata"]["uid"]:
            obj = self._merge(old, obj)
        self._objects.setdefault(key[0], {})[key[1]] = obj
        self._index(key, obj)
        return Change(old=old, new=obj)

    def _remove(self, key: Key, *, uid: str | None = None, last: Object | None = None) -> Change | None:
        old = self.get(key)
        if old is None or (uid is not None and old["metadata"]["uid"] != uid):
            return None
        namespace, name = key
        del self._objects[namespace][name]
        if not self._objects[namespace]:
            del self._objects[namespace]
        self._unindex(key)
        return Change(old=last or old, new=None)

    def _index(self, key: Key, obj: Object) -> None:
        if not self._indexers:
            return
        found: list[tuple[str, ...]] = []
        for name, indexer in self._indexers.items():
            try:
                found.append(tuple(indexer(obj)))
            except Exception:  # an object that an index does not understand must not stop the others
                logger.exception("The index %s failed for %s", name, "/".join(key))
                found.append(())
        values = tuple(found)
        if values == self._indexed.get(key):
            return
        self._unindex(key)
        for index, ours in zip(self._indexes.values(), values, strict=True):
            for value in ours:
                there = index.setdefault(value, key)
                if isinstance(there, dict):
                    there[key] = None
                elif there != key:
                    index[value] = {there: None, key: None}
        self._indexed[key] = values

    def _unindex(self, key: Key) -> None:
        # The keys are remembered: asking the indexer again would trust it, and the object, not to change.
        for index, values in zip(self._indexes.values(), self._indexed.pop(key, ()), strict=False):
            for value in values:
                there = index.get(value)
                if isinstance(there, dict):
                    there.pop(key, None)
                if not there or there == key:
                    index.pop(value, None)

    def _add_tombstone(self, uid: str, version: str) -> None:
        if is_older(version, self._tombstones.get(uid, "")):
            return
        self._tombstones[uid] = version
        _trim(self._tombstones)

    def _clear_tombstones(self) -> None:
        """Who has seen all changes up to a burial hears nothing of before from anybody: no need to remember it."""
        while self._tombstones:
            uid = next(iter(self._tombstones))
            if not is_covered(self._tombstones[uid], self.version):
                return
            del self._tombstones[uid]


def key_of(obj: Mapping[str, Any]) -> Key:
    """Namespace and name."""
    metadata = obj["metadata"]
    return (metadata.get("namespace", ""), metadata["name"])


def _keys(found: Key | dict[Key, None] | None) -> Iterable[Key]:
    if found is None:
        return ()
    return found if isinstance(found, dict) else (found,)


def _trim(tombstones: dict[str, Any]) -> None:
    while len(tombstones) > _MAX_TOMBSTONES:
        del tombstones[next(iter(tombstones))]
