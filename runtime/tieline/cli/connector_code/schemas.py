"""Schemas of a description as JSON Schema 2020-12 with nothing but local references: all else is left out."""

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote

import jsonschema_rs
import orjson

Json = dict[str, Any]
_DEEPEST = 60
_MAX_ITEMS = 1_000
_MAX_EXAMPLE = 4096
_MAX_TEXT = 300
_TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_LARGEST = 2**53

Resolve = Callable[[str], Any]
"""What a reference of the description becomes: a reference to a schema that is written, or ``{}``."""


class Simplifier:
    """Makes schemas plain. Whatever a description holds, the result is valid, and fetches nothing."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve

    def schema(self, node: Any, depth: int = 0) -> Json:
        """The plain schema; ``{}``, which allows everything, for what is none."""
        if not isinstance(node, Mapping) or depth > _DEEPEST:
            return {}
        reference = node.get("$ref")
        if isinstance(reference, str):
            found: Json = self._resolve(reference)
            return _nullable(dict(found)) if node.get("nullable") is True else dict(found)
        result = _types(node)
        result |= _values(node)
        result |= _numbers(node)
        self._objects(node, result, depth)
        self._combinations(node, result, depth)
        result |= _notes(node)
        return _nullable(result) if node.get("nullable") is True else result

    def _objects(self, node: Mapping[str, Any], result: Json, depth: int) -> None:
        properties = node.get("properties")
        hidden: set[str] = set()
        if isinstance(properties, Mapping):
            items = [(str(name), item) for name, item in list(properties.items())[:_MAX_ITEMS]]
            result["properties"] = {name: self.schema(item, depth + 1) for name, item in items}
            hidden = {name for name, item in items if _is_one_way(item)}
        required = node.get("required")
        if isinstance(required, list):
            # One schema serves both ways: what only requests, or only answers have, is needed in neither.
            names = [name for name in required if isinstance(name, str) and name not in hidden]
            if names := list(dict.fromkeys(names))[:_MAX_ITEMS]:
                result["required"] = names
        more = node.get("additionalProperties")
        if isinstance(more, bool):
            result["additionalProperties"] = more
        elif isinstance(more, Mapping):
            result["additionalProperties"] = self.schema(more, depth + 1)
        if isinstance(node.get("items"), Mapping):
            result["items"] = self.schema(node["items"], depth + 1)

    def _combinations(self, node: Mapping[str, Any], result: Json, depth: int) -> None:
        for key in ("allOf", "anyOf", "oneOf"):
            members = node.get(key)
            if isinstance(members, list) and members:
                result[key] = [self.schema(member, depth + 1) for member in members[:_MAX_ITEMS]]
        self._discriminate(node, result)
        if result.get("additionalProperties") is False and "allOf" in result:
            # It would forbid what the members allow, which nobody who writes descriptions means.
            del result["additionalProperties"]

    def _discriminate(self, node: Mapping[str, Any], result: Json) -> None:
        """Says which value of the discriminator means which of the alternatives.

        Where that cannot be said, one of them is enough: loose alternatives fit values that are meant for others.
        """
        found, key = node.get("discriminator"), "oneOf" if "oneOf" in result else "anyOf"
        if not isinstance(found, Mapping) or key not in result:
            return
        given = [one.get("$ref") if isinstance(one, Mapping) else None for one in node[key][:_MAX_ITEMS]]
        name, mapping = found.get("propertyName"), found.get("mapping")
        values = {
            str(value): target if target.startswith("#") else f"#/components/schemas/{target}"
            for value, target in (mapping if isinstance(mapping, Mapping) else {}).items()
            if isinstance(target, str)
        }
        for one in given:  # the name of a schema stands for it, too
            if isinstance(one, str) and one.startswith("#/"):
                values.setdefault(steps_of(one)[-1], one)
        chosen = {value: self._resolve(target) for value, target in values.items()}
        chosen = {value: one for value, one in chosen.items() if one in result[key]}
        if isinstance(name, str) and all(one in chosen.values() for one in result[key]):
            targets = {value: one["$ref"] for value, one in chosen.items() if "$ref" in one}
            if len(targets) == len(chosen):
                result["discriminator"] = {"propertyName": name, "mapping": targets}
        elif key == "oneOf" and "anyOf" not in result:
            result["anyOf"] = result.pop("oneOf")


def steps_of(reference: str) -> list[str]:
    """The steps of a local reference."""
    return [unquote(step).replace("~1", "/").replace("~0", "~") for step in reference[2:].split("/")]


def _is_one_way(schema: Any) -> bool:
    return isinstance(schema, Mapping) and True in (schema.get("readOnly"), schema.get("writeOnly"))


def _types(node: Mapping[str, Any]) -> Json:
    kind = node.get("type")
    if isinstance(kind, str):
        return {"type": kind} if kind in _TYPES else {}
    kinds = (
        [item for item in kind if isinstance(item, str) and item in _TYPES] if isinstance(kind, list) else []
    )
    kinds = list(dict.fromkeys(kinds))
    return {"type": kinds if len(kinds) > 1 else kinds[0]} if kinds else {}


def _values(node: Mapping[str, Any]) -> Json:
    result: Json = {}
    choices = node.get("enum")
    if isinstance(choices, list) and 0 < len(choices) <= _MAX_ITEMS and _is_json(choices):
        result["enum"] = choices
    if "const" in node and _is_json(node["const"]):
        result["const"] = node["const"]
    pattern = node.get("pattern")
    if isinstance(pattern, str) and _is_pattern(pattern):
        result["pattern"] = pattern
    if isinstance(node.get("format"), str) and len(node["format"]) <= 64:
        result["format"] = node["format"]
    if node.get("uniqueItems") is True:
        result["uniqueItems"] = True
    return result


def _numbers(node: Mapping[str, Any]) -> Json:
    result: Json = {key: node[key] for key in _NUMBERS if _is_number(node.get(key))}
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if node.get(exclusive) is True and bound in result:
            result[exclusive] = result.pop(bound)
    if result.get("multipleOf", 1) <= 0:
        del result["multipleOf"]
    counts = {key: node[key] for key in _COUNTS if _is_number(node.get(key))}
    return result | {key: value for key, value in counts.items() if value == int(value) and value >= 0}


def _notes(node: Mapping[str, Any]) -> Json:
    """What people and fakes have of it: checking does not."""
    result: Json = {}
    text = node.get("description")
    if isinstance(text, str) and text:
        result["description"] = text[:_MAX_TEXT]
    examples = node.get("examples")
    example = examples[0] if isinstance(examples, list) and examples else node.get("example")
    if example is not None and _is_json(example):
        result["examples"] = [example]
    if node.get("default") is not None and _is_json(node["default"]):
        result["default"] = node["default"]
    for key in ("readOnly", "writeOnly"):
        if node.get(key) is True:
            result[key] = True
    return result


def _nullable(schema: Json) -> Json:
    if not schema:
        return schema
    return {"anyOf": [schema, {"type": "null"}]}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST


def _is_json(value: Any) -> bool:
    try:
        return len(orjson.dumps(value)) <= _MAX_EXAMPLE * 8
    except TypeError:  # nested too deep, or a number of more than 64 bits, or half of a letter
        return False


def _is_pattern(pattern: str) -> bool:
    try:
        jsonschema_rs.validator_for(
            {"pattern": pattern}, offline=True, pattern_options=jsonschema_rs.RegexOptions()
        )
    except (jsonschema_rs.ValidationError, ValueError):
        return False
    return True
