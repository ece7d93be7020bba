"""Tools that look: which connections there are, which operations they allow, and what one operation takes."""

import asyncio
from typing import Annotated, Any

import orjson
from pydantic import Field

from tieline_api.agents import reach
from tieline_api.agents.schemas import read_schemas
from tieline_api.agents.tools import MAX_TEXT, Arguments, Result, Tool
from tieline_api.auth.permissions import Permission
from tieline_api.cluster.cluster_cache import ClusterCache
from tieline_api.cluster.operation_index import words_of
from tieline_api.http.operation import AnyCall
from tieline_core.resources.objects import ConnectorVersionObject

ConnectionId = Annotated[str, Field(max_length=64)]
OperationName = Annotated[str, Field(min_length=1, max_length=256)]
_MOST_CONNECTIONS = 100
_SCHEMAS = 32 * 1024
"""Bytes of the schemas of an operation's parameters and body."""
_NOTE = 2048


class ListConnections(Arguments):
    """Nothing."""


class SearchOperations(Arguments):
    """What to look for."""

    search: Annotated[str, Field(max_length=200)] = ""
    """Words that stand in the operation's name, path or summary; all of them must."""
    connection: ConnectionId = ""
    """The id of a connection, for what can be called through that one alone."""
    limit: Annotated[int, Field(ge=1, le=50)] = 20
    """How many operations to return."""


class DescribeOperation(Arguments):
    """Which operation."""

    connection: ConnectionId
    """The id of the connection."""
    operation: OperationName
    """The operation's name."""


async def list_connections(call: AnyCall, _given: ListConnections) -> Result:
    """The connections that are open to agents."""
    found = reach.connections(call)
    shown = [_shown(call.platform.cluster, one) for one in found[:_MOST_CONNECTIONS]]
    return Result(content={"connections": shown, "total": len(found)})


async def search_operations(call: AnyCall, given: SearchOperations) -> Result:
    """The operations that can be called, each with the connections that allow it."""
    one = given.connection
    connections = [reach.require_connection(call, one)] if one else reach.connections(call)
    through: dict[str, tuple[ConnectorVersionObject, list[reach.OpenConnection]]] = {}
    for connection in connections:
        version = reach.version_of(call, connection.system)
        if version is not None:
            through.setdefault(version["metadata"]["uid"], (version, []))[1].append(connection)
    words, found, total = words_of(given.search), list[dict[str, Any]](), 0
    for version, group in through.values():
        index = await call.platform.operations.get(version)
        for row in index.rows(index.find(words)):
            ids = [one.id for one in group if one.allows(method=row["method"], name=row["name"])]
            if not ids:
                continue
            total += 1
            if len(found) < given.limit:
                fields = {name: row[name] for name in ("name", "method", "path", "summary")}
                found.append({**fields, "connections": ids[:_MOST_CONNECTIONS]})
        await asyncio.sleep(0)  # others must not wait for all
    return Result(content={"operations": found, "total": total})


async def describe_operation(call: AnyCall, given: DescribeOperation) -> Result:
    """One operation: its parameters, its body, and the schemas that they refer to."""
    connection = reach.require_connection(call, given.connection)
    action = await reach.require_operation(call, connection, given.operation)
    content = {
        name: action[name]
        for name in ("name", "method", "path", "summary", "description", "parameters", "requestBody")
        if action.get(name)
    }
    if len(orjson.dumps(content)) > MAX_TEXT - _SCHEMAS:
        content.pop("description", None)
        content["note"] = "The description is too long and was left out"
    schemas = await read_schemas(call, connection, content, room=_SCHEMAS)
    if schemas.found:
        content["schemas"] = schemas.found
    if schemas.left_out:
        content["schemasNote"] = f"Left out, because all are too long: {', '.join(schemas.left_out)[:_NOTE]}"
    return Result(content=content, noted=(("object", given.connection), ("operation", action["name"])))


def _shown(cluster: ClusterCache, connection: reach.OpenConnection) -> dict[str, Any]:
    spec, system = connection.obj["spec"], connection.system
    user = cluster.referred(cluster.users, connection.obj, "endUserRef")
    tools = spec["tools"]
    return {
        "id": connection.id,
        "name": spec["name"],
        "system": system["spec"]["name"] if system else None,
        **({"user": user["spec"].get("externalId")} if user else {}),
        "reads": bool(tools.get("read")),
        "operations": list(tools.get("operations") or ()),
    }


_LOOK = (Permission("list", "connections"), Permission("get", "connectorversions"))

TOOLS = (
    Tool(
        name="list_connections",
        description="List the connections to external systems that you may call operations through.",
        arguments=ListConnections,
        permissions=(Permission("list", "connections"),),
        run=list_connections,
    ),
    Tool(
        name="search_operations",
        description="Search the operations that you may call, by words of their name, path or summary.",
        arguments=SearchOperations,
        permissions=_LOOK,
        run=search_operations,
    ),
    Tool(
        name="describe_operation",
        description=(
            "Describe one operation: its parameters and its body, and under `schemas` what each `$ref` in them names. "
            "Do this before you call it."
        ),
        arguments=DescribeOperation,
        permissions=_LOOK,
        run=describe_operation,
    ),
)
