"""What an agent reaches: the connections that are open to agents, and the operations that each allows."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from tieline_api import errors
from tieline_api.cluster.operation_index import words_of
from tieline_api.conversion.connectors import default_of
from tieline_api.http.operation import AnyCall
from tieline_api.views.connector_lookup import versions_of
from tieline_core.identity.ids import object_id
from tieline_core.resources.objects import ConnectionObject, ConnectorVersionObject, SystemObject

_READING = frozenset({"GET", "HEAD"})


def allows(tools: Mapping[str, Any], *, method: str, name: str) -> bool:
    """Whether a connection whose ``spec.tools`` are these lets agents call an operation.

    >>> allows({"read": True}, method="GET", name="listOrders")
    True
    >>> allows({"read": True}, method="POST", name="createOrder")
    False
    >>> allows({"operations": ["createOrder"]}, method="POST", name="createOrder")
    True
    """
    return bool(tools.get("read") and method in _READING) or name in (tools.get("operations") or ())


@dataclass(frozen=True, kw_only=True)
class OpenConnection:
    """A connection that agents may call something through."""

    obj: ConnectionObject
    system: SystemObject | None
    """Its system; None where that does not exist."""

    @property
    def id(self) -> str:
        """The connection's id."""
        return object_id(self.obj)

    @property
    def system_name(self) -> str:
        """The system's name, for people."""
        return self.system["spec"]["name"] if self.system else "The system"

    def allows(self, *, method: str, name: str) -> bool:
        """Whether agents may call this operation through it."""
        return allows(self.obj["spec"]["tools"], method=method, name=name)


def connections(call: AnyCall) -> list[OpenConnection]:
    """The connections that are open to agents and that the caller reaches, oldest first."""
    return list(_connections(call))


def require_connection(call: AnyCall, identifier: str) -> OpenConnection:
    """The connection of this id. ApiError 404 for one that is not there, not open, or not the caller's."""
    found = call.platform.cluster.find(call.platform.cluster.connections, call.namespace, identifier)
    opened = _opened(call, found) if found is not None else None
    if opened is None:
        raise errors.ApiError(
            404, "not_found", "There is no such connection that is open to agents: see list_connections"
        )
    return opened


def _connections(call: AnyCall) -> Iterator[OpenConnection]:
    for row in call.platform.cluster.ordered.connections.rows(call.namespace):
        opened = _opened(call, row.obj)
        if opened is not None:
            yield opened


def _opened(call: AnyCall, obj: ConnectionObject) -> OpenConnection | None:
    tools = obj["spec"].get("tools") or {}
    if not tools.get("read") and not tools.get("operations"):
        return None
    if call.reach is not None and not call.reach.has_connection(obj):
        return None
    cluster = call.platform.cluster
    return OpenConnection(obj=obj, system=cluster.referred(cluster.systems, obj, "systemRef"))


def version_of(call: AnyCall, system: SystemObject | None) -> ConnectorVersionObject | None:
    """The connector's version that describes a system; None where the system has no connector."""
    reference = system["spec"].get("connectorRef") if system else None
    connector = call.platform.cluster.connectors.get(call.namespace, reference["name"]) if reference else None
    if reference is None or connector is None:
        return None
    versions, wanted = versions_of(call, connector), reference.get("version") or "default"
    if wanted == "default":
        return default_of(connector, versions)
    if wanted == "latest":
        return versions[0] if versions else None
    return next((one for one in versions if one["spec"]["name"] == wanted), None)


async def require_operation(call: AnyCall, connection: OpenConnection, name: str) -> dict[str, Any]:
    """The operation of this name, as the connector has it. ApiError 404 for one that is not there or not allowed."""
    version = version_of(call, connection.system)
    number = None
    if version is not None:
        index = await call.platform.operations.get(version)
        numbers = index.find(words_of(name))
        rows = zip(numbers, index.rows(numbers), strict=True)
        number = next((number for number, row in rows if row["name"] == name), None)
    if version is not None and number is not None:
        head = await call.platform.connectors.head(version)
        (line,) = await call.platform.connectors.lines(version, head, "actions", number, number + 1)
        action: dict[str, Any] = orjson.loads(line)
        if connection.allows(method=action["method"].upper(), name=action["name"]):
            return action
    raise errors.ApiError(
        404, "not_found", "The connection allows agents no such operation: see search_operations"
    )
