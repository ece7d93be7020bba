"""System with a connectorRef: looks up the connector's version, and writes what it provides into the status."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from tieline_core.connectors.version_order import newest_first
from tieline_core.identity.ids import object_id
from tieline_core.kubernetes.resources import CONNECTOR_VERSIONS, CONNECTORS
from tieline_core.severity import Severity
from tieline_core.systems import Generated, generated
from tieline_operator.apply.conditions import ID_TAKEN
from tieline_operator.apply.plan import Object, Outcome, Plan, failed, in_progress
from tieline_operator.cache.cluster_cache import ClusterCache
from tieline_operator.cache.indexers import joined
from tieline_operator.reconcilers import systems
from tieline_operator.reconcilers.connector_imports import DescriptionImports
from tieline_operator.reconcilers.connector_results import RECHECK_SECONDS, missing_config_maps

_LATEST, _DEFAULT = "latest", "default"


class SystemReconciler:
    """Reconciles systems: their own part, and what a connector provides."""

    def __init__(self, imports: DescriptionImports) -> None:
        self._imports = imports

    async def reconcile(self, cache: ClusterCache, obj: Object, now: datetime) -> Plan:
        """Observes the System and plans."""
        plan = await systems.reconcile(cache, obj, now)
        reference = obj["spec"].get("connectorRef")
        if not reference or plan.outcome.reason == ID_TAKEN:
            return plan
        status = dict(plan.status)
        kept = (obj.get("status") or {}).get("fromConnector")
        if kept:  # it stays in use while the connector is not usable
            status["fromConnector"] = kept
        version, problem = _chosen(cache, obj["metadata"]["namespace"], reference)
        if version is None:
            return replace(plan, outcome=problem or plan.outcome, status=status)
        head = None if missing_config_maps(cache, version) else await self._imports.head(cache, version)
        if head is None:
            outcome = in_progress("WaitingForConnector", "The connector's version is still being stored")
            return replace(plan, outcome=outcome, status=status, requeue_after=RECHECK_SECONDS)
        connector = cache[CONNECTORS].get(obj["metadata"]["namespace"], reference["name"])
        own = connector["spec"].get("baseUrl") if connector else None
        found = generated(head, base_url=own or "")
        status["fromConnector"] = _from_connector(version, found)
        status = _with_findings(status, obj, found)
        if plan.outcome.status == "True" and not (obj["spec"].get("templateBaseUrl") or found.base_url):
            message = (
                f'Version "{version["spec"]["name"]}" of the connector names no base URL; '
                "set spec.templateBaseUrl"
            )
            return replace(plan, outcome=failed("BaseUrlMissing", message), status=status)
        return replace(plan, status=status)


def _chosen(
    cache: ClusterCache, namespace: str, reference: Mapping[str, str]
) -> tuple[Object | None, Outcome | None]:
    """The version that a reference names, or what is wrong with it."""
    name, requested = reference["name"], reference.get("version") or _DEFAULT
    connector = cache[CONNECTORS].get(namespace, name)
    if connector is None:
        message = (
            f'Connector "{name}" does not exist in namespace {namespace}; '
            "import or create it, or correct spec.connectorRef"
        )
        return None, failed("ConnectorNotFound", message)
    versions = newest_first(cache[CONNECTOR_VERSIONS].by_index("connector", joined(namespace, name)))
    if requested == _DEFAULT:
        status: Mapping[str, Any] = connector.get("status") or {}
        requested = connector["spec"].get("defaultVersion") or status.get("defaultVersion") or _LATEST
    found = versions[0] if versions and requested == _LATEST else _named(versions, requested)
    if found is None:
        known = ", ".join(version["spec"]["name"] for version in versions[:5]) or "none yet"
        message = (
            f'Connector "{name}" has no version "{requested}" (it has {known}); correct spec.connectorRef'
        )
        return None, failed("ConnectorVersionNotFound", message)
    return found, None


def _named(versions: Sequence[Object], requested: str) -> Object | None:
    return next((one for one in versions if requested in (one["spec"]["name"], object_id(one))), None)


def _from_connector(version: Object, found: Generated) -> dict[str, Any]:
    provided = {
        "version": version["spec"]["name"],
        "baseUrl": found.base_url,
        "domain": found.domain,
        "variables": found.variables,
        "authSchemeConfigs": found.auth_schemes,
    }
    return {name: value for name, value in provided.items() if value}


def _with_findings(status: dict[str, Any], obj: Object, found: Generated) -> dict[str, Any]:
    """The status, with a warning for each scheme of the connector that is neither usable nor replaced."""
    own = {scheme["id"] for scheme in obj["spec"].get("authSchemeConfigs") or ()}
    more = [
        {"id": key, "validationMessages": [{"text": text, "severity": str(Severity.WARNING)}]}
        for key, text in found.incomplete.items()
        if key not in own
    ]
    if not more:
        return status
    return {**status, "authSchemes": [*status.get("authSchemes", []), *more][:20]}
