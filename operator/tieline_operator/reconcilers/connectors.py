"""Connector and ConnectorVersion: imports a Connector's description, and reports the result."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from tieline_core.connectors import storage
from tieline_core.identity.ids import object_id, object_name
from tieline_core.kubernetes.resources import CONNECTOR_VERSIONS, CONNECTORS
from tieline_core.project_files.config_maps import FilesMissing
from tieline_core.resources import Connector, ConnectorVersion
from tieline_core.resources.connectors import ConnectorDescription
from tieline_operator.apply.conditions import READY
from tieline_operator.apply.plan import Object, Plan, failed, in_progress, ready
from tieline_operator.cache.cluster_cache import ClusterCache
from tieline_operator.cache.indexers import joined
from tieline_operator.reconcilers.connector_imports import DescriptionImports, ImportRefusal
from tieline_operator.reconcilers.connector_results import (
    BUSY_SECONDS,
    MAX_MESSAGES,
    RECHECK_SECONDS,
    RESULT_MISSING,
    STORING,
    imported,
    latest_version_status,
    missing_config_maps,
    store,
    summary,
)
from tieline_operator.reconcilers.project.connector import ProjectConnectorReconciler
from tieline_operator.reconcilers.project.files import ProjectFiles
from tieline_operator.reconcilers.references import not_found
from tieline_operator.reconcilers.uniqueness import id_conflict


class ConnectorReconciler:
    """Reconciles connectors and their versions."""

    def __init__(self, imports: DescriptionImports, code: ProjectFiles) -> None:
        self._imports = imports
        self._of_projects = ProjectConnectorReconciler(imports, code)

    async def reconcile(self, cache: ClusterCache, obj: Object, now: datetime) -> Plan:
        """Observes the Connector and plans."""
        connector = Connector.read(obj)
        versions = cache[CONNECTOR_VERSIONS].by_index(
            "connector", joined(connector.namespace, connector.name)
        )
        status = latest_version_status(versions)
        conflict = id_conflict(obj, cache[CONNECTORS])
        if conflict:
            return Plan(outcome=conflict, status=status)
        if connector.spec.description is None and connector.spec.project_ref is None:
            return Plan(outcome=ready("Accepted", "The connector can have versions"), status=status)
        try:
            if connector.spec.description is None:
                return await self._of_projects.reconcile(cache, obj, connector, versions)
            return await self._import(cache, obj, connector, connector.spec.description, status, versions)
        except FilesMissing as missing:
            return Plan(outcome=failed("DescriptionMissing", str(missing)), status=status)

    async def _import(
        self,
        cache: ClusterCache,
        obj: Object,
        connector: Connector,
        description: ConnectorDescription,
        status: dict[str, Any],
        versions: Sequence[Object],
    ) -> Plan:
        name = description.version
        if name.lower() in storage.RESERVED:
            message = (
                f'"{name}" always means a version that is there; choose another spec.description.version'
            )
            return Plan(outcome=failed("VersionReserved", message), status=status)
        digest = await self._imports.digest(cache, connector, description)
        identifier = storage.version_id(object_id(obj), name)
        version = cache[CONNECTOR_VERSIONS].get(connector.namespace, object_name(identifier))
        if version is not None and version["spec"]["digest"] != digest:
            message = (
                f'Version "{name}" was imported from another description, and versions never change; '
                "name another one in spec.description.version"
            )
            return Plan(outcome=failed("VersionTaken", message), status=status)
        if version is not None and not missing_config_maps(cache, version):
            self._imports.forget(digest, description.format)
            return await imported(self._imports, cache, version, status)
        result = await self._imports.result(
            digest,
            lambda: self._imports.read(cache, connector, description),
            owner=connector.namespace,
            format=description.format,
        )
        if result is None:
            outcome = in_progress("Importing", f'The description is being imported as version "{name}"')
            return Plan(outcome=outcome, status=status, requeue_after=RECHECK_SECONDS)
        if isinstance(result, ImportRefusal):
            if result.again:
                outcome = in_progress("WaitingToImport", result.message)
                return Plan(outcome=outcome, status=status, requeue_after=BUSY_SECONDS)
            finding = {"text": result.message, "severity": "error"}
            return Plan(
                outcome=failed("DescriptionUnreadable", result.message),
                status={**status, "messages": [finding]},
            )
        return store(obj, name, version, result, status, digest=digest, siblings=versions)

    async def reconcile_version(self, cache: ClusterCache, obj: Object, now: datetime) -> Plan:
        """Observes the ConnectorVersion and plans."""
        version = ConnectorVersion.read(obj)
        conflict = id_conflict(obj, cache[CONNECTOR_VERSIONS])
        if conflict:
            return Plan(outcome=conflict)
        name = version.spec.connector_ref.name
        if cache[CONNECTORS].get(version.namespace, name) is None:
            outcome = not_found(
                "ConnectorNotFound", name, version.namespace, "version", "with another connectorRef"
            )
            return Plan(outcome=outcome)
        missing = missing_config_maps(cache, obj)
        head = None if missing else await self._imports.head(cache, obj)
        if head is None:
            return _incomplete(version, missing, now)
        status: dict[str, Any] = {key: head[key] for key in ("definitions", "actions", "triggers")}
        if head["messages"]:
            status["messages"] = head["messages"][:MAX_MESSAGES]
        return Plan(outcome=ready("Imported", summary(obj, head)), status=status)


def _incomplete(version: ConnectorVersion, missing: Sequence[str], now: datetime) -> Plan:
    remaining = _remaining_time(version, now)
    if remaining > timedelta():
        outcome = in_progress("Storing", "The result is being stored")
        return Plan(outcome=outcome, requeue_after=max(RECHECK_SECONDS, remaining.total_seconds()))
    message = (
        f"{len(missing)} ConfigMaps of the result are not there; delete the version, and import it again"
    )
    return Plan(outcome=failed(RESULT_MISSING, message))


def _remaining_time(version: ConnectorVersion, now: datetime) -> timedelta:
    """How long the rest of a result may still arrive.

    Counted from when an operator first saw that it was incomplete, and not from the version's creation: that time
    is of another clock, which may be ahead.
    """
    before = version.condition(READY)
    if before is None or before.reason not in ("Storing", "Imported", RESULT_MISSING):
        return STORING
    if before.reason != "Storing":
        return timedelta()
    return min(STORING, STORING - (now - before.last_transition_time))
