"""Connectors and their versions, with what imports found in pages."""

import asyncio
from typing import Any

from tieline_api import cursors, errors
from tieline_api.auth.permissions import permission
from tieline_api.cluster.sorted_lists import position
from tieline_api.conversion import connectors as convert
from tieline_api.http.operation import ORGANISATION, AnyCall, Call, Operations, Reply
from tieline_api.schemas import connectors as rest
from tieline_api.schemas.base import PageQuery, SearchQuery
from tieline_api.views.connector_lookup import (
    CONNECTOR,
    VERSION,
    refuse_project_connector,
    require_connector,
    require_version,
    versions_of,
)
from tieline_core.connectors import version_order
from tieline_core.identity.ids import object_id, parse_id
from tieline_core.resources.objects import ConnectorObject

_ALL = 1_000_000
_READ = permission("get", "connectorversions")

OPERATIONS = Operations("Connectors")


@OPERATIONS.add(
    "GET",
    f"{ORGANISATION}/connectors",
    id="listConnectors",
    summary="List connectors",
    permissions=permission("list", "connectors"),
)
async def list_connectors(call: Call[SearchQuery, None]) -> Reply[rest.ConnectorPage]:
    """A page of connectors, oldest first; each as its default version has it."""
    query, cluster = call.query, call.platform.cluster
    needle = (query.search or "").casefold()
    found = [
        obj for obj in cluster.connectors.list(call.namespace) if needle in obj["spec"]["name"].casefold()
    ]
    page = cursors.cut(found, kind="connectors", position=position, **query.window)
    items = await asyncio.gather(*(_connector(call, obj) for obj in page.items))
    return Reply(body=rest.ConnectorPage(total_count=page.total, items=items, next=page.next, prev=page.prev))


@OPERATIONS.add(
    "GET",
    CONNECTOR,
    id="getConnector",
    summary="Get a connector",
    permissions=permission("get", "connectors"),
)
async def get_connector(call: Call[None, None]) -> Reply[rest.Connector]:
    """One connector, as its default version has it."""
    obj = require_connector(call)
    return Reply(body=await _connector(call, obj))


@OPERATIONS.add(
    "DELETE",
    CONNECTOR,
    id="deleteConnector",
    summary="Delete a connector with all its versions",
    permissions=permission("delete", "connectors"),
    success=204,
    errors=(409,),
)
async def delete_connector(call: Call[None, None]) -> Reply[None]:
    """Removes a connector with all its versions."""
    platform, connector = call.platform, require_connector(call)
    refuse_project_connector(connector, "it goes with the project")
    await platform.writer.delete(platform.cluster.connectors, connector)
    return Reply()


@OPERATIONS.add(
    "GET",
    f"{CONNECTOR}/versions",
    id="listConnectorVersions",
    summary="List a connector's versions",
    permissions=permission("list", "connectorversions"),
)
async def list_versions(call: Call[PageQuery, None]) -> Reply[rest.ConnectorVersionPage]:
    """A page of a connector's versions, newest first."""
    connector = require_connector(call)
    versions, place = versions_of(call, connector), version_order.position
    page = cursors.cut(
        versions, kind="connector-versions", position=place, newest_first=True, **call.query.window
    )
    items = [convert.version_to_rest(version, connector, versions) for version in page.items]
    return Reply(
        body=rest.ConnectorVersionPage(total_count=page.total, items=items, next=page.next, prev=page.prev)
    )


@OPERATIONS.add(
    "GET",
    VERSION,
    id="getConnectorVersion",
    summary="Get a version by id or name, or the latest, or the default one",
    permissions=_READ,
)
async def get_version(call: Call[None, None]) -> Reply[rest.ConnectorVersion]:
    """One version by id or name (or latest, or default), with its messages."""
    connector = require_connector(call)
    version = require_version(call, connector)
    head = await call.platform.connectors.head(version)
    return Reply(body=convert.version_to_rest(version, connector, versions_of(call, connector), head))


@OPERATIONS.add(
    "GET", f"{VERSION}/actions", id="listActions", summary="List a version's actions", permissions=_READ
)
async def list_actions(call: Call[PageQuery, None]) -> Reply[rest.ActionPage]:
    """A page of a version's actions, in the order of the description."""
    return await _items(call, "actions")


@OPERATIONS.add(
    "GET", f"{VERSION}/triggers", id="listTriggers", summary="List a version's triggers", permissions=_READ
)
async def list_triggers(call: Call[PageQuery, None]) -> Reply[rest.TriggerPage]:
    """A page of a version's triggers, in the order of the description."""
    return await _items(call, "triggers")


@OPERATIONS.add(
    "GET",
    f"{VERSION}/definitions",
    id="listDefinitions",
    summary="List a version's definitions",
    permissions=_READ,
)
async def list_definitions(call: Call[rest.DefinitionsQuery, None]) -> Reply[rest.DefinitionPage]:
    """A page of a version's definitions; with ``schemas=true`` each with its JSON Schema."""
    return await _items(call, "definitions", schemas=call.query.schemas)


@OPERATIONS.add(
    "GET",
    f"{VERSION}/definitions/{{definition_id}}",
    id="getDefinition",
    summary="Get a definition with its schema",
    permissions=_READ,
)
async def get_definition(call: Call[None, None]) -> Reply[rest.DefinitionWithSchema]:
    """One definition with its schema, as the description has it."""
    results, version = call.platform.connectors, require_version(call, require_connector(call))
    identifier = parse_id(call.path["definition_id"]) or ""
    head = await results.head(version)
    needle = b'{"id":"' + identifier.encode() + b'"'
    lines = await results.lines(version, head, "definitions", 0, _ALL)
    number = next((index for index, line in enumerate(lines) if line.startswith(needle)), None)
    if number is None or not identifier:
        raise errors.not_found("definition", call.path["definition_id"])
    (schema,) = await results.lines(version, head, "schemas", number, number + 1)
    return Reply(content=_with_schema(lines[number], schema))


def _with_schema(definition: bytes, schema: bytes) -> bytes:
    return definition[:-1] + b',"schema":' + schema + b"}"


async def _items(call: Call[PageQuery, None], name: str, *, schemas: bool = False) -> Reply[Any]:
    query, version = call.query, require_version(call, require_connector(call))
    head = await call.platform.connectors.head(version)
    total, same = int(head[name]), object_id(version)
    start, end = 0, total
    if query.after:
        start = _number(name, query.after, same) + 1
    if query.before:
        end = min(total, _number(name, query.before, same))
    if query.before and not query.after:
        start = max(start, end - query.first)
    end = max(start, min(end, start + query.first))
    lines = await call.platform.connectors.lines(version, head, name, start, end)
    if schemas:
        found = await call.platform.connectors.lines(version, head, "schemas", start, end)
        lines = [_with_schema(*pair) for pair in zip(lines, found, strict=True)]
    parts = [b'{"totalCount":%d,"items":[' % total, b",".join(lines), b"]"]
    if lines and end < total:
        parts.append(b',"next":"%b"' % _cursor(name, end - 1, same))
    if lines and start > 0:
        parts.append(b',"prev":"%b"' % _cursor(name, start, same))
    return Reply(content=b"".join([*parts, b"}"]))


def _cursor(name: str, number: int, version: str) -> bytes:
    return cursors.encode(name, (str(number), version)).encode()


def _number(name: str, cursor: str, version: str) -> int:
    """The item that a cursor stands for; 400 for a cursor of another list or version."""
    number, found = cursors.decode(name, cursor)
    if found != version or not number.isdecimal() or len(number) > 9:
        raise errors.malformed("The cursor is none of this version: begin again without it")
    return int(number)


async def _connector(call: AnyCall, obj: ConnectorObject) -> rest.Connector:
    versions = versions_of(call, obj)
    shown = convert.default_of(obj, versions)
    head = await call.platform.connectors.head(shown) if shown else None
    return convert.connector_to_rest(
        obj,
        versions,
        organisation=call.organisation.id,
        shown=shown,
        head=head,
        project=call.platform.cluster.referred(call.platform.cluster.projects, obj, "projectRef"),
    )
