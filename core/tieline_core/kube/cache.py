"""A mirror of one resource, kept by list and watch.

What is there is replaced as a whole after a gap in the watch, so that a deletion is never missed. What this
process writes itself is put in at once (``observe``), so that it reads its own writes. Objects are shared
with everyone who asks: never change them.
"""

import asyncio
import copy
import logging
import math
import random
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from tieline_core.kube.client import Kube, Object, Objects, WatchEvent
from tieline_core.kube.errors import Gone, KubeError, NotFound
from tieline_core.kube.resources import Resource

logger = logging.getLogger(__name__)

Key = tuple[str, str]
Transform = Callable[[Object], Object]
Indexer = Callable[[Object], Iterable[str]]

_FIRST_BACKOFF = 0.2
_LONGEST_BACKOFF = 15.0
# A watch that ends sooner than this, without news, counts as a failure; one that broke after _LONG_WATCH
# seconds had worked, so its failure is the first.
_SHORT_WATCH = 1.0
_LONG_WATCH = 30.0
# After so many failures in a row the version itself is in doubt (a restored backup), so the list is read again.
_DOUBTFUL = 5
_GRAVES = 4096
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True)
class Change:
    """An object as it was and as it is; ``old`` is None for a new one, ``new`` for one that is gone."""

    old: Object | None
    new: Object | None

    @property
    def object(self) -> Object:
        """The newest state that was seen."""
        found = self.new if self.new is not None else self.old
        if found is None:
            raise ValueError("A change has an object")
        return found


Subscriber = Callable[[Change], None]


def lean(obj: Object) -> Object:
    """Without what only the API server needs: managedFields and kubectl's copy of the manifest."""
    metadata = obj["metadata"]
    metadata.pop("managedFields", None)
    annotations = metadata.get("annotations")
    if annotations and _LAST_APPLIED in annotations:
        del annotations[_LAST_APPLIED]
    return obj


class Cache:
    """The objects of one resource, as the API server has them."""

    def __init__(
        self,
        kube: Kube,
        resource: Resource,
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        metadata_only: bool = False,
        transform: Transform = lean,
        indexes: Mapping[str, Indexer] | None = None,
    ) -> None:
        """``transform`` may shrink an object (in place); ``indexes`` name the keys to find objects by."""
        self.resource = resource
        self._kube = kube
        self._namespace = namespace
        self._selectors = {"label_selector": label_selector, "field_selector": field_selector}
        self._metadata_only = metadata_only
        self._transform = transform
        self._indexers = dict(indexes or {})
        self._objects: dict[Key, Object] = {}
        self._indexes: dict[str, dict[str, dict[Key, None]]] = {name: {} for name in self._indexers}
        self._graves: dict[str, float] = {}
        self._subscribers: list[Subscriber] = []
        self._task: asyncio.Task[None] | None = None
        self._listed = asyncio.Event()
        self._version = ""
        self._highest = -1
        self._news = 0
        self._waiters: dict[asyncio.Future[None], int] = {}
        self._heard = time.monotonic()

    # --- life -------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin to list and watch, in the background."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"cache {self.resource.plural}")

    async def stop(self) -> None:
        """End the watch; what was seen stays readable."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
            self._task = None

    async def synced(self) -> None:
        """Returns once the first list is in."""
        await self._listed.wait()

    @property
    def is_synced(self) -> bool:
        """Whether the first list is in."""
        return self._listed.is_set()

    @property
    def age(self) -> float:
        """Seconds since the server was last heard of (an event, a bookmark or a list)."""
        return time.monotonic() - self._heard

    def healthy(self, *, max_age: float = 150.0) -> bool:
        """Whether it runs, has listed, and has heard of the server lately (bookmarks come each minute)."""
        running = self._task is not None and not self._task.done()
        return running and self.is_synced and self.age < max_age

    # --- reading ----------------------------------------------------------------------------------------

    def get(self, namespace: str, name: str) -> Object | None:
        """The object, or None."""
        return self._objects.get((namespace, name))

    def list(self, namespace: str | None = None) -> Objects:
        """All objects, or those of a namespace, in no particular order."""
        if namespace is None:
            return list(self._objects.values())
        return [obj for (where, _), obj in self._objects.items() if where == namespace]

    def by_index(self, index: str, key: str) -> Objects:
        """The objects for which the index's function gave ``key``."""
        return [self._objects[found] for found in self._indexes[index].get(key, ())]

    def __len__(self) -> int:
        return len(self._objects)

    # --- following --------------------------------------------------------------------------------------

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call ``subscriber`` with every change from now on. It must be quick and must not wait."""
        self._subscribers.append(subscriber)

    async def reached(self, resource_version: str, timeout: float = 5.0) -> bool:  # noqa: ASYNC109
        """Waits until the cache has seen this version or a later one; False when time ran out."""
        wanted = _number(resource_version)
        if _number(self._version) >= wanted:
            return True
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters[future] = wanted
        try:
            await asyncio.wait_for(future, timeout)
        except TimeoutError:
            return False
        finally:
            self._waiters.pop(future, None)
        return True

    # --- one's own writes -------------------------------------------------------------------------------

    def observe(self, obj: Mapping[str, Any]) -> None:
        """Put in what a write has just returned; older news of it are ignored from then on."""
        if _number(obj["metadata"]["resourceVersion"]) <= _number(self._version):
            return  # The cache is complete up to its version: what it lacks is gone, or was never selected.
        parts = ("apiVersion", "kind", "metadata") if self._metadata_only else tuple(obj)
        self._put(self._transform({key: copy.deepcopy(obj[key]) for key in parts if key in obj}))

    def forget(self, obj: Mapping[str, Any]) -> None:
        """Take out what was just deleted; late news of it are ignored.

        Only news that show it waiting for a finalizer bring it back.
        """
        metadata = obj["metadata"]
        self._bury(metadata["uid"], math.inf)
        self._drop((metadata.get("namespace", ""), metadata["name"]), uid=metadata["uid"])

    # --- list and watch ---------------------------------------------------------------------------------

    async def _run(self) -> None:
        failures = 0
        while True:
            began, news = time.monotonic(), self._news
            problem = await self._follow()
            lasted = time.monotonic() - began
            if self._news != news or (problem is None and lasted >= _SHORT_WATCH):
                failures = 0
                continue
            failures = 1 if lasted >= _LONG_WATCH else failures + 1
            self._complain(failures, problem or "The server ends the watch at once")
            if failures % _DOUBTFUL == 0:
                self._version = ""
            longest = min(_FIRST_BACKOFF * 2 ** (min(failures, 12) - 1), _LONGEST_BACKOFF)
            await asyncio.sleep(longest * random.uniform(0.5, 1.0))  # noqa: S311  (jitter)

    async def _follow(self) -> str | None:
        """One watch, after a list where that is needed; what went wrong, or None when the server ended it."""
        try:
            if not self._version:
                await self._relist()
            await self._watch()
        except Gone:
            self._version = ""
            return "The watch has a gap, listing again"
        except NotFound:
            self._version = ""
            return "The resource is not served (is its definition installed?)"
        except KubeError as error:
            return str(error)
        except Exception as error:
            logger.exception("The watch failed", extra={"resource": self.resource.plural})
            self._version = ""
            return f"{type(error).__name__}: {error}"
        return None

    def _complain(self, failures: int, message: str) -> None:
        level = logging.WARNING if failures in (1, 5) or failures % 20 == 0 else logging.DEBUG
        logger.log(
            level, "Cannot follow %s, trying again: %s", self.resource.plural, message,
            extra={"resource": self.resource.plural, "failures": failures},
        )  # fmt: skip

    async def _relist(self) -> None:
        items, version = await self._kube.list_with_version(
            self.resource, self._namespace, metadata_only=self._metadata_only, **self._selectors
        )
        self._heard = time.monotonic()
        limit = _number(version)
        if limit < self._highest:
            # Versions only go back with another history, a restored backup: nothing here can be compared.
            self._graves.clear()
            self._highest = -1
            for key in list(self._objects):
                self._drop(key)
        listed: set[Key] = set()
        for item in items:
            obj = self._transform(item)
            listed.add(_key(obj))
            self._put(obj)
        for key in [key for key in self._objects if key not in listed]:
            # What was observed after the list was made is not a ghost.
            if _number(self._objects[key]["metadata"]["resourceVersion"]) <= limit:
                self._drop(key)
        self._listed.set()
        self._advance(version)

    async def _watch(self) -> None:
        events = self._kube.watch(
            self.resource,
            self._namespace,
            resource_version=self._version,
            metadata_only=self._metadata_only,
            **self._selectors,
        )
        async with aclosing(events):
            async for event in events:
                self._heard = time.monotonic()
                self._handle(event)

    def _handle(self, event: WatchEvent) -> None:
        version = event.object["metadata"]["resourceVersion"]
        if event.type in ("ADDED", "MODIFIED"):
            self._put(self._transform(event.object))
        elif event.type == "DELETED":
            metadata = event.object["metadata"]
            self._bury(metadata["uid"], _number(version))
            self._drop(_key(event.object), uid=metadata["uid"], last=self._transform(event.object))
        if version != self._version:
            self._news += 1
        self._advance(version)

    # --- the store --------------------------------------------------------------------------------------

    def _put(self, obj: Object) -> None:
        key = _key(obj)
        metadata = obj["metadata"]
        old = self._objects.get(key)
        number = _number(metadata["resourceVersion"])
        grave = self._graves.get(metadata["uid"], -1)
        if grave >= number and not (grave == math.inf and "deletionTimestamp" in metadata):
            return
        if old is not None:
            was = _number(old["metadata"]["resourceVersion"])
            if was > number or (was == number and old["metadata"]["uid"] == metadata["uid"]):
                return
            self._unindex(key, old)
        self._objects[key] = obj
        for name in self._indexers:
            for value in self._index_keys(name, obj):
                self._indexes[name].setdefault(value, {})[key] = None
        self._tell(Change(old=old, new=obj))

    def _drop(self, key: Key, *, uid: str | None = None, last: Object | None = None) -> None:
        old = self._objects.get(key)
        if old is None or (uid is not None and old["metadata"]["uid"] != uid):
            return
        del self._objects[key]
        self._unindex(key, old)
        self._tell(Change(old=last or old, new=None))

    def _unindex(self, key: Key, old: Object) -> None:
        for name in self._indexers:
            for value in self._index_keys(name, old):
                keys = self._indexes[name].get(value)
                if keys is not None:
                    keys.pop(key, None)
                    if not keys:
                        del self._indexes[name][value]

    def _index_keys(self, index: str, obj: Object) -> tuple[str, ...]:
        """One object that an index cannot read must not keep the cache from all others."""
        try:
            return tuple(self._indexers[index](obj))
        except Exception:
            logger.exception("An index failed", extra={"resource": self.resource.plural, "index": index})
            return ()

    def _bury(self, uid: str, number: float) -> None:
        self._graves[uid] = max(number, self._graves.get(uid, -1))
        while len(self._graves) > _GRAVES:
            del self._graves[next(iter(self._graves))]

    def _tell(self, change: Change) -> None:
        for subscriber in self._subscribers:
            try:
                subscriber(change)
            except Exception:
                logger.exception("A subscriber failed", extra={"resource": self.resource.plural})

    def _advance(self, version: str) -> None:
        self._version = version
        number = _number(version)
        self._highest = max(self._highest, number)
        for future, wanted in list(self._waiters.items()):
            if wanted <= number and not future.done():
                future.set_result(None)


def _key(obj: Object) -> Key:
    metadata = obj["metadata"]
    return (metadata.get("namespace", ""), metadata["name"])


def _number(version: str) -> int:
    """resourceVersions grow within a resource (KEP-5504); what is no number is older than everything."""
    return int(version) if version.isdigit() else -1
