"""Changes in organisations, collected for a moment and sent to watchers.

A change names an object without its content, which a watcher reads by other operations, with its own permissions.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from tieline_api import errors
from tieline_api.cluster.cluster_cache import ClusterCache
from tieline_api.cluster.organisations import Organisation
from tieline_core.identity.ids import object_id
from tieline_core.kubernetes import Change as ObjectChange
from tieline_core.kubernetes import Informer, SecretCache

logger = logging.getLogger(__name__)

SPACING_SECONDS = 0.5
"""Watchers of an organisation get at most one batch in this time."""
MOST_IDS = 50
"""Changed objects of one kind in a batch. Where more have changed, the batch names the kind alone."""
MOST_BATCHES = 32
"""Batches that wait for one watcher. Beyond them, they are dropped, and it reads everything again."""
MOST_WATCHERS = 1000
"""At a replica."""
MOST_OF_ORGANISATION = 250
"""At a replica. An organisation can have any number of callers, and must leave room for others."""
MOST_OF_CALLER = 10
_RETRY_SECONDS = 15.0

What = Literal["added", "changed", "deleted"]


@dataclass(frozen=True)
class Change:
    """One object that has changed; without an id, any number of a kind."""

    kind: str
    id: str = ""
    what: What = "changed"


Batch = tuple[Change, ...]


class Watcher:
    """A connection that watches an organisation, with the batches that it was not sent yet."""

    def __init__(self) -> None:
        self._batches: deque[Batch] = deque()
        self._woken = asyncio.Event()
        self._has_missed = False

    def put(self, batch: Batch) -> None:
        """Adds a batch. Where too many wait, all of them are dropped."""
        if len(self._batches) >= MOST_BATCHES:
            self._batches.clear()
            self._has_missed = True
        elif not self._has_missed:
            self._batches.append(batch)
        self.wake()

    def wake(self) -> None:
        """Ends a wait."""
        self._woken.set()

    async def wait(self, seconds: float) -> None:
        """Returns when there is something to send or the feed ends, and after ``seconds`` at the latest."""
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return

    def take(self) -> tuple[list[Batch], bool]:
        """What waits, and whether something was dropped since it was last asked."""
        batches, missed = [*self._batches], self._has_missed
        self._batches.clear()
        self._has_missed = False
        self._woken.clear()
        return batches, missed


@dataclass
class _Topic:
    """An organisation that is watched."""

    watchers: set[Watcher] = field(default_factory=set)
    pending: dict[str, dict[str, What] | None] = field(default_factory=dict)
    """Changes since the last batch by kind and id; None where too many objects of a kind have changed."""
    timer: asyncio.TimerHandle | None = None
    quiet_until: float = 0.0

    def add(self, change: Change) -> None:
        found = self.pending.setdefault(change.kind, {})
        if found is None:
            return
        if not change.id or (len(found) >= MOST_IDS and change.id not in found):
            self.pending[change.kind] = None
            return
        before = found.get(change.id)
        # What is new to the watchers stays new, whatever happened to it since.
        found[change.id] = "added" if before == "added" and change.what == "changed" else change.what

    def batch(self) -> Batch:
        """What has changed since the last batch."""
        pending, self.pending = self.pending, {}
        return tuple(
            change
            for kind, found in pending.items()
            for change in (
                [Change(kind)]
                if found is None
                else [Change(kind, each, what) for each, what in found.items()]
            )
        )


class ChangeFeed:
    """Hands changes to watchers. All methods but ``publish_from_thread`` belong to the event loop."""

    def __init__(self, *, spacing: float = SPACING_SECONDS) -> None:
        self._spacing = spacing
        self._topics: dict[str, _Topic] = {}
        self._namespaces: dict[str, set[str]] = {}
        """The ids of watched organisations by their namespaces."""
        self._of_caller: Counter[Hashable] = Counter()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def watchers(self) -> int:
        """How many watch."""
        return self._of_caller.total()

    def follow(self, cluster: ClusterCache) -> None:
        """Publishes what changes in the caches of a cluster."""
        kinds: dict[str, Informer[Any]] = {
            "project": cluster.projects,
            "version": cluster.versions,
            "connection": cluster.connections,
            "system": cluster.systems,
            "connectionTemplate": cluster.templates,
            "user": cluster.users,
            "activation": cluster.activations,
            "connector": cluster.connectors,
            "connectorVersion": cluster.connector_versions,
            "notificationChannel": cluster.notification_channels,
            "notification": cluster.notifications,
        }
        for kind, cache in kinds.items():
            self._follow(kind, cache)
        # Their ids are of no use to a watcher: connections show what is known of credentials.
        self._follow("connection", cluster.secrets, named=False)
        self._follow("apiKey", cluster.api_keys, named=False)

    def _follow(self, kind: str, cache: Informer[Any] | SecretCache, *, named: bool = True) -> None:
        def publish(change: ObjectChange) -> None:
            for organisation in self._namespaces.get(change.object["metadata"].get("namespace", ""), ()):
                identifier = object_id(change.object) if named else ""
                self.publish(organisation, Change(kind, identifier, _what(change)))

        cache.subscribe(publish)

    def publish(self, organisation: str, change: Change) -> None:
        """Something has changed in an organisation."""
        topic = self._topics.get(organisation)
        if topic is None:
            return
        topic.add(change)
        if topic.timer is None:
            loop = asyncio.get_running_loop()
            # The first change of a series goes out with those of the same moment.
            wait = max(topic.quiet_until - loop.time(), 0.02)
            topic.timer = loop.call_later(wait, self._flush, topic)

    def publish_from_thread(self, organisation: str, kind: str, ids: Iterable[str]) -> None:
        """The same for several objects of a kind, from any thread."""
        loop = self._loop
        if loop is None or organisation not in self._topics:
            return
        changed = [Change(kind, each) for each in ids]
        try:
            loop.call_soon_threadsafe(self._publish_all, organisation, changed)
        except RuntimeError:  # the loop is closed: the process ends
            logger.debug("The event loop is closed: changes are dropped")

    def _publish_all(self, organisation: str, changes: list[Change]) -> None:
        for change in changes:
            self.publish(organisation, change)

    def _flush(self, topic: _Topic) -> None:
        topic.timer = None
        topic.quiet_until = asyncio.get_running_loop().time() + self._spacing
        batch = topic.batch()
        for watcher in topic.watchers:
            watcher.put(batch)

    def require_room(self, organisation: Organisation, caller: Hashable) -> None:
        """ApiError 429 where a caller, an organisation or the replica has too many watchers."""
        if self._of_caller[caller] >= MOST_OF_CALLER:
            raise errors.too_many_requests(
                f"You have {MOST_OF_CALLER} open streams already: close one",
                retry_after=_RETRY_SECONDS,
            )
        topic = self._topics.get(organisation.id)
        if topic is not None and len(topic.watchers) >= MOST_OF_ORGANISATION:
            raise errors.too_many_requests(
                f"The organisation has {MOST_OF_ORGANISATION} open streams at this replica: try again later",
                retry_after=_RETRY_SECONDS,
            )
        if self.watchers >= MOST_WATCHERS:
            raise errors.too_many_requests(
                "This replica has too many open streams: try again later", retry_after=_RETRY_SECONDS
            )

    @contextmanager
    def watch(self, organisation: Organisation, caller: Hashable) -> Iterator[Watcher]:
        """A watcher of an organisation, which counts as one of the caller's."""
        self._loop = asyncio.get_running_loop()
        watcher = Watcher()
        topic = self._topics.setdefault(organisation.id, _Topic())
        topic.watchers.add(watcher)
        self._namespaces.setdefault(organisation.namespace, set()).add(organisation.id)
        self._of_caller[caller] += 1
        try:
            yield watcher
        finally:
            topic.watchers.discard(watcher)
            self._of_caller[caller] -= 1
            if not self._of_caller[caller]:
                del self._of_caller[caller]
            if not topic.watchers:
                self._forget(organisation, topic)

    def _forget(self, organisation: Organisation, topic: _Topic) -> None:
        if topic.timer is not None:
            topic.timer.cancel()
        del self._topics[organisation.id]
        for namespace, watched in [*self._namespaces.items()]:
            watched.discard(organisation.id)
            if not watched:
                del self._namespaces[namespace]

    def wake_all(self) -> None:
        """Ends all waits, because the process ends."""
        for topic in self._topics.values():
            for watcher in topic.watchers:
                watcher.wake()


def _what(change: ObjectChange) -> What:
    if change.old is None:
        return "added"
    return "deleted" if change.new is None else "changed"
