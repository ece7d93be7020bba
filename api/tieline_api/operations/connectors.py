"""Connectors: the import of descriptions, and what came of them in pages."""

import asyncio
from typing import Any

import orjson

from tieline_api import cursors, errors
from tieline_api.auth.permissions import Permission, permission
from tieline_api.conversion import connectors as convert
from tieline_api.engine.operation import ORGANISATION, Call, Operation, Reply
from tieline_api.models import connectors as rest
from tieline_api.models.base import PageQuery, SearchQuery
from tieline_api.operations import connector_examples as examples
from tieline_api.store.connector_results import version_exists
from tieline_api.store.orders import position
from tieline_core.connectors.findings import Finding, TooMuch, Unreadable
from tieline_core.connectors.importing import MAX_BYTES
from tieline_core.connectors.limits import Busy
from tieline_core.connectors.packing import Map, head_of
from tieline_core.connectors.storage import RESERVED, version_id
from tieline_core.ids import object_id, parse_id
from tieline_core.resources.fields import Severity

Obj = dict[str, Any]

IMPORT = "/api/connect/v1/o/{organisation_id}/connector/{connector_id}/http/import"
CONNECTOR = f"{ORGANISATION}/connectors/{{connector_id}}"
VERSION = f"{CONNECTOR}/versions/{{version}}"
_ALL = 1_000_000


class Refused(errors.ApiError):
    """400 or 413 for a description that cannot be imported, with ``messages`` beside the error."""

    def body(self) -> dict[str, Any]:
        """The error with the finding as a ValidationMessage."""
        return {**super().body(), "messages": [Finding(self.message, Severity.ERROR).message()]}


async def import_description(call: Call[None, rest.ImportMetadata]) -> Reply:
    """S20: imports an OpenAPI description as a new version of a connector.

    A connector that is not there yet is made, with the id of the path and the API's own name. The answer
    holds everything; the same can be had in pages below /connectors. Importing the same bytes again gives
    the same ids of definitions, actions and triggers.
    """
    platform, name = call.platform, call.body.version
    identifier = parse_id(call.path["connector_id"])
    if identifier is None:
        raise errors.invalid(
            "connector_id", "must be a ULID: the connector's, or a new one for a new connector"
        )
    if name.lower() in RESERVED:
        raise errors.invalid("version", f'"{name}" always means a version that is there; choose another name')
    world = platform.world
    known = world.find(world.connectors, call.namespace, identifier)
    if known is not None:
        _refuse_if_a_projects(known, "deploy the project to change it, or import into another connector")
    if world.find(world.connector_versions, call.namespace, version_id(identifier, name)):
        raise version_exists(name)
    assert call.upload is not None, "the operation's row says that there is an upload"  # noqa: S101
    try:
        maps = await platform.importer.run(call.upload)
    except Busy as busy:
        raise errors.too_many_requests(str(busy), retry_after=5) from None
    except TooMuch as refused:
        raise Refused(413, "too_large", str(refused)) from None
    except Unreadable as refused:
        raise Refused(400, "malformed", str(refused)) from None
    head = head_of(maps[0])
    connector = world.find(world.connectors, call.namespace, identifier)
    if connector is None:
        connector = await _created(call, identifier, head)
    version = await platform.connectors.store(connector, maps, name=name)
    return Reply(content=await _whole(call, connector, version, head, maps))


async def _created(call: Call[Any, Any], identifier: str, head: Obj) -> Obj:
    platform = call.platform
    spec = convert.new_connector_spec(head)
    return await platform.writer.create(
        platform.world.connectors, call.namespace, identifier, spec, chosen_by_client=True
    )


async def _whole(call: Call[Any, Any], connector: Obj, version: Obj, head: Obj, maps: list[Map]) -> bytes:
    """The import result, joined from the items as they are stored: no model is made of 20,000 actions."""
    shown = convert.connector_to_rest(
        connector, _versions(call, connector), organisation=call.organisation.id, shown=version, head=head
    )
    results = call.platform.connectors
    parts = [b'{"connector":', shown.model_dump_json(by_alias=True, exclude_none=True).encode()]
    known = dict(enumerate(maps))
    for name in ("definitions", "actions", "triggers"):
        lines = await asyncio.to_thread(results.lines_in, known, head, name)
        parts += [b',"', name.encode(), b'":[', b",".join(lines), b"]"]
    parts += [b',"messages":', orjson.dumps(head["messages"]), b"}"]
    return b"".join(parts)


async def list_connectors(call: Call[SearchQuery, None]) -> Reply:
    """A page of connectors, oldest first; each as its default version has it."""
    query, world = call.query, call.platform.world
    needle = (query.search or "").casefold()
    found = [obj for obj in world.connectors.list(call.namespace) if needle in obj["spec"]["name"].casefold()]
    page = cursors.cut(
        found, kind="connectors", position=position, first=query.first, after=query.after, before=query.before
    )
    items = await asyncio.gather(*(_connector(call, obj) for obj in page.items))
    return Reply(body=rest.ConnectorPage(total_count=page.total, items=items, next=page.next, prev=page.prev))


async def get_connector(call: Call[None, None]) -> Reply:
    """One connector, as its default version has it."""
    obj = _found(call)
    return Reply(body=await _connector(call, obj))


async def delete_connector(call: Call[None, None]) -> Reply:
    """Removes a connector with all its versions."""
    platform, connector = call.platform, _found(call)
    _refuse_if_a_projects(connector, "it goes with the project")
    await platform.writer.delete(platform.world.connectors, connector)
    return Reply()


async def list_versions(call: Call[PageQuery, None]) -> Reply:
    """A page of a connector's versions, newest first."""
    query, connector = call.query, _found(call)
    versions = _versions(call, connector)
    page = cursors.cut(
        versions,
        kind="connector-versions",
        position=convert.published,
        first=query.first,
        after=query.after,
        before=query.before,
        newest_first=True,
    )
    items = [convert.version_to_rest(version, connector, versions) for version in page.items]
    return Reply(
        body=rest.ConnectorVersionPage(total_count=page.total, items=items, next=page.next, prev=page.prev)
    )


async def get_version(call: Call[None, None]) -> Reply:
    """One version by id or name (or latest, or default), with its messages."""
    connector = _found(call)
    version = _version(call, connector)
    head = await call.platform.connectors.head(version)
    return Reply(body=convert.version_to_rest(version, connector, _versions(call, connector), head))


async def list_actions(call: Call[PageQuery, None]) -> Reply:
    """A page of a version's actions, in the order of the description."""
    return await _items(call, "actions")


async def list_triggers(call: Call[PageQuery, None]) -> Reply:
    """A page of a version's triggers, in the order of the description."""
    return await _items(call, "triggers")


async def list_definitions(call: Call[PageQuery, None]) -> Reply:
    """A page of a version's definitions, without their schemas."""
    return await _items(call, "definitions")


async def get_definition(call: Call[None, None]) -> Reply:
    """One definition with its schema, as the description has it."""
    results, version = call.platform.connectors, _version(call, _found(call))
    identifier = parse_id(call.path["definition_id"]) or ""
    head = await results.head(version)
    needle = b'{"id":"' + identifier.encode() + b'"'
    lines = await results.lines(version, head, "definitions", 0, _ALL)
    number = next((index for index, line in enumerate(lines) if line.startswith(needle)), None)
    if number is None or not identifier:
        raise errors.not_found("definition", call.path["definition_id"])
    (schema,) = await results.lines(version, head, "schemas", number, number + 1)
    return Reply(content=lines[number][:-1] + b',"schema":' + schema + b"}")


async def _items(call: Call[PageQuery, None], name: str) -> Reply:
    query, version = call.query, _version(call, _found(call))
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


def _found(call: Call[Any, Any]) -> Obj:
    world = call.platform.world
    return world.need(world.connectors, call.namespace, call.path["connector_id"])


def _versions(call: Call[Any, Any], connector: Obj) -> list[Obj]:
    world = call.platform.world
    name = connector["metadata"]["name"]
    return convert.newest_first(world.referring(world.connector_versions, "connector", call.namespace, name))


def _version(call: Call[Any, Any], connector: Obj) -> Obj:
    wanted, versions = call.path["version"], _versions(call, connector)
    found: Obj | None
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


async def _connector(call: Call[Any, Any], obj: Obj) -> rest.Connector:
    versions = _versions(call, obj)
    shown = convert.default_of(obj, versions)
    head = await call.platform.connectors.head(shown) if shown else None
    return convert.connector_to_rest(
        obj,
        versions,
        organisation=call.organisation.id,
        shown=shown,
        head=head,
        project=call.platform.world.referred(call.platform.world.projects, obj, "projectRef"),
    )


def _refuse_if_a_projects(connector: Obj, instead: str) -> None:
    """409 for what would change the connector that belongs to a project."""
    project = connector["spec"].get("projectRef")
    if project:
        raise errors.conflict(f'The connector belongs to the project "{project["name"]}": {instead}')


_READ = permission("get", "connectorversions")

OPERATIONS = (
    Operation(
        id="importConnector",
        method="POST",
        path=IMPORT,
        summary="Import an OpenAPI description as a connector's new version",
        tag="Connectors",
        handler=import_description,
        permissions=(Permission("create", "connectors"), Permission("create", "connectorversions")),
        key_as_bearer=True,
        body=rest.ImportMetadata,
        body_limit=MAX_BYTES,
        upload=True,
        success=201,
        response=rest.ImportResult,
        errors=(409,),
        example=examples.METADATA,
        response_example=examples.RESULT,
    ),
    Operation(
        id="listConnectors",
        method="GET",
        path=f"{ORGANISATION}/connectors",
        summary="List connectors",
        tag="Connectors",
        handler=list_connectors,
        permissions=permission("list", "connectors"),
        query=SearchQuery,
        response=rest.ConnectorPage,
        response_example=examples.page(examples.CONNECTOR),
    ),
    Operation(
        id="getConnector",
        method="GET",
        path=CONNECTOR,
        summary="Get a connector",
        tag="Connectors",
        handler=get_connector,
        permissions=permission("get", "connectors"),
        response=rest.Connector,
        response_example=examples.CONNECTOR,
    ),
    Operation(
        id="deleteConnector",
        method="DELETE",
        path=CONNECTOR,
        summary="Delete a connector with all its versions",
        tag="Connectors",
        handler=delete_connector,
        permissions=permission("delete", "connectors"),
        success=204,
        errors=(409,),
    ),
    Operation(
        id="listConnectorVersions",
        method="GET",
        path=f"{CONNECTOR}/versions",
        summary="List a connector's versions",
        tag="Connectors",
        handler=list_versions,
        permissions=permission("list", "connectorversions"),
        query=PageQuery,
        response=rest.ConnectorVersionPage,
        response_example=examples.page(examples.VERSION),
    ),
    Operation(
        id="getConnectorVersion",
        method="GET",
        path=VERSION,
        summary="Get a version by id or name, or the latest, or the default one",
        tag="Connectors",
        handler=get_version,
        permissions=_READ,
        response=rest.ConnectorVersion,
        response_example=examples.VERSION,
    ),
    Operation(
        id="listActions",
        method="GET",
        path=f"{VERSION}/actions",
        summary="List a version's actions",
        tag="Connectors",
        handler=list_actions,
        permissions=_READ,
        query=PageQuery,
        response=rest.ActionPage,
        response_example=examples.page(examples.ACTION),
    ),
    Operation(
        id="listTriggers",
        method="GET",
        path=f"{VERSION}/triggers",
        summary="List a version's triggers",
        tag="Connectors",
        handler=list_triggers,
        permissions=_READ,
        query=PageQuery,
        response=rest.TriggerPage,
        response_example=examples.page(examples.TRIGGER),
    ),
    Operation(
        id="listDefinitions",
        method="GET",
        path=f"{VERSION}/definitions",
        summary="List a version's definitions",
        tag="Connectors",
        handler=list_definitions,
        permissions=_READ,
        query=PageQuery,
        response=rest.DefinitionPage,
        response_example=examples.page(examples.DEFINITION),
    ),
    Operation(
        id="getDefinition",
        method="GET",
        path=f"{VERSION}/definitions/{{definition_id}}",
        summary="Get a definition with its schema",
        tag="Connectors",
        handler=get_definition,
        permissions=_READ,
        response=rest.DefinitionWithSchema,
        response_example=examples.DEFINITION_WITH_SCHEMA,
    ),
)
