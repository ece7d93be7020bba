"""Runs reconciles against a FakeCluster until nothing more is written, as the queue would."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, cast

from tests.unit.operator.fake_cluster import FakeCluster
from tests.unit.operator.objects import NAMESPACE, NOW
from tieline_core.engine.package_streams import PackageEntry
from tieline_core.engine.trust import AccountSigner
from tieline_core.evaluation import files_jobs, variables_jobs
from tieline_core.evaluation.pool import Job, Pool
from tieline_core.evaluation.turn_budget import TurnBudget
from tieline_core.evaluation.variables_checker import VariablesChecker
from tieline_core.evaluation.verdicts import Verdict
from tieline_core.evaluation.worker import End
from tieline_core.kubernetes import Change, Resource
from tieline_core.kubernetes import resources as r
from tieline_core.project_files.checker import FilesChecker
from tieline_operator.apply.applier import Applier
from tieline_operator.apply.drift import DriftReporter
from tieline_operator.apply.event_recorder import EventRecorder
from tieline_operator.apply.plan import Key
from tieline_operator.cache.event_mapping import keys_to_enqueue
from tieline_operator.cache.indexers import PRIMARY_RESOURCES, key_of
from tieline_operator.config import Config
from tieline_operator.controller.controller import Controller, reconcilers
from tieline_operator.engine.environment_work import EnvironmentWork
from tieline_operator.engine.queue_levels import QueueLevel
from tieline_operator.metrics import Metrics
from tieline_operator.reconcilers.connections import TokenProblems
from tieline_operator.reconcilers.notification.deliveries import (
    NO_APPROVALS,
    NO_DELIVERIES,
    NO_ISSUES,
    NO_RUNS,
    NO_SCHEDULES,
    Approvals,
    Deliveries,
    Issues,
    Runs,
    Schedules,
)
from tieline_operator.reconcilers.project.files import ProjectFiles
from tieline_operator.reconcilers.project.released_ids import ReleasedIds

CONFIG = Config(
    runtime_image="runtime:1",
    api_url="http://api",
    engine_url=("nats://tieline-engine.tieline-system.svc:4222",),
    versions_kept=2,
)


class InlinePool:
    """Does the work of the limited processes here and now."""

    def __init__(self, answers: Callable[[bytes], Iterator[bytes]]) -> None:
        self._answers = answers

    def submit(self, job: Job) -> None:
        while (request := job.request()) is not None:
            for answer in self._answers(request):
                job.answered(answer)
            job.ended(End.DONE)


class InlineChecker(VariablesChecker):
    """Has every verdict at once."""

    def __init__(self) -> None:
        super().__init__(cast(Pool, InlinePool(variables_jobs.answers)))

    def request(
        self,
        tenant: str,
        schema: Mapping[str, Any] | None,
        variables: Mapping[str, Any],
        then: Callable[[], None],
    ) -> Verdict | None:
        self._turn = TurnBudget()  # nobody waits for a turn
        return super().request(tenant, schema, variables, then) or self.known(
            schema, variables, tenant=tenant
        )


class ReconcileLoop:
    """A controller over a cluster in memory, at a time that tests set."""

    def __init__(
        self,
        cluster: FakeCluster,
        *,
        config: Config = CONFIG,
        token_problems: TokenProblems = lambda _namespace, _name: {},
        checker: VariablesChecker | None = None,
        engine_signer: AccountSigner | None = None,
        deliveries: Deliveries = NO_DELIVERIES,
        runs: Runs = NO_RUNS,
        schedules: Schedules = NO_SCHEDULES,
        issues: Issues = NO_ISSUES,
        approvals: Approvals = NO_APPROVALS,
    ) -> None:
        self.cluster = cluster
        self.now: datetime = NOW
        self.released = ReleasedIds(now=self._seconds)
        self.requeue_after: float | None = None
        self.signer = engine_signer
        self.queue_level: QueueLevel | None = None
        self.environment_work: EnvironmentWork | None = None
        self.package_entries: dict[str, PackageEntry] | None = {}
        self.packages_asked = 0
        """How often a reconcile wanted them to be read again."""
        code = ProjectFiles(cluster, FilesChecker(cast(Pool, InlinePool(files_jobs.answers))))
        self._controller = Controller(
            cluster,
            Applier(
                cluster,
                cluster,
                cluster,
                EventRecorder(cluster),
                DriftReporter(cluster, EventRecorder(cluster)),
            ),
            Metrics(),
            reconcilers(
                config,
                code,
                self,
                token_problems,
                checker=checker or InlineChecker(),
                deliveries=deliveries,
                runs=runs,
                schedules=schedules,
                issues=issues,
                approvals=approvals,
                released=self.released,
            ),
            now=lambda: self.now,
        )

    def _seconds(self) -> float:
        return self.now.timestamp()

    def packages(self, namespace: str, *, again: bool = False) -> Mapping[str, PackageEntry] | None:
        """The packages in the engine."""
        self.packages_asked += again
        return self.package_entries

    def work(self, namespace: str, secret: str) -> EnvironmentWork | None:
        """The work of every environment."""
        return self.environment_work

    def level(self, namespace: str, secret: str) -> QueueLevel | None:
        """How full the queue of every environment is."""
        return self.queue_level

    async def once(self, resource: Resource, name: str) -> None:
        self.requeue_after = await self._controller.reconcile(Key(resource.kind, NAMESPACE, name))

    async def until_quiet(self) -> int:
        """Reconciles everything until a round writes nothing. Returns the number of writes."""
        before = self.cluster.writes
        for _ in range(12):
            round_began = self.cluster.writes
            for resource in PRIMARY_RESOURCES:
                for namespace, name in list(self.cluster.objects[resource]):
                    await self._controller.reconcile(Key(resource.kind, namespace, name))
            if self.cluster.writes == round_began:
                return round_began - before
        raise AssertionError("It never comes to rest")

    async def advance(self, seconds: float) -> None:
        """Time passes, and everything is reconciled."""
        self.now += timedelta(seconds=seconds)
        await self.until_quiet()

    async def changed(self, resource: Resource, obj: dict[str, Any]) -> None:
        """Somebody writes ``obj``: reconciles only what the operator's routes lead to, and so on."""
        metadata = obj["metadata"]
        old = self.cluster[resource].get(metadata.get("namespace"), metadata["name"])
        new = {**obj, "status": old["status"]} if old and "status" in old else obj
        self.cluster.written.clear()
        self.cluster.put(resource, new)
        waiting = keys_to_enqueue(self.cluster, resource, Change(old=old, new=new))
        if resource in PRIMARY_RESOURCES:
            waiting.add(key_of(resource, new))
        for _ in range(200):
            if not waiting:
                return
            await self._controller.reconcile(waiting.pop())
            for where, before, after in self.cluster.written:
                waiting |= keys_to_enqueue(self.cluster, where, Change(old=before, new=after))
            self.cluster.written.clear()
        raise AssertionError("It never comes to rest")

    def ready(self, resource: Resource, name: str) -> tuple[str, str, str]:
        obj = self.cluster[resource].get(NAMESPACE, name)
        condition = next(c for c in obj["status"]["conditions"] if c["type"] == "Ready")
        return condition["status"], condition["reason"], condition["message"]

    def environment(self, name: str = "production", project: str = "order-sync") -> dict[str, Any]:
        obj = self.cluster[r.PROJECTS].get(NAMESPACE, project)
        return next(item for item in obj["status"]["environments"] if item["name"] == name)

    def deployment(self, name_part: str = "production") -> Any:
        found = [d for d in self.cluster[r.DEPLOYMENTS].list() if name_part in d["metadata"]["name"]]
        return found[0] if found else None

    # --- what Kubernetes' controllers and the kubelet would do ------------------------------------------

    def kubelet(
        self, *, ready: bool = True, status: dict[str, Any] | None = None, environment: str = "production"
    ) -> None:
        """The Deployment's pods come into being and do what is told; older ones leave if these are ready."""
        deployment = self.deployment(environment)
        template, replicas = deployment["spec"]["template"], deployment["spec"]["replicas"]
        revision = template["metadata"]["annotations"]["tieline.dev/revision"]
        for (where, name), pod in list(self.cluster.objects[r.PODS].items()):
            mine = pod["metadata"]["labels"]["tieline.dev/environment"] == environment
            same = pod["metadata"]["annotations"]["tieline.dev/revision"] == revision
            if mine and (ready or same or not replicas):
                del self.cluster.objects[r.PODS][where, name]
        for index in range(replicas):
            metadata = {
                **template["metadata"],
                "name": f"{environment}-{revision}-{index}",
                "namespace": NAMESPACE,
                "uid": f"{revision}-{index}",
                "resourceVersion": "1",
                "creationTimestamp": self.now.isoformat(),
            }
            conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
            told = {"phase": "Running", "conditions": conditions, **(status or {})}
            self.cluster.put(r.PODS, {"metadata": metadata, "status": told})
        deployment["status"] = {
            "observedGeneration": 1,
            "replicas": replicas,
            "updatedReplicas": replicas,
            "readyReplicas": replicas if ready else 0,
        }


def crashed(message: str = "Traceback: boom", *, waiting: bool = True, exit_code: int = 1) -> dict[str, Any]:
    """The status of a pod whose container ended by itself, and is being restarted."""
    state = {"waiting": {"reason": "CrashLoopBackOff"}} if waiting else {"running": {}}
    terminated = {"exitCode": exit_code, "reason": "Error", "message": message}
    container = {"ready": False, "restartCount": 2, "state": state, "lastState": {"terminated": terminated}}
    return {"containerStatuses": [container]}


def no_image(reason: str = "ImagePullBackOff", message: str = "") -> dict[str, Any]:
    """The status of a pod whose image cannot be had."""
    waiting = {"reason": reason, "message": message}
    return {"containerStatuses": [{"image": "nowhere/x:1", "restartCount": 0, "state": {"waiting": waiting}}]}
