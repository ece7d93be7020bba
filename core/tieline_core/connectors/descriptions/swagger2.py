"""Swagger 2.0, read as it is: bodies are parameters, media types stand beside them."""

from collections.abc import Iterator

import orjson

from tieline_core.connectors.descriptions.definitions import Definitions
from tieline_core.connectors.descriptions.document import Document, list_of, map_of, text_of
from tieline_core.connectors.descriptions.operations import (
    Names,
    OperationLocation,
    described,
    headers_of,
    in_paths,
    parameter,
    parameters_of,
    responses_of,
    undeclared,
)
from tieline_core.objects import Json

_JSON = "application/json"
_FORM = "application/x-www-form-urlencoded"
_MULTIPART = "multipart/form-data"
_IN_PROPERTIES = ("type", "format", "items", "enum", "default", "description", "pattern")


def operations(document: Document, definitions: Definitions) -> list[Json]:
    """The actions, in the order in which they stand in the description."""
    names = Names(document)
    return [_operation(document, definitions, names, location) for location in in_paths(document)]


def _operation(
    document: Document, definitions: Definitions, names: Names, location: OperationLocation
) -> Json:
    errors: list[Json] = []
    name = names.name(location, errors)
    declared = parameters_of(document, location, errors)
    parameters = [
        parameter(document, node, node, at, complete=True)
        for node, at in declared
        if node.get("in") not in ("body", "formData")
    ]
    result: Json = {
        **described(document, location, f"{location.at} {location.path}", name, errors),
        "path": location.path,
        "parameters": parameters + undeclared(location, parameters, errors),
    }
    body = _request(document, definitions, location, name, declared)
    if body is not None:
        result["requestBody"] = body
    result["responses"] = list(_responses(document, definitions, location, name))
    document.spend(len(orjson.dumps(result)))
    return result


def _request(
    document: Document,
    definitions: Definitions,
    location: OperationLocation,
    name: str,
    declared: list[tuple[Json, str]],
) -> Json | None:
    accepted = _media_types(document, location, "consumes")
    fields = [node for node, _ in declared if node.get("in") == "formData"]
    found = []
    required = False
    for node, at in declared:
        if node.get("in") == "body":
            required = node.get("required") is True
            schema = node.get("schema", {})
            found += _bodies(definitions, schema, f"{at}/schema", accepted or [_JSON], f"{name} request")
    if fields:
        required = required or any(node.get("required") is True for node in fields)
        upload = any(node.get("type") == "file" for node in fields)
        forms = [kind for kind in accepted if kind in (_FORM, _MULTIPART)]
        kinds = forms or [_MULTIPART if upload else _FORM]
        found += _bodies(definitions, _form(fields), f"{location.at}/formData", kinds, f"{name} request")
    if not found and not any(node.get("in") == "body" for node, _ in declared):
        return None
    return {"required": required, "definitions": found}


def _form(fields: list[Json]) -> Json:
    """The form's fields as a JSON Schema."""
    properties = {
        text_of(node, "name", 256): {key: node[key] for key in _IN_PROPERTIES if key in node}
        for node in fields
    }
    required = [text_of(node, "name", 256) for node in fields if node.get("required") is True]
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def _responses(
    document: Document, definitions: Definitions, location: OperationLocation, name: str
) -> Iterator[Json]:
    produced = _media_types(document, location, "produces") or [_JSON]
    for key, status, at, response, where in responses_of(document, location):
        found: list[Json] = []
        if "schema" in response:
            called = f"{name} response {key}"
            found = _bodies(definitions, response["schema"], f"{where}/schema", produced, called)
        examples = map_of(response, "examples")
        if found and (example := examples.get(produced[0])) is not None:
            found[0]["example"] = example
        yield {"status": status, "id": document.id_of(at), **headers_of(response), "definitions": found}


def _bodies(
    definitions: Definitions, schema: object, at: str, media_types: list[str], name: str
) -> list[Json]:
    found = [definitions.body(schema, at, media_type=kind, name=name) for kind in media_types]
    return [{**reference, "mediaTypes": media_types} for reference in found[:1] if reference]


def _media_types(document: Document, location: OperationLocation, key: str) -> list[str]:
    own = location.node.get(key)
    types = own if isinstance(own, list) else list_of(document.root, key)
    return [kind for kind in types if isinstance(kind, str)]
