"""Storing the results of imports, and the status of connectors' versions."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

from tieline_core.connectors import storage
from tieline_core.connectors.packing import Map
from tieline_core.connectors.version_order import newest_first
from tieline_core.kubernetes.resources import CONFIG_MAPS, CONNECTOR_VERSIONS
from tieline_operator.apply.plan import Creation, Object, Plan, in_progress, ready
from tieline_operator.cache.cluster_cache import ClusterCache
from tieline_operator.reconcilers.connector_imports import DescriptionImports

RECHECK_SECONDS = 0.5
BUSY_SECONDS = 30.0
STORING = timedelta(seconds=60)
"""A result that is incomplete after this time stays so."""
RESULT_MISSING = "ResultMissing"
"""The reason of a version that lacks a part of its result for good."""
MAX_MESSAGES = 64


def store(
    obj: Object,
    name: str,
    version: Object | None,
    maps: Sequence[Map],
    status: dict[str, Any],
    *,
    digest: str,
    siblings: Iterable[Object],
) -> Plan:
    """Creates the version first, then the ConfigMaps with the result, which need its uid as owner."""
    if version is None:
        manifest = storage.version_manifest(obj, name=name, digest=digest, maps=maps, siblings=siblings)
        creations = [Creation(resource=CONNECTOR_VERSIONS, desired=manifest)]
    else:
        creations = [
            Creation(resource=CONFIG_MAPS, desired=desired) for desired in storage.config_maps(version, maps)
        ]
    return Plan(
        outcome=in_progress("Storing", f'The result of version "{name}" is being stored'),
        status=status,
        creations=tuple(creations),
        requeue_after=RECHECK_SECONDS,
    )


async def imported(
    imports: DescriptionImports, cache: ClusterCache, version: Object, status: dict[str, Any]
) -> Plan:
    """The plan for a connector whose version is complete."""
    head = await imports.head(cache, version)
    if head is None:
        outcome = in_progress("Storing", "The result is being stored")
        return Plan(outcome=outcome, status=status, requeue_after=RECHECK_SECONDS)
    if head["messages"]:
        status = {**status, "messages": head["messages"][:MAX_MESSAGES]}
    return Plan(outcome=ready("Imported", summary(version, head)), status=status)


def missing_config_maps(cache: ClusterCache, version: Object) -> list[str]:
    """The ConfigMaps of a version that do not exist."""
    namespace = version["metadata"]["namespace"]
    names: Sequence[str] = version["spec"]["configMaps"]
    return [name for name in names if cache[CONFIG_MAPS].get(namespace, name) is None]


def latest_version_status(versions: Sequence[Object]) -> dict[str, Any]:
    """The part of a Connector's status that names its newest version."""
    return {"latestVersion": newest_first(versions)[0]["spec"]["name"]} if versions else {}


def summary(version: Object, head: dict[str, Any]) -> str:
    """The message of an imported version."""
    actions, triggers, definitions = (
        f"{head[what]} {what if head[what] != 1 else what.removesuffix('s')}"
        for what in ("actions", "triggers", "definitions")
    )
    return f'Version "{version["spec"]["name"]}" has {actions}, {triggers} and {definitions}'
