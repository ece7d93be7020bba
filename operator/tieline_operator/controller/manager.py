"""Wires the operator's parts, and runs them: caches, queue, controller, leader election."""

import asyncio
import logging
import math
import socket
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any
from uuid import uuid4

from cachetools import LRUCache

from tieline_core import process_memory
from tieline_core.credentials.linker import Problem
from tieline_core.evaluation.variables_checker import VariablesChecker
from tieline_core.kubernetes import Change, Kube, Resource
from tieline_core.kubernetes.leader_election import Lease, lead
from tieline_core.kubernetes.resources import (
    CONFIG_MAPS,
    CONNECTIONS,
    HTTP_ROUTES,
    JOBS,
    NAMESPACES,
    ORGANISATION_RECORDS,
    PODS,
    PROJECT_VERSIONS,
    PROJECTS,
    SECRET_RIGHTS,
)
from tieline_operator.apply.applier import Applier
from tieline_operator.apply.drift import DriftReporter
from tieline_operator.apply.event_recorder import QueuedEventRecorder
from tieline_operator.apply.leader_guard import LeaderGuardedClient
from tieline_operator.apply.plan import Key
from tieline_operator.cache.cluster_cache import ClusterCache
from tieline_operator.cache.event_mapping import keys_to_enqueue
from tieline_operator.cache.indexers import CHILD_RESOURCES, PRIMARY_RESOURCES, key_of
from tieline_operator.cache.organisations import DuplicateOrganisationLog, duplicates
from tieline_operator.config import Config
from tieline_operator.controller.controller import Controller, reconcilers
from tieline_operator.controller.organisation_recorder import OrganisationRecorder
from tieline_operator.controller.secret_rights import SecretRights
from tieline_operator.controller.self_writes import SelfWriteFilter
from tieline_operator.engine.service import EngineService
from tieline_operator.metrics import Metrics
from tieline_operator.notifications.reports import ApprovalReports, IssueReports
from tieline_operator.notifications.run_counts import RunHistoryCounts
from tieline_operator.notifications.schedule_records import ScheduleRecords
from tieline_operator.notifications.service import NotificationService
from tieline_operator.queues.workqueue import WorkQueue
from tieline_operator.reconcilers.project.files import ProjectFiles
from tieline_operator.reconcilers.project.quota_grants import quota_usage
from tieline_operator.reconcilers.project.released_ids import ReleasedIds
from tieline_operator.sources.artifact_files import ArtifactFiles
from tieline_operator.sources.artifacts import ArtifactDownloader
from tieline_operator.sources.flux_sources import FluxSources
from tieline_operator.tls.service import TlsService
from tieline_operator.tokens.token_service import TokenService
from tieline_operator.workload.exposure import ExposureMode

logger = logging.getLogger(__name__)

LEASE = "tieline-operator"
MANAGED_RESOURCES = frozenset((*CHILD_RESOURCES, CONFIG_MAPS))
"""Resources of children: their deletion by others is reported as drift."""
# After a write to one of these Kubernetes' controllers write several times: one reconcile is enough for all.
_DEBOUNCED = frozenset((*MANAGED_RESOURCES, PODS))
# These keys only come first: a new leader reconciles everything. Over years most of their objects are deleted.
_MAX_CHANGED_WHILE_STANDBY = 4096
# An event waits this long for the cache; then its object is reconciled, and once more when the cache has caught up.
_SYNC_TIMEOUT = 5.0


class Manager:
    """One replica of the operator. Every replica watches; the leader reconciles."""

    def __init__(self, config: Config, kube: Kube, metrics: Metrics) -> None:
        self._config = config
        self._kube = kube
        self._metrics = metrics
        self.cache = ClusterCache.build(kube, config.namespaces, config.lease_namespace)
        self._lease = _lease(config, kube) if config.leader_elect else None
        writes = LeaderGuardedClient(kube, self._remaining_lease)
        self._events = QueuedEventRecorder(writes, busy=lambda: len(self.queue) > 0)
        self._self_writes = SelfWriteFilter()
        sources = FluxSources(kube, config.namespaces, self._source_changed)
        self._code = ProjectFiles(self.cache, artifacts=ArtifactFiles(sources, ArtifactDownloader()))
        self._checker = VariablesChecker(condemned=self._enqueue_projects)
        self._drifts = DriftReporter(
            kube, self._events, lambda kind, what: metrics.drifts.labels(kind, what).inc()
        )
        self._tls = TlsService(config, kube, writes, self.cache)
        self._engine = EngineService(
            config,
            kube,
            writes,
            self.cache,
            metrics,
            self._enqueue_all_projects,
            self._enqueue_project,
            self._enqueue_projects,
            trust=self._tls.engine_trust,
        )
        counts = _run_counts(self.cache, self._engine)
        schedules = _schedule_records(self.cache, self._engine)
        issues = _issue_reports(self.cache, self._engine)
        approvals = _approval_reports(self.cache, self._engine)
        self._notifications = NotificationService(
            kube,
            self.cache,
            metrics,
            config.egress,
            enqueue=self._enqueue,
            leads=lambda: self._remaining_lease() > 0,
            counts=counts,
            schedules=schedules,
            issues=issues,
            approvals=approvals,
        )
        self._released = ReleasedIds()
        self._controller = Controller(
            self.cache,
            Applier(writes, kube, self.cache, self._events, self._drifts, self._self_writes.note),
            metrics,
            reconcilers(
                config,
                self._code,
                self._engine,
                self._token_problems,
                lambda outcome: metrics.imports.labels(outcome).inc(),
                checker=self._checker,
                enqueue=self._enqueue,
                deliveries=self._notifications.dispatcher,
                runs=counts,
                schedules=schedules,
                issues=issues,
                approvals=approvals,
                released=self._released,
            ),
        )
        self.queue: WorkQueue[Key] = WorkQueue(self._reconcile, workers=config.workers)
        self._pending_events: set[Key] = set()
        """Objects whose event the cache was behind: their next change has them reconciled."""
        self._tokens: TokenService | None = None
        self.finished = asyncio.Event()
        """Set when the work has ended by itself: leadership was lost, or an error was raised."""
        self.started = False
        """Whether every watch has listed."""
        self.leading = False
        """Whether this replica leads."""
        self._changed_while_standby: LRUCache[Key, None] = LRUCache(_MAX_CHANGED_WHILE_STANDBY)
        """What changed last while another replica led."""
        self._work: asyncio.Task[None] | None = None
        metrics.watch(
            depth=lambda: len(self.queue),
            oldest=lambda: self.queue.oldest,
            ages=self._watch_ages,
            requests=lambda: kube.requests,
        )
        metrics.watch_objects(lambda: {kind: self.cache[kind].list() for kind in PRIMARY_RESOURCES})
        metrics.watch_package_jobs(self.cache[JOBS].list)
        metrics.watch_quotas(lambda: quota_usage(self.cache, config.quotas))
        metrics.watch_organisations(lambda: duplicates(self.cache))
        self._duplicates = DuplicateOrganisationLog(self.cache, self._post_about_namespace)
        self._recorder = OrganisationRecorder(
            self.cache, writes, self.cache, config.lease_namespace, namespaces=config.namespaces
        )
        self._rights = SecretRights(
            self.cache, self.cache.secrets, writes, self.cache, config.lease_namespace
        )

    async def start(self) -> None:
        """Starts watching, and reconciling as soon as this replica leads."""
        self._tokens = TokenService(
            self._config,
            self._kube,
            self.cache,
            self._metrics,
            self._enqueue_connection,
            lambda: self._remaining_lease() > 0,
        )
        for resource, store in self.cache.items():
            store.subscribe(partial(self._changed, resource))
        self.cache[NAMESPACES].subscribe(self._duplicates.changed)
        self.cache[ORGANISATION_RECORDS].subscribe(self._duplicates.recorded)
        self.cache[PROJECTS].subscribe(self._released.changed)
        for resource in (NAMESPACES, ORGANISATION_RECORDS):
            self.cache[resource].subscribe(self._recorder.changed)
        if await self.cache.gives_rights():
            self.cache.secrets.follow(())
            for resource in (NAMESPACES, ORGANISATION_RECORDS, SECRET_RIGHTS):
                self.cache[resource].subscribe(self._rights.changed)
        self.cache.secrets.when_synced(self._enqueue_all_in)
        self._engine.follow()
        self._tls.follow()
        if self._config.exposure.mode is not ExposureMode.HTTP_ROUTE:
            # Earlier settings may have left some; many clusters do not have the resource.
            await self.cache.skip_unserved(HTTP_ROUTES)
        await self.cache.start()
        await self.cache.synced()
        process_memory.freeze_gc()
        self.started = True
        self._events.start()
        logger.info("Watching", extra={"namespaces": ",".join(self._config.namespaces) or "all"})
        self._work = asyncio.create_task(self._lead(), name="work")
        self._work.add_done_callback(self._ended)

    async def stop(self) -> None:
        """Waits for running reconciles, releases the Lease, and stops watching."""
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
        await self.cache.stop()
        await self._kube.close()

    async def handle_event(self, resource: Resource, metadata: Mapping[str, Any]) -> None:
        """Enqueues the object once the cache has caught up with the event, or after 5 s."""
        version = metadata["resourceVersion"]
        if self._self_writes.holds(metadata["uid"], version):
            return
        key = Key(resource.kind, metadata["namespace"], metadata["name"])
        if not await self.cache[resource].reached(key.namespace, version, _SYNC_TIMEOUT):
            self._pending_events.add(key)
        known = self.cache[resource].get(key.namespace, key.name)
        self._enqueue(key, debounce=known is not None and _is_reconciled(known))

    def _watch_ages(self) -> Mapping[str, float]:
        """Of each resource; of Secrets, which are watched by type, the largest."""
        ages: dict[str, float] = {}
        for resource, store in self.cache.items():
            ages[resource.plural] = max(store.age(), ages.get(resource.plural, 0.0))
        return ages

    def dead(self) -> list[str]:
        """The resources whose watch is dead."""
        return self.cache.dead(self._config.watch_timeout)

    def _changed(self, resource: Resource, change: Change) -> None:
        if change.new is None and resource in MANAGED_RESOURCES:
            self._drifts.gone(resource, change.object)
        if change.new is None and resource in (PROJECTS, PROJECT_VERSIONS):
            self._code.forget(change.object["metadata"]["uid"])
        for key in keys_to_enqueue(self.cache, resource, change):
            self._enqueue(key, debounce=resource in _DEBOUNCED)
        if resource in PRIMARY_RESOURCES and (key := key_of(resource, change.object)) in self._pending_events:
            self._pending_events.discard(key)
            self._enqueue(key)

    def _enqueue(self, key: Key, *, debounce: bool = False) -> None:
        if self.leading:
            (self.queue.add_debounced if debounce else self.queue.add)(key)
        else:
            self._changed_while_standby[key] = None

    async def _reconcile(self, key: Key) -> float | None:
        again = await self._controller.reconcile(key)
        if key.kind == CONNECTIONS.kind and self._tokens:
            self._tokens.refresher.reschedule(key.namespace, key.name)
        return again

    def _token_problems(self, namespace: str, name: str) -> Mapping[str, Problem]:
        return self._tokens.refresher.token_problems(namespace, name) if self._tokens else {}

    def _enqueue_connection(self, namespace: str, name: str) -> None:
        self.queue.add(Key(CONNECTIONS.kind, namespace, name))

    def _post_about_namespace(self, namespace: Mapping[str, Any], condition: Mapping[str, str]) -> None:
        if self.leading:
            self._events.enqueue(NAMESPACES, namespace, condition)

    def _enqueue_projects(self, namespace: str) -> None:
        for project in self.cache[PROJECTS].list(namespace):
            self._enqueue(key_of(PROJECTS, project))

    def _source_changed(self, namespace: str, kind: str, name: str) -> None:
        for project in self.cache[PROJECTS].list(namespace):
            source = project["spec"].get("source", {}).get("sourceRef") or {}
            if (source.get("kind"), source.get("name")) == (kind, name):
                self._enqueue(key_of(PROJECTS, project))

    def _enqueue_project(self, namespace: str, name: str) -> None:
        self._enqueue(Key(PROJECTS.kind, namespace, name))

    def _enqueue_all_in(self, namespace: str) -> None:
        for resource in PRIMARY_RESOURCES:
            for obj in self.cache[resource].list(namespace):
                self._enqueue(key_of(resource, obj))

    def _enqueue_all_projects(self) -> None:
        for project in self.cache[PROJECTS].list():
            self._enqueue(key_of(PROJECTS, project))

    async def _lead(self) -> None:
        if self._lease is None:
            await self._work_on()
        else:
            await lead(self._lease, self._work_on)

    def _remaining_lease(self) -> float:
        return self._lease.left if self._lease else math.inf

    async def _work_on(self) -> None:
        await self._tls.start()
        await self._engine.start()
        self.leading = True
        self._metrics.leading.set(1)
        # What the previous leader may have left undone comes first.
        oldest_first = [
            self._changed_while_standby.popitem()[0] for _ in range(len(self._changed_while_standby))
        ]
        for key in reversed(oldest_first):
            self.queue.add(key)
        for resource in PRIMARY_RESOURCES:
            for obj in self.cache[resource].list():
                self.queue.add(key_of(resource, obj))
        self._duplicates.lead()
        self._recorder.queue.start()
        self._rights.queue.start()
        self._notifications.start()
        self.queue.start()
        if self._tokens:
            self._tokens.refresher.queue.start()
        try:
            await asyncio.Event().wait()
        finally:
            self.leading = False
            self._metrics.leading.set(0)
            stops = [
                self.queue.stop(),
                self._recorder.queue.stop(),
                self._rights.queue.stop(),
                self._notifications.stop(),
                self._engine.stop(),
                self._tls.stop(),
            ]
            if self._tokens:
                stops.append(self._tokens.refresher.queue.stop())
            await asyncio.gather(*stops)
            # While the Lease is still held: no other replica posts these Events.
            await self._events.stop()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            logger.error("Leading ended: %s", task.exception())
            self.finished.set()


def _is_reconciled(obj: Mapping[str, Any]) -> bool:
    """Whether its status is of its current spec: then most of its events are writes of that status."""
    observed = obj.get("status", {}).get("observedGeneration")
    return observed is not None and observed == obj["metadata"].get("generation")


def _run_counts(cache: ClusterCache, engine: EngineService) -> RunHistoryCounts:
    return RunHistoryCounts(
        cache,
        trust=lambda: engine.trust,
        open_account=engine.open_account,
    )


def _schedule_records(cache: ClusterCache, engine: EngineService) -> ScheduleRecords:
    return ScheduleRecords(
        cache,
        signer=lambda: engine.signer,
        open_account=engine.open_account,
    )


def _issue_reports(cache: ClusterCache, engine: EngineService) -> IssueReports:
    return IssueReports(
        cache,
        signer=lambda: engine.signer,
        open_account=engine.open_account,
    )


def _approval_reports(cache: ClusterCache, engine: EngineService) -> ApprovalReports:
    return ApprovalReports(
        cache,
        signer=lambda: engine.signer,
        open_account=engine.open_account,
    )


def _lease(config: Config, kube: Kube) -> Lease:
    return Lease(
        kube,
        name=LEASE,
        namespace=config.lease_namespace,
        identity=f"{socket.gethostname()}_{uuid4().hex[:8]}",
    )
