"""Secrets of organisations: one watch in each namespace, and a cache of each type of Secret.

No right to read Secrets is of the whole cluster, so no watch is. A watch begins with the organisation. The right to it
may come a moment later, and while it is refused, it is tried again.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tieline_core.kubernetes.client import Kube
from tieline_core.kubernetes.informer import Informer, Subscriber, Transform, strip_managed_fields
from tieline_core.kubernetes.object_store import Change, Indexer, Objects
from tieline_core.kubernetes.resources import SECRETS
from tieline_core.objects import Object, ObjectView

_OF_OTHERS = (
    "Opaque",
    "bootstrap.kubernetes.io/token",
    "helm.sh/release.v1",
    "kubernetes.io/basic-auth",
    "kubernetes.io/dockercfg",
    "kubernetes.io/dockerconfigjson",
    "kubernetes.io/service-account-token",
    "kubernetes.io/ssh-auth",
    "kubernetes.io/tls",
)
"""Types that the API server leaves out: a field selector can exclude types, but not name several."""
_KEPT_OF_OTHERS = ("name", "namespace", "uid", "resourceVersion")
_REFUSED_FOR_GOOD = 10
"""Refusals in a row, about a minute, after which nobody waits for a namespace."""
_SETTLING_SECONDS = 0.05
_LOST_SECONDS = 1.0
"""How old the answer of ``lost`` may be: it is asked for with every request."""


@dataclass(frozen=True)
class SecretKind:
    """A type of Secret that is cached; ``transform`` and ``indexes`` are as those of an ``Informer``.

    What ``transform`` returns has the ``type``.
    """

    type: str
    transform: Transform = strip_managed_fields
    indexes: Mapping[str, Indexer] = field(default_factory=dict)


class SecretInformers:
    """The watches of all namespaces that are followed. All methods belong to the event loop."""

    resource = SECRETS

    def __init__(
        self,
        kube: Kube,
        kinds: Iterable[SecretKind],
        *,
        without: Iterable[str] = (),
    ) -> None:
        """``without`` are types beside those of Kubernetes that are not read."""
        self._kube = kube
        self._kinds = {kind.type: kind for kind in kinds}
        self._selector = ",".join(f"type!={name}" for name in sorted({*_OF_OTHERS, *without}))
        self._on_synced: Callable[[str], None] = lambda _namespace: None
        self._informers: dict[str, Informer] = {}
        self._subscribers: list[tuple[str, Subscriber]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._running = False
        self._lost = (float("-inf"), 0.0)

    def of_type(self, type_: str) -> "SecretCache":
        """The Secrets of a type."""
        return SecretCache(self, type_)

    # --- life -------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begins to watch what is followed, and from now on at once."""
        self._running = True
        for namespace, informer in self._informers.items():
            self._begin(namespace, informer)

    async def stop(self) -> None:
        """Ends all watches."""
        self._running = False
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*(informer.stop() for informer in self._informers.values()))

    def follow(self, namespaces: Collection[str]) -> None:
        """Watches these namespaces and no others. Secrets of the others are forgotten, without a change."""
        for namespace in self._informers.keys() - set(namespaces):
            self._keep(self._informers.pop(namespace).stop())
        for namespace in sorted(set(namespaces) - self._informers.keys()):
            self._informers[namespace] = self._informer(namespace)
            if self._running:
                self._begin(namespace, self._informers[namespace])

    def when_synced(self, callback: Callable[[str], None]) -> None:
        """Calls ``callback`` with each namespace whose Secrets are read for the first time."""
        self._on_synced = callback

    def _begin(self, namespace: str, informer: Informer) -> None:
        async def run() -> None:
            await informer.start()
            await informer.synced()
            if self._informers.get(namespace) is informer:
                self._on_synced(namespace)

        self._keep(run())

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _informer(self, namespace: str) -> Informer:
        informer = Informer(
            self._kube,
            SECRETS,
            namespace=namespace,
            field_selector=self._selector,
            transform=self._transform,
            indexes={
                _index(kind.type, name): _only(kind.type, indexer)
                for kind in self._kinds.values()
                for name, indexer in kind.indexes.items()
            },
            awaits_rights=True,
        )
        informer.subscribe(self._changed)
        return informer

    def _transform(self, obj: Object) -> Object:
        kind = self._kinds.get(obj.get("type", ""))
        if kind is not None:
            return kind.transform(obj)
        metadata = {name: obj["metadata"][name] for name in _KEPT_OF_OTHERS if name in obj["metadata"]}
        return {"metadata": metadata, "type": obj.get("type")}

    async def settle(self) -> None:
        """Returns once what is followed is ``settled``."""
        while not self.settled:  # noqa: ASYNC110  (what is followed may change meanwhile)
            await asyncio.sleep(_SETTLING_SECONDS)

    # --- state ------------------------------------------------------------------------------------------

    def informer(self, namespace: str) -> Informer | None:
        """The watch of a namespace, if it is followed."""
        return self._informers.get(namespace)

    def knows(self, namespace: str) -> bool:
        """Whether the Secrets of a namespace have been read."""
        found = self._informers.get(namespace)
        return found is not None and found.is_synced

    def follows(self, namespace: str) -> bool:
        """Whether a namespace is watched, or will be as soon as that is allowed."""
        return namespace in self._informers

    @property
    def settled(self) -> bool:
        """Whether every namespace was read once, but for those that have been refused for about a minute."""
        return all(one.is_synced or one.refusals >= _REFUSED_FOR_GOOD for one in self._informers.values())

    @property
    def unread(self) -> list[str]:
        """The namespaces whose Secrets are not known yet."""
        return sorted(name for name, one in self._informers.items() if not one.is_synced)

    @property
    def has_ended(self) -> bool:
        """Whether a watch has ended by itself."""
        return any(one.has_ended for one in self._informers.values())

    @property
    def age(self) -> float:
        """Seconds since the server was last heard of, by the watch that waits longest. Refused ones do not count."""
        return max((one.age for one in self._allowed()), default=0.0)

    @property
    def lost(self) -> float:
        """Seconds since the server was last heard of, where a watch cannot follow it right now; else 0."""
        at, lost = self._lost
        now = time.monotonic()
        if now - at >= _LOST_SECONDS:
            lost = max((one.lost for one in self._allowed()), default=0.0)
            self._lost = (now, lost)
        return lost

    def healthy(self, *, max_age: float) -> bool:
        """Whether each watch that is allowed has listed and has heard of the server lately."""
        return all(one.healthy(max_age=max_age) for one in self._allowed() if one.is_synced)

    def _allowed(self) -> Iterable[Informer]:
        return (one for one in self._informers.values() if not one.refusals)

    # --- reading ----------------------------------------------------------------------------------------

    def of(self, namespace: str | None) -> Collection[Informer]:
        """The watches of a namespace, or all."""
        if namespace is None:
            return self._informers.values()
        found = self._informers.get(namespace)
        return () if found is None else (found,)

    def by_index(self, type_: str, index: str, key: str) -> Objects:
        """Secrets by an index. A key that begins with a namespace is looked up there alone."""
        namespace = key.partition("/")[0]
        where = self.of(namespace if namespace in self._informers else None)
        return [obj for one in where for obj in one.by_index(_index(type_, index), key)]

    def subscribe(self, type_: str, subscriber: Subscriber) -> None:
        """Calls ``subscriber`` with changes of Secrets of a type."""
        self._subscribers.append((type_, subscriber))

    def _changed(self, change: Change) -> None:
        for type_, subscriber in self._subscribers:
            old, new = _if_of(type_, change.old), _if_of(type_, change.new)
            if old is not None or new is not None:
                subscriber(Change(old=old, new=new))


class SecretCache:
    """The Secrets of one type in all namespaces that are followed: read as from an ``Informer``."""

    resource = SECRETS

    def __init__(self, informers: SecretInformers, type_: str) -> None:
        self._informers = informers
        self._type = type_

    def get(self, namespace: str | None, name: str) -> Object | None:
        """The Secret, or None."""
        found = self._informers.informer(namespace or "")
        return _if_of(self._type, found.get(namespace, name)) if found else None

    def list(self, namespace: str | None = None) -> Objects:
        """All Secrets, or those of a namespace."""
        watches = [*self._informers.of(namespace)]
        return [obj for one in watches for obj in one.list() if obj.get("type") == self._type]

    def by_index(self, index: str, key: str) -> Objects:
        """The Secrets for which the index's function gave ``key``."""
        return self._informers.by_index(self._type, index, key)

    def subscribe(self, subscriber: Subscriber) -> None:
        """Calls ``subscriber`` with every change from now on."""
        self._informers.subscribe(self._type, subscriber)

    def observe(self, obj: ObjectView) -> None:
        """Puts in what a write has just returned, or a read."""
        found = self._informers.informer(obj["metadata"].get("namespace", ""))
        if found is not None and obj.get("type") == self._type:
            found.observe(obj)

    def forget(self, obj: ObjectView) -> None:
        """Takes out what was just deleted."""
        found = self._informers.informer(obj["metadata"].get("namespace", ""))
        if found is not None:
            found.forget(obj)

    def __bool__(self) -> bool:
        return True


def _index(type_: str, name: str) -> str:
    return f"{type_} {name}"


def _only(type_: str, indexer: Indexer) -> Indexer:
    return lambda obj: indexer(obj) if obj.get("type") == type_ else ()


def _if_of(type_: str, obj: Object | None) -> Object | None:
    return obj if obj is not None and obj.get("type") == type_ else None
