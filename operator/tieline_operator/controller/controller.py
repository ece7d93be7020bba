"""Reconciles a key of the queue: reads the object, plans, and applies. All kinds share this path."""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from tieline_core.evaluation.pool import EvaluationBusy
from tieline_core.evaluation.variables_checker import VariablesChecker
from tieline_core.kubernetes import KubeError, Resource
from tieline_core.kubernetes import resources as r
from tieline_operator.apply.applier import Applier
from tieline_operator.apply.conditions import invalid, is_terminating
from tieline_operator.apply.plan import Deferred, Key, Object, Plan
from tieline_operator.cache.cluster_cache import ClusterCache
from tieline_operator.cache.indexers import PRIMARY_RESOURCES
from tieline_operator.cache.organisations import organisation_of, with_organisation_check
from tieline_operator.config import Config
from tieline_operator.metrics import Metrics
from tieline_operator.reconcilers import connection_templates, credential_grants, end_users, environments
from tieline_operator.reconcilers.activations import ActivationReconciler
from tieline_operator.reconcilers.connections import ConnectionReconciler, TokenProblems
from tieline_operator.reconcilers.connector_imports import DescriptionImports
from tieline_operator.reconcilers.connectors import ConnectorReconciler
from tieline_operator.reconcilers.notification.channels import ChannelReconciler
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
from tieline_operator.reconcilers.notification.reconciler import NotificationReconciler
from tieline_operator.reconcilers.project.files import ProjectFiles
from tieline_operator.reconcilers.project.reconciler import Engine, ProjectReconciler
from tieline_operator.reconcilers.project.released_ids import ReleasedIds
from tieline_operator.reconcilers.project_versions import ProjectVersionReconciler
from tieline_operator.reconcilers.system_connectors import SystemReconciler
from tieline_operator.reconcilers.uniqueness import with_id_label_check

logger = logging.getLogger(__name__)

Reconcile = Callable[[ClusterCache, Object, datetime], Awaitable[Plan | Deferred]]

_OUTCOMES = {"True": "ready", "False": "failed", "Unknown": "in_progress"}
_BY_KIND: Mapping[str, Resource] = {resource.kind: resource for resource in PRIMARY_RESOURCES}


def reconcilers(
    config: Config,
    code: ProjectFiles,
    engine: Engine,
    token_problems: TokenProblems = lambda _namespace, _name: {},
    imported: Callable[[str], None] = lambda _outcome: None,
    *,
    checker: VariablesChecker | None = None,
    enqueue: Callable[[Key], None] = lambda _key: None,
    deliveries: Deliveries = NO_DELIVERIES,
    runs: Runs = NO_RUNS,
    schedules: Schedules = NO_SCHEDULES,
    issues: Issues = NO_ISSUES,
    approvals: Approvals = NO_APPROVALS,
    released: ReleasedIds | None = None,
) -> Mapping[str, Reconcile]:
    """One reconciler a kind.

    ``engine`` signs credentials for the event engine, and knows its queues and packages.
    ``token_problems`` returns why a connection's provider cannot be asked for tokens; ``imported`` is called with the
    outcome of each import. ``checker`` checks variables. ``enqueue`` reconciles an object again once a slow check of
    variables or files is done. ``deliveries`` delivers notifications, ``runs`` knows what becomes of runs,
    ``schedules`` how far schedules are, ``issues`` and ``approvals`` which ones the API has reported.
    ``released`` remembers the ids of Projects that were deleted.
    """
    checker = checker or VariablesChecker()
    imports = DescriptionImports(ended=imported)
    connectors = ConnectorReconciler(imports, code)
    return {
        r.SYSTEMS.kind: SystemReconciler(imports).reconcile,
        r.CONNECTIONS.kind: ConnectionReconciler(token_problems, config.egress).reconcile,
        r.CONNECTION_TEMPLATES.kind: connection_templates.reconcile,
        r.PROJECTS.kind: ProjectReconciler(config, code, engine, checker, enqueue, released).reconcile,
        r.PROJECT_VERSIONS.kind: ProjectVersionReconciler(code, enqueue).reconcile,
        r.ACTIVATIONS.kind: ActivationReconciler(checker, enqueue).reconcile,
        r.END_USERS.kind: end_users.reconcile,
        r.CONNECTORS.kind: connectors.reconcile,
        r.CONNECTOR_VERSIONS.kind: connectors.reconcile_version,
        r.CREDENTIAL_GRANTS.kind: credential_grants.reconcile,
        r.NOTIFICATION_CHANNELS.kind: ChannelReconciler(config.egress, deliveries).reconcile,
        r.ENVIRONMENTS.kind: environments.reconcile,
        r.NOTIFICATIONS.kind: NotificationReconciler(
            deliveries, runs, schedules, issues, approvals
        ).reconcile,
    }


@dataclass(eq=False)
class Controller:
    """Reconciles one object at a time for the queue."""

    cache: ClusterCache
    applier: Applier
    metrics: Metrics
    by_kind: Mapping[str, Reconcile]
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    async def reconcile(self, key: Key) -> float | None:
        """Observes, plans and applies. Returns the seconds after which to reconcile again, or None."""
        began = time.perf_counter()
        try:
            plan = await self._reconcile(key)
        except Exception as error:
            self.metrics.reconciles.labels(key.kind, "error").inc()
            logger.warning(
                "Reconcile failed, trying again: %s: %s",
                type(error).__name__,
                error,
                exc_info=not _is_expected(error),
                extra={"kind": key.kind, "object": f"{key.namespace}/{key.name}"},
            )
            raise
        finally:
            self.metrics.seconds.labels(key.kind).observe(time.perf_counter() - began)
        self.metrics.reconciles.labels(key.kind, _outcome_label(plan)).inc()
        return plan.requeue_after if isinstance(plan, Plan) else None

    async def _reconcile(self, key: Key) -> Plan | Deferred | None:
        resource = _BY_KIND[key.kind]
        obj = self.cache[resource].get(key.namespace, key.name)
        if (
            obj is None
            or is_terminating(obj)
            or is_terminating(self.cache[r.NAMESPACES].get(None, key.namespace))
        ):
            # Children have owner references: Kubernetes removes them. In a terminating namespace nothing can be
            # created, and what is missing is no drift.
            return None
        if organisation_of(self.cache, key.namespace) and not self.cache.knows_secrets(key.namespace):
            # Without them, credentials would be missed that are there.
            return Deferred()
        now = self.now()

        async def plan() -> Plan | Deferred:
            try:
                found = await self.by_kind[key.kind](self.cache, obj, now)
            except ValidationError as error:
                return Plan(outcome=invalid(error, key.kind), status=_known_status(obj, error))
            if not isinstance(found, Plan):
                return found
            found = with_id_label_check(obj, found)
            return with_organisation_check(self.cache, key.namespace, found)

        planned = await plan()
        if isinstance(planned, Deferred):
            return planned

        # Only a Project's status follows from its children.
        async def again() -> Plan:
            found = await plan()
            return found if isinstance(found, Plan) else planned

        return await self.applier.carry_out(
            resource, obj, planned, now, again if resource == r.PROJECTS else None
        )


def _known_status(obj: Object, error: ValidationError) -> dict[str, Any]:
    """What the status records (names, addresses, pinned files), which stays while the object cannot be read.

    A status that cannot be read itself is computed anew, as nobody else can correct it.
    """
    unreadable = any(item["loc"][:1] == ("status",) for item in error.errors(include_context=False))
    status = {} if unreadable else obj.get("status") or {}
    return {key: value for key, value in status.items() if key not in ("conditions", "observedGeneration")}


def _outcome_label(plan: Plan | Deferred | None) -> str:
    if plan is None:
        return "gone"
    return "deferred" if isinstance(plan, Deferred) else _OUTCOMES[plan.outcome.status]


def _is_expected(error: Exception) -> bool:
    """Whether the message says enough. Any other error is a bug: the log shows where."""
    return isinstance(error, KubeError | EvaluationBusy)
