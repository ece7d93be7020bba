"""Connector and ConnectorVersion: what can be said of them before descriptions are imported here."""

from datetime import datetime

from tieline_core.kube.resources import CONNECTOR_VERSIONS, CONNECTORS
from tieline_core.resources import Connector, ConnectorVersion
from tieline_operator.elders import id_taken
from tieline_operator.plans import Object, Plan, failed, in_progress, ready
from tieline_operator.world import World


async def reconcile(world: World, obj: Object, now: datetime) -> Plan:
    """Looks at the Connector and decides."""
    connector = Connector.read(obj)
    taken = id_taken(obj, world[CONNECTORS])
    if taken:
        return Plan(outcome=taken)
    if connector.spec.description:
        message = "Descriptions in ConfigMaps are not imported by this version; import by the REST API"
        return Plan(outcome=in_progress("ImportNotAvailable", message))
    return Plan(outcome=ready("Accepted", "The connector can have versions"))


async def reconcile_version(world: World, obj: Object, now: datetime) -> Plan:
    """Looks at the ConnectorVersion and decides."""
    version = ConnectorVersion.read(obj)
    taken = id_taken(obj, world[CONNECTOR_VERSIONS])
    if taken:
        return Plan(outcome=taken)
    name = version.spec.connector_ref.name
    if world[CONNECTORS].get(version.namespace, name) is None:
        message = f'Connector "{name}" does not exist in namespace {version.namespace}; create it'
        return Plan(outcome=failed("ConnectorNotFound", message))
    return Plan(outcome=ready("Accepted", f'The version belongs to the connector "{name}"'))
