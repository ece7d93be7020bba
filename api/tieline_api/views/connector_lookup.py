"""Look-ups that the operations on connectors share."""

from tieline_api import errors
from tieline_api.conversion import connectors as convert
from tieline_api.http.operation import ORGANISATION, AnyCall
from tieline_core.connectors.version_order import newest_first
from tieline_core.identity.ids import object_id, parse_id
from tieline_core.resources.objects import ConnectorObject, ConnectorVersionObject

CONNECTOR = f"{ORGANISATION}/connectors/{{connector_id}}"
VERSION = f"{CONNECTOR}/versions/{{version}}"


def require_connector(call: AnyCall) -> ConnectorObject:
    """The connector that the path names; ApiError 404."""
    cluster = call.platform.cluster
    return cluster.require(cluster.connectors, call.namespace, call.path["connector_id"])


def versions_of(call: AnyCall, connector: ConnectorObject) -> list[ConnectorVersionObject]:
    """Its versions, newest first."""
    cluster = call.platform.cluster
    name = connector["metadata"]["name"]
    return newest_first(cluster.referring(cluster.connector_versions, "connector", call.namespace, name))


def require_version(call: AnyCall, connector: ConnectorObject) -> ConnectorVersionObject:
    """The version that the path names by id or name, or latest, or default; ApiError 404."""
    wanted, versions = call.path["version"], versions_of(call, connector)
    found: ConnectorVersionObject | None
    if wanted == "latest":
        found = versions[0] if versions else None
    elif wanted == "default":
        found = convert.default_of(connector, versions)
    else:
        identifier = parse_id(wanted)
        found = next(
            (one for one in versions if one["spec"]["name"] == wanted or object_id(one) == identifier), None
        )
    if found is None:
        raise errors.not_found("version", wanted)
    return found


def refuse_project_connector(connector: ConnectorObject, instead: str) -> None:
    """409 for what would change the connector that belongs to a project."""
    project = connector["spec"].get("projectRef")
    if project:
        raise errors.conflict(f'The connector belongs to the project "{project["name"]}": {instead}')
