"""From a key in the queue to a plan carried out: the one path that all kinds share."""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime

from pydantic import ValidationError

from tieline_core.evaluation.busy import Busy
from tieline_core.kube import KubeError, Resource
from tieline_core.kube import resources as r
from tieline_core.variables_checker import VariablesChecker
from tieline_operator import connection_templates, credential_grants, end_users
from tieline_operator.activations import Activations
from tieline_operator.applying import Applier
from tieline_operator.code import Code
from tieline_operator.conditions import invalid
from tieline_operator.config import Config
from tieline_operator.connections import Connections, Troubles
from tieline_operator.connector_imports import Imports
from tieline_operator.connectors import Connectors
from tieline_operator.identity import told_of_id
from tieline_operator.indexes import OWN
from tieline_operator.metrics import Metrics
from tieline_operator.plans import Deferred, Key, Object, Plan
from tieline_operator.project_observation import Projects
from tieline_operator.system_connectors import Systems
from tieline_operator.versions import Versions
from tieline_operator.world import World

logger = logging.getLogger(__name__)

Reconcile = Callable[[World, Object, datetime], Awaitable[Plan | Deferred]]

_OUTCOMES = {"True": "ready", "False": "failed", "Unknown": "in_progress"}
_BY_KIND: Mapping[str, Resource] = {resource.kind: resource for resource in OWN}


def reconcilers(
    config: Config,
    code: Code,
    troubles: Troubles = lambda _namespace, _name: {},
    imported: Callable[[str], None] = lambda _outcome: None,
    *,
    checker: VariablesChecker | None = None,
    look_again: Callable[[Key], None] = lambda _key: None,
) -> Mapping[str, Reconcile]:
    """One reconciler a kind.

    ``troubles`` tells of connections whose provider cannot be asked; ``imported`` is told how imports came out.
    ``checker`` checks variables. Where that or a check of files takes its time, ``look_again`` has the object
    reconciled afterwards.
    """
    checker = checker or VariablesChecker()
    imports = Imports(ended=imported)
    connectors = Connectors(imports, code)
    return {
        r.SYSTEMS.kind: Systems(imports).reconcile,
        r.CONNECTIONS.kind: Connections(troubles).reconcile,
        r.CONNECTION_TEMPLATES.kind: connection_templates.reconcile,
        r.PROJECTS.kind: Projects(config, code, checker, look_again).reconcile,
        r.PROJECT_VERSIONS.kind: Versions(code, look_again).reconcile,
        r.ACTIVATIONS.kind: Activations(checker, look_again).reconcile,
        r.END_USERS.kind: end_users.reconcile,
        r.CONNECTORS.kind: connectors.reconcile,
        r.CONNECTOR_VERSIONS.kind: connectors.reconcile_version,
        r.CREDENTIAL_GRANTS.kind: credential_grants.reconcile,
    }


class Controller:
    """Reconciles one object at a time for the queue."""

    def __init__(
        self,
        world: World,
        applier: Applier,
        metrics: Metrics,
        by_kind: Mapping[str, Reconcile],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._world = world
        self._applier = applier
        self._metrics = metrics
        self._by_kind = by_kind
        self._now = now

    async def reconcile(self, key: Key) -> float | None:
        """Looks, plans and carries out. Returns the seconds after which to look again, or None."""
        began = time.perf_counter()
        try:
            plan = await self._reconcile(key)
        except Exception as error:
            self._metrics.reconciles.labels(key.kind, "error").inc()
            logger.warning(
                "Reconcile failed, trying again: %s: %s",
                type(error).__name__,
                error,
                exc_info=not _is_expected(error),
                extra={"kind": key.kind, "object": f"{key.namespace}/{key.name}"},
            )
            raise
        finally:
            self._metrics.seconds.labels(key.kind).observe(time.perf_counter() - began)
        self._metrics.reconciles.labels(key.kind, _told(plan)).inc()
        return plan.requeue_after if isinstance(plan, Plan) else None

    async def _reconcile(self, key: Key) -> Plan | Deferred | None:
        resource = _BY_KIND[key.kind]
        obj = self._world[resource].get(key.namespace, key.name)
        if obj is None or _is_going(obj) or _is_going(self._world[r.NAMESPACES].get(None, key.namespace)):
            # Children have owner references: Kubernetes removes them. In a namespace that goes nothing can be
            # made again, and what is missing is no fault.
            return None
        now = self._now()

        async def plan() -> Plan | Deferred:
            try:
                found = await self._by_kind[key.kind](self._world, obj, now)
            except ValidationError as error:
                return Plan(outcome=invalid(error, key.kind))
            return told_of_id(obj, found) if isinstance(found, Plan) else found

        planned = await plan()
        if isinstance(planned, Deferred):
            return planned

        # Only of a Project does what is to be said follow from its children.
        async def again() -> Plan:
            found = await plan()
            return found if isinstance(found, Plan) else planned

        return await self._applier.carry_out(
            resource, obj, planned, now, again if resource == r.PROJECTS else None
        )


def _told(plan: Plan | Deferred | None) -> str:
    if plan is None:
        return "gone"
    return "deferred" if isinstance(plan, Deferred) else _OUTCOMES[plan.outcome.status]


def _is_going(obj: Object | None) -> bool:
    return obj is not None and "deletionTimestamp" in obj["metadata"]


def _is_expected(error: Exception) -> bool:
    """What these say is all there is to know; anything else is a fault of ours: show where."""
    return isinstance(error, KubeError | Busy)
