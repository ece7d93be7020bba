"""Tools that look: which connections there are, which operations they allow, and what one operation takes."""

import asyncio
from typing import Annotated, Any

import orjson
from pydantic import Field

from tieline_api.agents import reach
from tieline_api.agents.tools import MAX_TEXT, Arguments, Result, Tool
from tieline_api.auth.permissions import Permission
from tieline_api.cache.cluster_cache import ClusterCache
from tieline_api.http.operation import Call
from tieline_api.store.operation_index import words_of
from tieline_core.objects import Object

ConnectionId = Annotated[str, Field(max_length=64)]
OperationName = Annotated[str, Field(min_length=1, max_length=256)]
_MOST_CONNECTIONS = 100
_SCHEMAS = 32 * 1024
"""Bytes of the schemas of an operation's body."""
_ALL = 1_000_000


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


async def list_connections(call: Call[Any, Any], _given: ListConnections) -> Result:
    """The connections that are open to agents."""
    found = reach.connections(call)
    shown = [_shown(call.platform.world, one) for one in found[:_MOST_CONNECTIONS]]
    return Result(content={"connections": shown, "total": len(found)})


async def search_operations(call: Call[Any, Any], given: SearchOperations) -> Result:
    """The operations that can be called, each with the connections that allow it."""
    one = given.connection
    connections = [reach.need_connection(call, one)] if one else reach.connections(call)
    through: dict[str, tuple[Object, list[reach.OpenConnection]]] = {}
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


async def describe_operation(call: Call[Any, Any], given: DescribeOperation) -> Result:
    """One operation: its parameters, and the schemas of its body."""
    connection = reach.need_connection(call, given.connection)
    action = await reach.need_operation(call, connection, given.operation)
    content = {
        name: action[name]
        for name in ("name", "method", "path", "summary", "description", "parameters", "requestBody")
        if action.get(name)
    }
    if len(orjson.dumps(content)) > MAX_TEXT - _SCHEMAS:
        content.pop("description", None)
        content["note"] = "The description is too long and was left out"
    schemas = await _schemas(call, connection, action)
    if len(orjson.dumps(schemas)) < _SCHEMAS:
        content["bodySchemas"] = schemas
    else:
        content["bodyNote"] = "The schemas of the body are too long and were left out"
    return Result(content=content, noted=(("object", given.connection), ("operation", action["name"])))


async def _schemas(
    call: Call[Any, Any], connection: reach.OpenConnection, action: dict[str, Any]
) -> list[Any]:
    """The schemas of what the operation's body may be."""
    wanted = {item["id"] for item in (action.get("requestBody") or {}).get("definitions") or ()}
    version = reach.version_of(call, connection.system)
    if not wanted or version is None:
        return []
    results = call.platform.connectors
    head = await results.head(version)
    lines = await results.lines(version, head, "definitions", 0, _ALL)
    starts = tuple(b'{"id":"' + identifier.encode() + b'"' for identifier in wanted)
    numbers = [number for number, line in enumerate(lines) if line.startswith(starts)]
    found = [await results.lines(version, head, "schemas", number, number + 1) for number in numbers]
    return [orjson.loads(line) for (line,) in found]


def _shown(world: ClusterCache, connection: reach.OpenConnection) -> dict[str, Any]:
    spec, system = connection.obj["spec"], connection.system
    user = world.referred(world.users, connection.obj, "endUserRef")
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
        description="Describe one operation: its parameters and its body. Do this before you call it.",
        arguments=DescribeOperation,
        permissions=_LOOK,
        run=describe_operation,
    ),
)
