"""What Swagger 2.0 and OpenAPI 3 have in common in their operations."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson

from tieline_core.connectors.descriptions.definitions import Definitions
from tieline_core.connectors.descriptions.document import Document, list_of, map_of, text_of
from tieline_core.connectors.descriptions.findings import cut, escaped
from tieline_core.objects import Json
from tieline_core.severity import Severity

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace", "query")
_METHOD = re.compile(r"^[A-Za-z][A-Za-z0-9-]{0,31}$")
_VARIABLE = re.compile(r"\{([^{}/]{1,128})\}")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9]+")
_STATUS = re.compile(r"^[1-5](\d\d|XX|xx)$")
_MAX_NAME = 256
_MAX_CHOICES = 100
_MAX_ERRORS = 50
_MAX_HEADERS = 50
_MAX_EXAMPLE = 16 * 1024
# What type, default and completion of a parameter say, and what says nothing that can be checked.
_SAID = frozenset({"type", "default", "enum", "description", "title", "example", "examples", "deprecated"})
# What looking at one part of an operation counts for: parts that many operations share cost time.
_VISIT = 32
CALLBACK = 256
_SWAGGER_SCHEMA = (
    "type", "items", "enum", "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
    "minLength", "maxLength", "minItems", "maxItems", "uniqueItems",
)  # fmt: skip
_COLLECTIONS = {"ssv": "spaceDelimited", "pipes": "pipeDelimited"}


@dataclass(frozen=True, kw_only=True)
class OperationLocation:
    """An operation where it stands in the description."""

    node: Json
    at: str
    item: Json
    item_at: str
    method: str
    path: str = ""
    """The path, of actions only."""
    fallback: str = ""
    """The name for a trigger without an operationId."""
    owner: str = ""
    """Where the webhook or callback is declared that this operation belongs to, of triggers only."""
    is_shared: bool = False
    """Whether it is a trigger already, of another owner."""


@dataclass
class Names:
    """Gives every operation a name of its own, the same for the same description."""

    document: Document
    taken: set[str] = field(default_factory=set)
    _next: dict[str, int] = field(default_factory=dict)

    def name(self, location: OperationLocation, errors: list[Json]) -> str:
        """The operationId, or one that is made."""
        found = text_of(location.node, "operationId", _MAX_NAME).strip()
        if found and location.is_shared:
            found = _made(location)
            note = f'Several operations share this one by reference; here it is called "{cut(found, 100)}"'
            self._tell(errors, note, Severity.INFO, location)
        elif not found:
            found = _made(location)
            note = f'The operation has no operationId; it is called "{cut(found, 100)}"'
            self._tell(errors, note, Severity.INFO, location)
        if found in self.taken:
            number = self._next.get(found, 2)
            while f"{found}_{number}" in self.taken:
                number += 1
            self._next[found] = number + 1
            note = f'The operationId "{cut(found, 100)}" is there twice; this one is "{cut(found, 100)}_{number}"'
            self._tell(errors, note, Severity.WARNING, location)
            found = f"{found}_{number}"
        self.taken.add(found)
        return found

    def _tell(self, errors: list[Json], note: str, severity: Severity, location: OperationLocation) -> None:
        errors.append({"field": "operationId", "message": note, "severity": severity.value})
        add = self.document.findings.info if severity is Severity.INFO else self.document.findings.warning
        add(note, location.at)


def operations_of(
    item: Json, item_at: str, *, path: str = "", fallback: str = "", owner: str = ""
) -> Iterator[OperationLocation]:
    """The operations of a path item, also the additional ones of OpenAPI 3.2."""
    extra = map_of(item, "additionalOperations")
    pairs = [(method, item.get(method), f"{item_at}/{method}") for method in METHODS]
    pairs += [
        (method, node, f"{item_at}/additionalOperations/{escaped(method)}")
        for method, node in extra.items()
        if _METHOD.match(method)
    ]
    for method, node, at in pairs:
        if isinstance(node, dict):
            yield OperationLocation(
                node=node,
                at=at,
                item=item,
                item_at=item_at,
                method=method,
                path=path,
                fallback=fallback,
                owner=owner,
            )


def in_paths(document: Document) -> Iterator[OperationLocation]:
    """The operations of all paths, in the order in which they stand in the description."""
    paths, at = document.part("paths")
    for path, node in paths.items():
        if path.startswith("x-"):
            continue
        item, item_at = document.mapping(node, f"{at}/{escaped(path)}")
        yield from operations_of(item, item_at, path=path[:2048])


def parameters_of(
    document: Document, location: OperationLocation, errors: list[Json]
) -> list[tuple[Json, str]]:
    """The operation's parameters and those of its path item that it does not override.

    ``errors`` gets one for each that was left out.
    """
    found: dict[tuple[str, str], tuple[Json, str]] = {}
    for owner, at in ((location.item, location.item_at), (location.node, location.at)):
        parameters = list_of(owner, "parameters")
        document.spend(_VISIT * len(parameters))
        for index, node in enumerate(parameters):
            parameter, where = document.mapping(node, f"{at}/parameters/{index}")
            name, position = _parameter_name(parameter), text_of(parameter, "in")
            if name or (position == "body" and document.is_swagger):
                found[name, position] = ({**parameter, "name": name}, where)
                continue
            if parameter:
                note = f"Parameter {index + 1} has no name and was left out"
            else:
                note = f"Parameter {index + 1} is no object, or refers to none, and was left out"
            document.findings.warning(note, where)
            if len(errors) < _MAX_ERRORS:
                errors.append({"field": "parameters", "message": note, "severity": Severity.WARNING.value})
    return list(found.values())


def _parameter_name(parameter: Json) -> str:
    """The name; YAML reads ``name: 1`` and ``name: true`` as no string."""
    name = parameter.get("name")
    if isinstance(name, bool):
        return str(name).lower()
    return str(name) if isinstance(name, int | float) else text_of(parameter, "name")


def parameter(document: Document, node: Json, schema: Any, location: str, *, complete: bool) -> Json:
    """A parameter in the contract's form; ``schema`` says its type (in Swagger 2.0 it is the node)."""
    described, _ = document.mapping(schema, location)
    result: Json = {
        "name": text_of(node, "name", _MAX_NAME),
        "in": text_of(node, "in", 32),
        "required": node.get("required") is True,
        "type": _type(described),
    }
    if "default" in described:
        # A default that many share may be large.
        document.spend(len(orjson.dumps(described["default"])))
        result["default"] = described["default"]
    if complete:
        result |= _details(document, node, schema)
        choices = described.get("enum")
        items, _ = document.mapping(described.get("items"), location)
        if not isinstance(choices, list):
            choices = items.get("enum")
        result["completion"] = [
            str(choice)[:_MAX_NAME]
            for choice in (choices if isinstance(choices, list) else [])[:_MAX_CHOICES]
        ]
    return result


def _details(document: Document, node: Json, schema: Any) -> Json:
    """What checking and sending a parameter takes beyond its type and choices; nothing of what is usual."""
    found: Json = {}
    own = {key: node[key] for key in _SWAGGER_SCHEMA if key in node} if schema is node else schema
    if isinstance(own, dict) and not _is_plain(own):
        found["schema"] = own
    if node.get("in") not in ("query", "cookie"):
        return found
    collection = node.get("collectionFormat", "csv") if document.is_swagger else None
    style = node.get("style", _COLLECTIONS.get(str(collection), "form"))
    if isinstance(style, str) and style != "form":
        found["style"] = style[:32]
    explode = node.get("explode")
    if document.is_swagger and node.get("type") == "array":
        explode = collection == "multi"
    if isinstance(explode, bool):
        found["explode"] = explode
    return found


def _is_plain(schema: Json) -> bool:
    """Whether type and completion say all of it."""
    choices = schema.get("enum", [])
    return schema.keys() <= _SAID and (
        "enum" not in schema
        or (
            isinstance(choices, list)
            and len(choices) <= _MAX_CHOICES
            and all(isinstance(item, str) and len(item) <= _MAX_NAME for item in choices)
        )
    )


def undeclared(location: OperationLocation, parameters: list[Json], errors: list[Json]) -> list[Json]:
    """Variables of the path that no parameter declares: they are needed all the same."""
    declared = {item["name"] for item in parameters if item["in"] == "path"}
    missing = [name for name in dict.fromkeys(_VARIABLE.findall(location.path)) if name not in declared]
    for name in missing:
        note = f"The path holds {{{name}}}, which no parameter declares; it was added as a string"
        errors.append({"field": "parameters", "message": note, "severity": Severity.WARNING.value})
    return [
        {"name": name, "in": "path", "required": True, "type": "string", "completion": []} for name in missing
    ]


def described(
    document: Document, location: OperationLocation, identity: str, name: str, errors: list[Json]
) -> Json:
    """The fields that every operation has, in their order up to its method."""
    return {
        "id": document.id_of(identity),
        "errors": errors,
        "type": "http",
        "name": name,
        "summary": text_of(location.node, "summary"),
        "description": text_of(location.node, "description"),
        "method": location.method.upper(),
    }


def responses_of(
    document: Document, location: OperationLocation
) -> Iterator[tuple[str, int, str, Json, str]]:
    """The responses of an operation: key, status and place, and the object with its own place."""
    for key, node in map_of(location.node, "responses").items():
        at = f"{location.at}/responses/{escaped(key)}"
        status = status_of(key, at, document)
        if status is not None:
            yield key, status, at, *document.mapping(node, at)


def status_of(key: str, location: str, document: Document) -> int | None:
    """A response's status: ``default`` is 0, a range is its lowest."""
    if key == "default":
        return 0
    if not _STATUS.match(key):
        if not key.startswith("x-"):
            document.findings.warning(
                f'"{cut(key, 40)}" is no HTTP status; the response was left out', location
            )
        return None
    return int(key.upper().replace("X", "0"))


def bodies(
    definitions: Definitions, content: Json, at: str, *, name: str, keys: tuple[str, ...] = ("schema",)
) -> list[Json]:
    """How the media types of a body refer to their definitions."""
    found: dict[str, Json] = {}
    definitions.document.spend(_VISIT * len(content))
    for media_type, node in content.items():
        if not isinstance(node, dict):
            continue
        key = next((key for key in keys if key in node), "schema")
        reference = definitions.body(
            node.get(key, {}), f"{at}/{escaped(media_type)}/{key}", media_type=media_type, name=name
        )
        if reference:
            known = found.setdefault(reference["id"], {**reference, "mediaTypes": []})
            known["mediaTypes"].append(media_type[:_MAX_NAME])
            if "example" not in known and (given := _example(definitions.document, node)) is not None:
                known["example"] = given
    return list(found.values())


def _example(document: Document, media: Json) -> Any:
    """The first example of a media type; None where there is none, or it is large."""
    found = media.get("example")
    if found is None:
        first, _ = document.mapping(next(iter(map_of(media, "examples").values()), None), "")
        found = first.get("value")
    if found is None:
        return None
    size = len(orjson.dumps(found))
    # An example that many share may be large.
    document.spend(size)
    return found if size <= _MAX_EXAMPLE else None


def headers_of(response: Json) -> Json:
    """The names of a response's headers, where it has any."""
    names = [name[:_MAX_NAME] for name in list(map_of(response, "headers"))[:_MAX_HEADERS]]
    return {"headers": names} if names else {}


def is_range(key: str) -> Json:
    """What a response has that stands for a range of statuses, such as 4XX."""
    return {"range": True} if key.upper().endswith("XX") else {}


def _type(schema: Json) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((one for one in kind if one != "null"), "string")
    if isinstance(kind, str):
        return kind[:32]
    if "properties" in schema:
        return "object"
    return "array" if "items" in schema else "string"


def _made(location: OperationLocation) -> str:
    """``GET /pets/{id}`` becomes ``get_pets_id``."""
    if location.fallback:
        return f"{location.fallback}_{location.method}"[:_MAX_NAME]
    words = _NOT_IN_NAMES.sub("_", location.path).strip("_")
    return f"{location.method}_{words}".rstrip("_")[:_MAX_NAME]
