"""The JSON file that is deployed with the code: the operations that it uses, and the schemas that those use."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tieline.cli.connector_code.names import Names, class_name
from tieline.cli.connector_code.paging import pages_of
from tieline.cli.connector_code.reach import limited
from tieline.cli.connector_code.schemas import Json, Simplifier, steps_of
from tieline.cli.connector_code.sharing import shared
from tieline.connectors.description import FORMAT
from tieline.connectors.schemas import PREFIX, references
from tieline_protocol.openapi_parameters import is_json

RESERVED = frozenset(
    {
        "Any", "AsyncIterator", "CallOptions", "Context", "Iterator", "Literal", "NotRequired", "PageOptions",
        "SyncContext", "TypedDict", "Unpack", "bool", "bytes", "cast", "dict", "float", "int", "list", "object", "self",
        "str",
    }
)  # fmt: skip
"""Names that the written module has already."""
_METHOD = re.compile(r"[A-Z][A-Z-]{0,30}")
_MEDIA_TYPE = re.compile(r"[\w!#$&^.+*-]{1,100}/[\w!#$&^.+*-]{1,100}")
_LOCATIONS = ("path", "query", "header", "cookie")
_INSIDE = 2
"""How often a part of a definition may refer to parts itself: more are circles."""
_MAX_PARTS = 2_000
_TYPES = ("array", "boolean", "integer", "number", "object", "string")


def description_of(
    *,
    connector: Mapping[str, Any],
    version: Mapping[str, Any],
    actions: Sequence[Mapping[str, Any]],
    definitions: Iterable[Mapping[str, Any]],
    class_named: str,
) -> Json:
    """The file's content, from what REST has of a version: its actions that are wanted, and its definitions."""
    known = _Definitions(definitions, class_named)
    operations = {
        str(action["name"]): _operation(action, known)
        for action in sorted(actions, key=lambda one: str(one["name"]))
    }
    schemas = shared(operations, limited(operations, known.used(operations)), known.names)
    for operation in operations.values():
        if pages := operation.get("pages") or pages_of(operation, schemas):
            operation["pages"] = pages
    return {
        "format": FORMAT,
        "connector": {"id": connector["id"], "name": connector["name"], "version": version["name"]},
        "operations": operations,
        "schemas": schemas,
    }


class _Definitions:
    """The description's definitions by id and by place, each with a name that is a class's."""

    def __init__(self, definitions: Iterable[Mapping[str, Any]], class_named: str) -> None:
        self._named: dict[str, Mapping[str, Any]] = {}
        self._by_place: dict[str, str] = {}
        self._by_id: dict[str, str] = {}
        self._accepted: dict[str, list[str]] = {}
        self.names = names = Names({*RESERVED, class_named})
        for definition in definitions:
            name = names.free(class_name(str(definition["name"])))
            self._named[name] = definition
            self._by_place[str(definition["url"])] = name
            self._by_id[str(definition["id"])] = name
            self._accepted[str(definition["id"])] = list(definition.get("accept") or ())
        self.simplify = Simplifier(self._resolved)
        self._depth = self._parts = 0

    def body(self, given: Sequence[Mapping[str, Any]]) -> Json | None:
        """The body that code sends or gets, of those that a description allows: JSON where it can be."""
        bodies = [
            (media_type, item)
            for item in given
            for media_type in item.get("mediaTypes") or self._accepted.get(str(item["id"]), [])
            if _MEDIA_TYPE.fullmatch(media_type.partition(";")[0].strip())
        ]
        if not bodies:
            return None
        media_type, item = min(bodies, key=lambda pair: _rank(pair[0]))
        name = self._by_id.get(str(item["id"]))
        result: Json = {"mediaType": media_type.partition(";")[0].strip().lower()}
        if name is not None:
            result["schema"] = {"$ref": f"{PREFIX}{name}"}
        if item.get("example") is not None:
            result["example"] = item["example"]
        return result

    def used(self, operations: Mapping[str, Json]) -> Json:
        """The plain schemas that operations use, directly or not, by name."""
        found: Json = {}
        waiting = sorted(references(list(operations.values())), reverse=True)
        while waiting:
            name = waiting.pop()
            if name not in found and name in self._named:
                found[name] = self.simplify.schema(self._named[name].get("schema"))
                waiting += sorted(references(found[name]), reverse=True)
        return dict(sorted(found.items()))

    def _resolved(self, reference: str) -> Json:
        if not reference.startswith("#/"):
            return {}
        steps = steps_of(reference)
        pointer = "#/" + "/".join(step.replace("~", "~0").replace("/", "~1") for step in steps)
        name = self._by_place.get(pointer)
        return {"$ref": f"{PREFIX}{name}"} if name is not None else self._inside(steps)

    def _inside(self, steps: list[str]) -> Json:
        """A part of a definition, which has no name of its own."""
        for length in range(len(steps) - 1, 0, -1):
            pointer = "#/" + "/".join(step.replace("~", "~0").replace("/", "~1") for step in steps[:length])
            name = self._by_place.get(pointer)
            if name is None:
                continue
            node: Any = self._named[name].get("schema")
            for step in steps[length:]:
                if isinstance(node, Mapping):
                    node = node.get(step)
                elif isinstance(node, list) and step.isdecimal() and len(step) < 6 and int(step) < len(node):
                    node = node[int(step)]
                else:
                    return {}
            if self._depth >= _INSIDE or self._parts >= _MAX_PARTS:
                return {}
            self._depth += 1
            self._parts += 1
            try:
                return self.simplify.schema(node)
            finally:
                self._depth -= 1
        return {}


def _operation(action: Mapping[str, Any], known: _Definitions) -> Json:
    method = str(action["method"]).upper()
    result: Json = {
        "method": method if _METHOD.fullmatch(method) else "GET",
        "path": str(action["path"]),
    }
    if graphql := action.get("graphql"):
        result["document"] = str(graphql["document"])
        if pages := graphql.get("pages"):
            result["pages"] = {"kind": "graphql", "items": pages["items"], "parameter": pages["parameter"]}
    if text := str(action.get("summary") or action.get("description") or "")[:300]:
        result["summary"] = text
    parameters = [_parameter(item, known) for item in action["parameters"] if item["in"] in _LOCATIONS]
    if parameters:
        result["parameters"] = parameters
    request = action.get("requestBody")
    if request is not None and (body := known.body(request["definitions"])) is not None:
        result["body"] = {"required": bool(request["required"]), **body}
    answers = {
        _status(response): known.body(response["definitions"])
        for response in action["responses"]
        if response["status"] < 400
    }
    if (others := answers.get("default")) and any(status[0] == "2" for status in answers):
        # Its errors, whose schemas nothing checks.
        answers["default"] = {"mediaType": others["mediaType"]}
    if answers:
        result["answers"] = dict(sorted(answers.items()))
    if any(
        name.lower() == "link" for response in action["responses"] for name in response.get("headers") or ()
    ):
        result["links"] = True
    return result


def _parameter(item: Mapping[str, Any], known: _Definitions) -> Json:
    schema = known.simplify.schema(item["schema"]) if "schema" in item else {}
    if not schema and item["type"] in _TYPES:
        schema = {"type": item["type"]}
        choices = item.get("completion") or ()
        if item["type"] == "string" and 0 < len(choices) < 100:
            schema["enum"] = list(choices)
    default = item.get("default")
    if schema and isinstance(default, int | float) and not isinstance(default, bool):
        # Says where pages begin, and how many items they have.
        schema.setdefault("default", default)
    result: Json = {"name": str(item["name"]), "in": item["in"]}
    if item["required"]:
        result["required"] = True
    if schema:
        result["schema"] = schema
    if isinstance(item.get("style"), str):
        result["style"] = item["style"]
    if isinstance(item.get("explode"), bool):
        result["explode"] = item["explode"]
    return result


def _status(response: Mapping[str, Any]) -> str:
    status = int(response["status"])
    if status == 0:
        return "default"
    return f"{status // 100}XX" if response.get("range") else str(status)


def _rank(media_type: str) -> int:
    kind = media_type.partition(";")[0].strip().lower()
    if is_json(kind):
        return 0
    order = ("*/*", "application/x-www-form-urlencoded", "multipart/form-data")
    return order.index(kind) + 1 if kind in order else len(order) + 1
