"""The operator's parts put together: caches, queue, controller, and who leads."""

import asyncio
import logging
import math
import socket
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any
from uuid import uuid4

from tieline_core import heap
from tieline_core.kube import Change, Kube, Resource
from tieline_core.kube.leases import Lease, lead
from tieline_core.kube.resources import (
    CONFIG_MAPS,
    CONNECTIONS,
    HTTP_ROUTES,
    NAMESPACES,
    PODS,
    PROJECT_VERSIONS,
    PROJECTS,
)
from tieline_core.oauth.linking import Problem
from tieline_core.variables_checker import VariablesChecker
from tieline_operator.applying import Applier
from tieline_operator.code import Code
from tieline_operator.config import Config
from tieline_operator.controller import Controller, reconcilers
from tieline_operator.drift import Drifts
from tieline_operator.events import QueuedEvents
from tieline_operator.exposure import Way
from tieline_operator.fencing import Fenced
from tieline_operator.indexes import CHILDREN, OWN
from tieline_operator.latecomers import Latecomers
from tieline_operator.metrics import Metrics
from tieline_operator.organisations import Duplicates, duplicates
from tieline_operator.own_writes import OwnWrites
from tieline_operator.plans import Key
from tieline_operator.routes import affected, key_of
from tieline_operator.tokens import Tokens
from tieline_operator.workqueue import WorkQueue
from tieline_operator.world import World

logger = logging.getLogger(__name__)

LEASE = "tieline-operator"
MADE = frozenset((*CHILDREN, CONFIG_MAPS))
"""What the operator makes for others, whose loss it tells of."""
# A write to one of these is followed by several of Kubernetes' controllers within a moment: one look is for them all.
_BUSY = frozenset((*MADE, PODS))
# They only come first: a replica that begins to lead looks at everything. For years most of them are gone by then.
_MOST_MEANWHILE = 4096
# A cache that is this late is looked at all the same; the change that makes up for it is looked at as well.
_PATIENCE = 5.0


class Service:
    """One replica of the operator. Every replica watches; the one that leads works."""

    def __init__(self, config: Config, kube: Kube, metrics: Metrics) -> None:
        self._config = config
        self._kube = kube
        self._metrics = metrics
        self.world = World.build(kube, config.namespaces)
        self._lease = _lease(config, kube) if config.leader_elect else None
        writes = Fenced(kube, self._left)
        self._events = QueuedEvents(writes, busy=lambda: len(self.queue) > 0)
        self._own_writes = OwnWrites()
        self._code = Code(self.world)
        self._checker = VariablesChecker(condemned=self._look_at_projects)
        self._drifts = Drifts(kube, self._events, lambda kind, what: metrics.drifts.labels(kind, what).inc())
        controller = Controller(
            self.world,
            Applier(writes, kube, self.world, self._events, self._drifts, self._own_writes.note),
            metrics,
            reconcilers(
                config,
                self._code,
                self._troubles,
                lambda outcome: metrics.imports.labels(outcome).inc(),
                checker=self._checker,
                look_again=self._enqueue,
            ),
        )
        self._controller = controller
        self.queue: WorkQueue[Key] = WorkQueue(self._reconcile, workers=config.workers)
        self._latecomers = Latecomers[Key]()
        self._tokens: Tokens | None = None
        self.finished = asyncio.Event()
        """Set when the work has ended by itself: leadership was lost, or something broke."""
        self.started = False
        """Whether every watch has listed."""
        self.leading = False
        """Whether this replica is the one at work."""
        self._changed_meanwhile: dict[Key, None] = {}
        """What changed last while another replica led, the latest last."""
        self._work: asyncio.Task[None] | None = None
        self._views = dict(self.world.items())
        metrics.watch(
            depth=lambda: len(self.queue),
            oldest=lambda: self.queue.oldest,
            ages=lambda: {resource.plural: store.age() for resource, store in self.world.items()},
            requests=lambda: kube.requests,
        )
        metrics.watch_objects(lambda: {kind: self.world[kind].list() for kind in OWN})
        metrics.watch_organisations(lambda: duplicates(self.world[NAMESPACES]))
        self._duplicates = Duplicates(self.world[NAMESPACES], self._post_about_namespace)

    async def start(self) -> None:
        """Starts watching, and begins to work as soon as this replica leads."""
        self._tokens = Tokens(
            self._config, self._kube, self.world, self._metrics, self._look_at, lambda: self._left() > 0
        )
        for resource, store in self.world.items():
            store.subscribe(partial(self._changed, resource))
        self.world[NAMESPACES].subscribe(self._duplicates.changed)
        if self._config.exposure.way is not Way.HTTP_ROUTE:
            # Of earlier settings there may be some; many clusters do not know them.
            await self.world.leave_out_unserved(HTTP_ROUTES)
        await self.world.start()
        await self.world.synced()
        heap.settle()
        self.started = True
        self._events.start()
        logger.info("Watching", extra={"namespaces": ",".join(self._config.namespaces) or "all"})
        self._work = asyncio.create_task(self._lead(), name="work")
        self._work.add_done_callback(self._ended)

    async def stop(self) -> None:
        """Lets running reconciles finish, gives the lease back, and stops watching."""
        await self.queue.stop()
        if self._work:
            self._work.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await self._work
        if self._tokens:
            await self._tokens.close()
        await self._events.stop()
        await self._checker.close()
        await self._code.close()
        await self.world.stop()
        await self._kube.close()

    async def seen(self, resource: Resource, metadata: Mapping[str, Any]) -> None:
        """Has an object looked at, as soon as the cache knows it as the event does."""
        version = metadata["resourceVersion"]
        if self._own_writes.holds(metadata["uid"], version):
            return
        key = Key(resource.kind, metadata["namespace"], metadata["name"])
        if not await self.world[resource].reached(key.namespace, version, _PATIENCE):
            self._latecomers.expect(key)
        known = self.world[resource].get(key.namespace, key.name)
        self._enqueue(key, soon=known is not None and _is_seen_to(known))

    def dead(self) -> list[str]:
        """The resources whose watch is dead."""
        return self.world.dead(self._config.watch_timeout)

    def _changed(self, resource: Resource, change: Change) -> None:
        if change.new is None and resource in MADE:
            self._drifts.gone(resource, change.object)
        if change.new is None and resource in (PROJECTS, PROJECT_VERSIONS):
            self._code.forget(change.object["metadata"]["uid"])
        for key in affected(self._views, resource, change):
            self._enqueue(key, soon=resource in _BUSY)
        state = change.new or change.old
        if resource in OWN and state is not None and self._latecomers.arrived(key_of(resource, state)):
            self._enqueue(key_of(resource, state))

    def _enqueue(self, key: Key, *, soon: bool = False) -> None:
        if self.leading:
            (self.queue.add_soon if soon else self.queue.add)(key)
            return
        self._changed_meanwhile.pop(key, None)
        self._changed_meanwhile[key] = None
        if len(self._changed_meanwhile) > _MOST_MEANWHILE:
            del self._changed_meanwhile[next(iter(self._changed_meanwhile))]

    async def _reconcile(self, key: Key) -> float | None:
        again = await self._controller.reconcile(key)
        if key.kind == CONNECTIONS.kind and self._tokens:
            self._tokens.refreshes.look(key.namespace, key.name)
        return again

    def _troubles(self, namespace: str, name: str) -> Mapping[str, Problem]:
        return self._tokens.refreshes.troubles(namespace, name) if self._tokens else {}

    def _look_at(self, namespace: str, name: str) -> None:
        self.queue.add(Key(CONNECTIONS.kind, namespace, name))

    def _post_about_namespace(self, namespace: Mapping[str, Any], told: Mapping[str, str]) -> None:
        if self.leading:
            self._events.post_soon(NAMESPACES, namespace, told)

    def _look_at_projects(self, namespace: str) -> None:
        for project in self.world[PROJECTS].list(namespace):
            self._enqueue(key_of(PROJECTS, project))

    async def _lead(self) -> None:
        if self._lease is None:
            await self._work_on()
        else:
            await lead(self._lease, self._work_on)

    def _left(self) -> float:
        return self._lease.left if self._lease else math.inf

    async def _work_on(self) -> None:
        self.leading = True
        self._metrics.leading.set(1)
        # What the one before may have left undone comes first.
        for key in reversed(self._changed_meanwhile):
            self.queue.add(key)
        self._changed_meanwhile.clear()
        for resource in OWN:
            for obj in self.world[resource].list():
                self.queue.add(key_of(resource, obj))
        self._duplicates.lead()
        self.queue.start()
        if self._tokens:
            self._tokens.refreshes.queue.start()
        try:
            await asyncio.Event().wait()
        finally:
            self.leading = False
            self._metrics.leading.set(0)
            stops = [self.queue.stop()]
            if self._tokens:
                stops.append(self._tokens.refreshes.queue.stop())
            await asyncio.gather(*stops)
            # While the Lease is still held: what was done is told, and by nobody else.
            await self._events.stop()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            logger.error("The work has ended: %s", task.exception())
            self.finished.set()


def _is_seen_to(obj: Mapping[str, Any]) -> bool:
    """Whether its status is of what is asked for now: news of it are most often of that status."""
    observed = obj.get("status", {}).get("observedGeneration")
    return observed is not None and observed == obj["metadata"].get("generation")


def _lease(config: Config, kube: Kube) -> Lease:
    return Lease(
        kube,
        name=LEASE,
        namespace=config.lease_namespace,
        identity=f"{socket.gethostname()}_{uuid4().hex[:8]}",
    )
