"""OpenAPI 3.0, 3.1 and 3.2: actions from paths, triggers from webhooks and callbacks."""

from collections import deque
from collections.abc import Iterator
from dataclasses import replace

import orjson

from tieline_core.connectors.descriptions.definitions import Definitions
from tieline_core.connectors.descriptions.document import Document, map_of
from tieline_core.connectors.descriptions.findings import escaped
from tieline_core.connectors.descriptions.operations import (
    CALLBACK,
    Names,
    OperationLocation,
    bodies,
    described,
    headers_of,
    in_paths,
    is_range,
    operations_of,
    parameter,
    parameters_of,
    responses_of,
    undeclared,
)
from tieline_core.objects import Json

_SCHEMAS = ("schema", "itemSchema")


def operations(document: Document, definitions: Definitions) -> tuple[list[Json], list[Json]]:
    """Actions and triggers, in the order in which they stand in the description."""
    names = Names(document)
    declared: deque[OperationLocation] = deque()
    actions = [
        _operation(document, definitions, names, location, declared) for location in in_paths(document)
    ]
    triggers: list[Json] = []
    seen: set[str] = set()
    # Each webhook, and each action's callback, is a trigger of its own, also where several share one by reference.
    # Callbacks of callbacks may lead back to themselves: they are taken once.
    nested: deque[OperationLocation] = deque()
    for location in (*_in_webhooks(document), *declared):
        shared = replace(location, is_shared=location.at in seen)
        seen.add(location.at)
        triggers.append(_operation(document, definitions, names, shared, nested))
    while nested:
        location = nested.popleft()
        if location.at not in seen:
            seen.add(location.at)
            triggers.append(_operation(document, definitions, names, location, nested))
    return actions, triggers


def _in_webhooks(document: Document) -> Iterator[OperationLocation]:
    for key in ("webhooks", "x-webhooks"):
        webhooks, at = document.part(key)
        for name, node in webhooks.items():
            owner = f"{at}/{escaped(name)}"
            item, item_at = document.mapping(node, owner)
            yield from operations_of(item, item_at, fallback=name[:128] or "webhook", owner=owner)


def _in_callbacks(
    document: Document, location: OperationLocation, identity: str, name_of_owner: str
) -> Iterator[OperationLocation]:
    for name, node in map_of(location.node, "callbacks").items():
        callback, at = document.mapping(node, f"{location.at}/callbacks/{escaped(name)}")
        owner = f"{identity}/callbacks/{escaped(name)}"
        for expression, raw in callback.items():
            if expression.startswith("x-"):
                continue
            item, item_at = document.mapping(raw, f"{at}/{escaped(expression)}")
            document.spend(CALLBACK)
            yield from operations_of(item, item_at, fallback=f"{name_of_owner}_{name}"[:200], owner=owner)


def _operation(
    document: Document,
    definitions: Definitions,
    names: Names,
    location: OperationLocation,
    callbacks: deque[OperationLocation],
) -> Json:
    errors: list[Json] = []
    name = names.name(location, errors)
    # A path item may be shared by reference: the path keeps its operations apart, and its owner a trigger.
    identity = f"{location.at} {location.path}" if location.path else location.at
    if location.is_shared:
        identity = f"{location.at} {location.owner}"
    callbacks.extend(_in_callbacks(document, location, identity, name))
    result = described(document, location, identity, name, errors)
    if location.path:
        result["path"] = location.path
    parameters = [
        parameter(document, node, _schema(node), at, complete=bool(location.path))
        for node, at in parameters_of(document, location, errors)
    ]
    result["parameters"] = parameters + undeclared(location, parameters, errors)
    body = _request(document, definitions, location, name)
    if body is not None:
        result["requestBody"] = body
    result["responses"] = list(_responses(document, definitions, location, name))
    document.spend(len(orjson.dumps(result)))
    return result


def _schema(node: Json) -> object:
    """A parameter's schema stands in it, or in its one media type."""
    if "schema" in node:
        return node["schema"]
    for media in map_of(node, "content").values():
        return media.get("schema") if isinstance(media, dict) else None
    return None


def _request(
    document: Document, definitions: Definitions, location: OperationLocation, name: str
) -> Json | None:
    if "requestBody" not in location.node:
        return None
    body, at = document.mapping(location.node["requestBody"], f"{location.at}/requestBody")
    content = map_of(body, "content")
    return {
        "required": body.get("required") is True,
        "definitions": bodies(definitions, content, f"{at}/content", name=f"{name} request", keys=_SCHEMAS),
    }


def _responses(
    document: Document, definitions: Definitions, location: OperationLocation, name: str
) -> Iterator[Json]:
    for key, status, at, response, where in responses_of(document, location):
        content = map_of(response, "content")
        yield {
            "status": status,
            "id": document.id_of(at),
            **is_range(key),
            **headers_of(response),
            "definitions": bodies(
                definitions, content, f"{where}/content", name=f"{name} response {key}", keys=_SCHEMAS
            ),
        }
