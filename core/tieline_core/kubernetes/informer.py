"""A mirror of one resource, kept by list and watch.

What is there is replaced as a whole after a gap in the watch, so that a deletion is never missed. What this
process writes itself is put in at once (``observe``), so that it reads its own writes. Objects are shared
with everyone who asks: never change them.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import aclosing, suppress
from typing import Any, Generic, Unpack, cast

import orjson

from tieline_common.backoff import exponential, jitter
from tieline_core.kubernetes.client import Kube, WatchEvent
from tieline_core.kubernetes.errors import (
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    NotFound,
    TooManyRequests,
    Unavailable,
)
from tieline_core.kubernetes.object_store import Change, Indexer, MergeFunction, Objects, Store, Stored
from tieline_core.kubernetes.resources import Resource
from tieline_core.kubernetes.selectors import Selectors, selects
from tieline_core.objects import Object, ObjectView

__all__ = [
    "Change",
    "Indexer",
    "Informer",
    "MergeFunction",
    "Subscriber",
    "Transform",
    "strip_managed_fields",
]

logger = logging.getLogger(__name__)

Transform = Callable[[Object], Object]
Subscriber = Callable[[Change[Stored]], None]

_FIRST_BACKOFF = 0.2
_LONGEST_BACKOFF = 15.0
# A watch that lives as long as this worked: what ends it counts as the first failure.
_STEADY = 1.0
# A watch that lived as long as this and brought not even a bookmark (they come each minute) waits for a version
# that the server may never reach: after a restore from a backup it says nothing else (seen on 1.34).
_MUTE = 90.0
# A broken connection that seems to be back for this long is back: longer than it takes to find that it is not.
_OPENED = 12.0
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_TOO_LARGE = "ResourceVersionTooLarge"


def strip_managed_fields(obj: Object) -> Object:
    """Without what only the API server needs: managedFields and kubectl's copy of the manifest."""
    metadata = obj["metadata"]
    metadata.pop("managedFields", None)
    annotations = metadata.get("annotations")
    if annotations and LAST_APPLIED in annotations:
        del annotations[LAST_APPLIED]
    return obj


class Informer(Generic[Stored]):
    """The objects of one resource, as the API server has them. Its type is what they are taken for."""

    def __init__(
        self,
        kube: Kube,
        resource: Resource,
        *,
        namespace: str | None = None,
        metadata_only: bool = False,
        transform: Transform = strip_managed_fields,
        indexes: Mapping[str, Indexer] | None = None,
        merge: MergeFunction | None = None,
        awaits_rights: bool = False,
        **selectors: Unpack[Selectors],
    ) -> None:
        """``transform`` may shrink an object (in place); ``indexes`` name the keys to find objects by.

        ``merge`` makes of an object's old and new state the one to keep, and changes neither. ``awaits_rights``: the
        right to read may come after the start, so that only a refusal that lasts is logged as a warning.
        """
        self.resource = resource
        self.refusals = 0
        """How often in a row the API server has forbidden to list or watch."""
        self._awaits_rights = awaits_rights
        self._kube = kube
        self._namespace = namespace
        self._selectors = selectors
        self._metadata_only = metadata_only
        self._transform = transform
        self._store = Store(indexes, merge)
        self._subscribers: list[Subscriber[Any]] = []
        self._task: asyncio.Task[None] | None = None
        self._listed = asyncio.Event()
        self._must_list = True
        self._waiters: dict[asyncio.Future[None], str] = {}
        self._heard = time.monotonic()
        self._steady = False
        self._lost: float | None = None

    # --- life -------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin to list and watch, in the background."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"cache {self.resource.plural}")

    async def stop(self) -> None:
        """End the watch; what was seen stays readable."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def synced(self) -> None:
        """Returns once the first list is in; waits as long as that takes (also for a missing definition)."""
        await self._listed.wait()

    @property
    def is_synced(self) -> bool:
        """Whether the first list is in."""
        return self._listed.is_set()

    @property
    def age(self) -> float:
        """Seconds since the server was last heard of (an event, a bookmark or a list)."""
        return time.monotonic() - self._heard

    @property
    def lost(self) -> float:
        """Seconds since the server was last heard of, where it cannot be followed right now; else 0."""
        return 0.0 if self._lost is None else time.monotonic() - self._lost

    @property
    def has_ended(self) -> bool:
        """Whether the watch has ended by itself, which it never should: nothing starts it again."""
        return self._task is not None and self._task.done()

    def healthy(self, *, max_age: float = 150.0) -> bool:
        """Whether it runs, has listed, and has heard of the server lately (bookmarks come each minute)."""
        running = self._task is not None and not self._task.done()
        return running and self.is_synced and self.age < max_age

    # --- reading ----------------------------------------------------------------------------------------

    def get(self, namespace: str | None, name: str) -> Stored | None:
        """The object, or None. Cluster-wide objects have no namespace: None or ``""``."""
        return cast("Stored | None", self._store.get((namespace or "", name)))

    def list(self, namespace: str | None = None) -> Objects[Stored]:
        """All objects, or those of a namespace, in no particular order."""
        found: Objects[Any] = self._store.list(namespace)
        return found

    def by_index(self, index: str, key: str) -> Objects[Stored]:
        """The objects for which the index's function gave ``key``."""
        found: Objects[Any] = self._store.by_index(index, key)
        return found

    def __len__(self) -> int:
        return len(self._store)

    def __bool__(self) -> bool:
        """A cache is there even when it holds nothing: ``if cache`` must not ask for its size."""
        return True

    # --- following --------------------------------------------------------------------------------------

    def subscribe(self, subscriber: Subscriber[Stored]) -> None:
        """Call ``subscriber`` with every change from now on. It must be quick and must not wait."""
        self._subscribers.append(subscriber)

    async def reached(self, resource_version: str, timeout: float = 5.0) -> bool:  # noqa: ASYNC109
        """Waits until the cache has seen this version or a later one; False when time ran out."""
        if self._store.has_seen(resource_version):
            return True
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters[future] = resource_version
        try:
            await asyncio.wait_for(future, timeout)
        except TimeoutError:
            return False
        finally:
            self._waiters.pop(future, None)
        return True

    # --- one's own writes -------------------------------------------------------------------------------

    def observe(self, obj: ObjectView) -> None:
        """Put in what a write has just returned; older news of it are ignored from then on.

        ``obj`` is copied. What the cache's namespace and selectors do not cover is not put in.
        """
        metadata = obj["metadata"]
        if self._store.has_seen(metadata["resourceVersion"]):
            return
        here = self._namespace is None or metadata.get("namespace") == self._namespace
        if not here or not selects(obj, **self._selectors):
            return
        kept = ("apiVersion", "kind", "metadata") if self._metadata_only else obj.keys()
        copied: Object = orjson.loads(orjson.dumps({key: obj[key] for key in kept if key in obj}))
        self._tell(self._store.observe(self._transform(copied)))

    def forget(self, obj: ObjectView) -> None:
        """Take out what was just deleted; late news of it are ignored."""
        self._tell(self._store.forget(obj))

    # --- list and watch ---------------------------------------------------------------------------------

    async def _run(self) -> None:
        failures = 0
        while True:
            self._steady = False
            problem: Exception | None = None
            try:
                if self._must_list:
                    await self._list()
                await self._watch()
            except Exception as error:  # also of a transform: the mirror must go on
                problem = error
                self._must_list = self._must_list or _needs_list(error)
            self.refusals = self.refusals + 1 if isinstance(problem, Forbidden) else 0
            failures = (0 if self._steady else failures) + (problem is not None or not self._steady)
            if problem is not None:
                if self._lost is None and not isinstance(problem, Gone):
                    self._lost = self._heard
                self._log_failure(failures, problem)
            # A gap is closed at once, the first time; an end that is no failure needs no pause either.
            if failures > (1 if isinstance(problem, Gone) else 0):
                await asyncio.sleep(_pause(failures, problem))

    def _log_failure(self, failures: int, problem: Exception) -> None:
        more = {"resource": self.resource.plural, "failures": failures}
        if not isinstance(problem, KubeError):
            logger.error(
                "Cannot follow %s, listing again", self.resource.plural, exc_info=problem, extra=more
            )
            return
        if isinstance(problem, Gone) and failures == 1:
            logger.info("The watch of %s has a gap, listing again", self.resource.plural, extra=more)
            return
        # One broken watch is how API servers restart; what lasts, or stops the start, is worth a look.
        telling = failures in (3, 10) or failures % 30 == 0 or (failures == 1 and not self.is_synced)
        if self._awaits_rights and isinstance(problem, Forbidden):
            telling = failures == 10 or failures % 30 == 0
        hint = " (is its definition installed?)" if isinstance(problem, NotFound) else ""
        logger.log(
            logging.WARNING if telling else logging.INFO if failures == 1 else logging.DEBUG,
            "Cannot follow %s, trying again: %s%s", self.resource.plural, problem, hint, extra=more,
        )  # fmt: skip

    async def _list(self) -> None:
        items, version = await self._kube.list_with_version(
            self.resource,
            self._namespace,
            metadata_only=self._metadata_only,
            transform=self._transform,
            **self._selectors,
        )
        self._heard = time.monotonic()
        changes = self._store.replace(items, version)
        self._must_list = False
        self._found()
        self._listed.set()
        self._wake()
        for change in changes:
            self._tell(change)

    async def _watch(self) -> None:
        began, mute = time.monotonic(), True
        events = self._kube.watch(
            self.resource,
            self._namespace,
            resource_version=self._store.version,
            metadata_only=self._metadata_only,
            **self._selectors,
        )
        opened = asyncio.get_running_loop().call_later(_OPENED, self._found)
        try:
            async with aclosing(events):
                async for event in events:
                    self._heard, mute = time.monotonic(), False
                    self._found()
                    self._handle(event)
        finally:
            opened.cancel()
            lived = time.monotonic() - began
            self._steady = lived >= _STEADY
            self._must_list = self._must_list or (mute and lived >= _MUTE)

    def _found(self) -> None:
        self._lost = None
        self.refusals = 0

    def _handle(self, event: WatchEvent) -> None:
        version = event.object["metadata"]["resourceVersion"]
        change = None
        if event.type in ("ADDED", "MODIFIED"):
            change = self._store.put(self._transform(event.object))
        elif event.type == "DELETED":
            change = self._store.delete(self._transform(event.object))
        self._store.advance(version)
        self._wake()
        self._tell(change)

    def _tell(self, change: Change | None) -> None:
        if change is None:
            return
        for subscriber in self._subscribers:
            try:
                subscriber(change)
            except Exception:
                logger.exception("A subscriber failed", extra={"resource": self.resource.plural})

    def _wake(self) -> None:
        for future, wanted in [*self._waiters.items()]:
            if self._store.has_seen(wanted) and not future.done():
                future.set_result(None)


def _needs_list(problem: Exception) -> bool:
    """Whether to list again, because the watch cannot go on where it was."""
    if isinstance(problem, Unavailable):
        # After a restore from a backup the server waits in vain to reach our version.
        return any(cause.get("reason") == _TOO_LARGE for cause in problem.causes)
    return isinstance(problem, Gone | NotFound | Invalid) or not isinstance(problem, KubeError)


def _pause(failures: int, problem: Exception | None) -> float:
    """Seconds: twice as long after each failure, with jitter, and no sooner than the server asks for."""
    pause = jitter(exponential(failures, first=_FIRST_BACKOFF, cap=_LONGEST_BACKOFF), 0.5, 1.0)
    if isinstance(problem, TooManyRequests | Unavailable) and problem.retry_after:
        return max(pause, min(problem.retry_after, _LONGEST_BACKOFF))
    return pause
