"""The import of descriptions: a new version of a connector."""

import asyncio
from typing import Any

import orjson

from tieline_api import errors
from tieline_api.auth.permissions import Permission
from tieline_api.body_limits import BodyKind
from tieline_api.cluster.connector_results import version_exists
from tieline_api.cluster.writer import IdTakenError
from tieline_api.conversion import connectors as convert
from tieline_api.http.operation import AnyCall, Call, Operations, Reply
from tieline_api.schemas import connectors as rest
from tieline_api.views.connector_lookup import refuse_project_connector, versions_of
from tieline_core.connectors.descriptions.findings import (
    DescriptionTooLarge,
    ImportFinding,
    UnreadableDescription,
)
from tieline_core.connectors.import_process import ImportQueueFull
from tieline_core.connectors.packing import Map, array_of, head_of
from tieline_core.connectors.storage import RESERVED, version_id
from tieline_core.identity.ids import parse_id
from tieline_core.objects import Object
from tieline_core.resources.objects import ConnectorObject, ConnectorVersionObject
from tieline_core.severity import Severity

IMPORT = "/api/connect/v1/o/{organisation_id}/connector/{connector_id}/http/import"

OPERATIONS = Operations("Connectors")


class ImportRefusedError(errors.ApiError):
    """400 or 413 for a description that cannot be imported, with ``messages`` beside the error."""

    def body(self) -> dict[str, Any]:
        """The error with the finding as a ValidationMessage."""
        return {**super().body(), "messages": [ImportFinding(self.message, Severity.ERROR).message()]}


@OPERATIONS.add(
    "POST",
    IMPORT,
    id="importConnector",
    summary="Import an API description as a connector's new version",
    permissions=(Permission("create", "connectors"), Permission("create", "connectorversions")),
    key_as_bearer=True,
    size=BodyKind.UPLOAD,
    upload=True,
    success=201,
    errors=(409,),
)
async def import_description(call: Call[None, rest.ImportMetadata]) -> Reply[rest.ImportResult]:
    """Imports an OpenAPI description, or a GraphQL schema, as a new version of a connector.

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
    cluster = platform.cluster
    known = cluster.find(cluster.connectors, call.namespace, identifier)
    if known is not None:
        refuse_project_connector(known, "deploy the project to change it, or import into another connector")
    if cluster.find(cluster.connector_versions, call.namespace, version_id(identifier, name)):
        raise version_exists(name)
    try:
        maps = await platform.importer.run(call.file, owner=call.organisation.id, format=call.body.format)
    except ImportQueueFull as busy:
        raise errors.too_many_requests(str(busy), retry_after=5) from None
    except DescriptionTooLarge as refused:
        raise ImportRefusedError(413, "too_large", str(refused)) from None
    except UnreadableDescription as refused:
        raise ImportRefusedError(400, "malformed", str(refused)) from None
    head = head_of(maps[0])
    connector = cluster.find(cluster.connectors, call.namespace, identifier)
    if connector is None:
        connector = await _created(call, identifier, head)
    siblings = versions_of(call, connector)
    version = await platform.connectors.store(connector, maps, name=name, siblings=siblings)
    return Reply(parts=await _whole(call, connector, version, head, maps))


async def _created(call: Call[None, rest.ImportMetadata], identifier: str, head: Object) -> ConnectorObject:
    platform = call.platform
    spec = convert.new_connector_spec(head, call.body.name)
    try:
        return await platform.writer.create(
            platform.cluster.connectors, call.namespace, identifier, spec, chosen_by_client=True
        )
    except IdTakenError:
        # Another first import made it in the same instant: this one adds its version.
        found = await platform.connectors.connector(call.namespace, identifier)
        if found is None:
            raise
        return found


async def _whole(
    call: AnyCall, connector: ConnectorObject, version: ConnectorVersionObject, head: Object, maps: list[Map]
) -> list[bytes]:
    """The import result, put together from the items as they are stored: no model is made of 20,000 actions."""
    shown = convert.connector_to_rest(
        connector, versions_of(call, connector), organisation=call.organisation.id, shown=version, head=head
    )
    parts = [b'{"connector":', shown.model_dump_json(by_alias=True, exclude_none=True).encode()]

    def extended() -> list[bytes]:
        for name in ("definitions", "actions", "triggers"):
            parts.extend((b',"', name.encode(), b'":', *array_of(maps, head, name)))
        parts.extend((b',"messages":', orjson.dumps(head["messages"]), b"}"))
        return parts

    return await asyncio.to_thread(extended)
