"""Systems with the connector's version that they refer to."""

from tieline_api import errors
from tieline_api.cluster.cluster_cache import ClusterCache
from tieline_api.conversion.systems import system_to_rest
from tieline_api.http.operation import AnyCall
from tieline_api.schemas.systems import ConnectorRef, System
from tieline_api.views.connector_lookup import versions_of
from tieline_api.views.status_overlay import system_with_findings
from tieline_core.resources.objects import SystemObject

_MOVING = ("latest", "default")


def system_shown(cluster: ClusterCache, obj: SystemObject, *, organisation: str) -> System:
    """The REST form of a System, with what it refers to looked up."""
    connector = cluster.referred(cluster.connectors, obj, "connectorRef")
    return system_to_rest(system_with_findings(cluster, obj), organisation=organisation, connector=connector)


def connector_reference(call: AnyCall, given: ConnectorRef | None) -> dict[str, str] | None:
    """The connectorRef of a spec; None for none. ApiError 422 where there is no such connector or version."""
    if given is None or given.id is None:
        if given is not None and given.version is not None:
            raise errors.invalid("connectorRef.id", "is needed: the id of the connector whose version it is")
        return None
    cluster = call.platform.cluster
    connector = cluster.find(cluster.connectors, call.namespace, given.id)
    if connector is None:
        raise errors.invalid("connectorRef.id", "is no connector of this organisation")
    reference = {"name": connector["metadata"]["name"]}
    if given.version is None:
        return reference
    known = [one["spec"]["name"] for one in versions_of(call, connector)]
    if given.version not in (*known, *_MOVING):
        shown = ", ".join([*known[:10], *_MOVING])
        raise errors.invalid("connectorRef.version", f"is no version of the connector; there are {shown}")
    return {**reference, "version": given.version}
