"""OpenAPI 3.0, 3.1 and 3.2: actions from paths, triggers from webhooks and callbacks."""

from collections import deque
from collections.abc import Iterator
from dataclasses import replace

import orjson

from tieline_core.connectors.descriptions.definitions import Definitions
from tieline_core.connectors.descriptions.document import Document, Json, map_of, text_of
from tieline_core.connectors.descriptions.findings import escaped
from tieline_core.connectors.descriptions.operations import (
    CALLBACK,
    Names,
    Place,
    bodies,
    in_paths,
    operations_of,
    parameter,
    parameters_of,
    status_of,
    undeclared,
)

_SCHEMAS = ("schema", "itemSchema")


def operations(document: Document, definitions: Definitions) -> tuple[list[Json], list[Json]]:
    """Actions and triggers, in the order in which they stand in the description."""
    names = Names(document)
    declared: deque[Place] = deque()
    actions = [_operation(document, definitions, names, place, declared) for place in in_paths(document)]
    triggers: list[Json] = []
    seen: set[str] = set()
    # Each webhook, and each action's callback, is a trigger of its own, also where several share one by reference.
    # Callbacks of callbacks may lead back to themselves: they are taken once.
    nested: deque[Place] = deque()
    for place in (*_in_webhooks(document), *declared):
        shared = replace(place, is_shared=place.at in seen)
        seen.add(place.at)
        triggers.append(_operation(document, definitions, names, shared, nested))
    while nested:
        place = nested.popleft()
        if place.at not in seen:
            seen.add(place.at)
            triggers.append(_operation(document, definitions, names, place, nested))
    return actions, triggers


def _in_webhooks(document: Document) -> Iterator[Place]:
    for key in ("webhooks", "x-webhooks"):
        webhooks, at = document.part(key)
        for name, node in webhooks.items():
            owner = f"{at}/{escaped(name)}"
            item, item_at = document.mapping(node, owner)
            yield from operations_of(item, item_at, fallback=name[:128] or "webhook", owner=owner)


def _in_callbacks(document: Document, place: Place, identity: str, name_of_owner: str) -> Iterator[Place]:
    for name, node in map_of(place.node, "callbacks").items():
        callback, at = document.mapping(node, f"{place.at}/callbacks/{escaped(name)}")
        owner = f"{identity}/callbacks/{escaped(name)}"
        for expression, raw in callback.items():
            if expression.startswith("x-"):
                continue
            item, item_at = document.mapping(raw, f"{at}/{escaped(expression)}")
            document.spend(CALLBACK)
            yield from operations_of(item, item_at, fallback=f"{name_of_owner}_{name}"[:200], owner=owner)


def _operation(
    document: Document, definitions: Definitions, names: Names, place: Place, callbacks: deque[Place]
) -> Json:
    errors: list[Json] = []
    name = names.name(place, errors)
    # A path item may be shared by reference: the path keeps its operations apart, and its owner a trigger.
    identity = f"{place.at} {place.path}" if place.path else place.at
    if place.is_shared:
        identity = f"{place.at} {place.owner}"
    callbacks.extend(_in_callbacks(document, place, identity, name))
    result: Json = {
        "id": document.id_of(identity),
        "errors": errors,
        "type": "http",
        "name": name,
        "summary": text_of(place.node, "summary"),
        "description": text_of(place.node, "description"),
        "method": place.method.upper(),
    }
    if place.path:
        result["path"] = place.path
    parameters = [
        parameter(document, node, _schema(node), at, complete=bool(place.path))
        for node, at in parameters_of(document, place, errors)
    ]
    result["parameters"] = parameters + undeclared(place, parameters, errors)
    body = _request(document, definitions, place, name)
    if body is not None:
        result["requestBody"] = body
    result["responses"] = list(_responses(document, definitions, place, name))
    document.spend(len(orjson.dumps(result)))
    return result


def _schema(node: Json) -> object:
    """A parameter's schema stands in it, or in its one media type."""
    if "schema" in node:
        return node["schema"]
    for media in map_of(node, "content").values():
        return media.get("schema") if isinstance(media, dict) else None
    return None


def _request(document: Document, definitions: Definitions, place: Place, name: str) -> Json | None:
    if "requestBody" not in place.node:
        return None
    body, at = document.mapping(place.node["requestBody"], f"{place.at}/requestBody")
    content = map_of(body, "content")
    return {
        "required": body.get("required") is True,
        "definitions": bodies(definitions, content, f"{at}/content", name=f"{name} request", keys=_SCHEMAS),
    }


def _responses(document: Document, definitions: Definitions, place: Place, name: str) -> Iterator[Json]:
    for key, node in map_of(place.node, "responses").items():
        at = f"{place.at}/responses/{escaped(key)}"
        status = status_of(key, at, document)
        if status is None:
            continue
        response, where = document.mapping(node, at)
        content = map_of(response, "content")
        yield {
            "status": status,
            "id": document.id_of(at),
            "definitions": bodies(
                definitions, content, f"{where}/content", name=f"{name} response {key}", keys=_SCHEMAS
            ),
        }
