"""The schemas that a schema holds."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tieline.cli.connector_code.names import class_name

Json = dict[str, Any]
COMBINED = ("allOf", "anyOf", "oneOf")
_INNER = (("items", "Item"), ("additionalProperties", "Value"))


def parts_of(node: Mapping[str, Any]) -> Iterator[Json]:
    """The schemas in a schema, without those in them."""
    yield from node.get("properties", {}).values()
    yield from (node[key] for key, _ in _INNER if isinstance(node.get(key), Mapping))
    for key in COMBINED:
        yield from node.get(key, ())


def with_parts(node: Mapping[str, Any], change: Callable[[Json, str], Json], name: str = "") -> Json:
    """A schema with each schema in it changed; ``change`` gets it and a name for it, which begins with ``name``."""
    result = dict(node)
    if "properties" in node:
        result["properties"] = {
            key: change(one, f"{name}{class_name(key)}") for key, one in node["properties"].items()
        }
    for key, ending in _INNER:
        if isinstance(node.get(key), Mapping):
            result[key] = change(node[key], f"{name}{ending}")
    for key in COMBINED:
        if key in node:
            result[key] = [change(one, name) for one in node[key]]
    return result


def without_texts(schema: Any) -> Any:
    """A schema without descriptions: checks and fakes do not need them.

    >>> without_texts({"description": "An order.", "properties": {"description": {"description": "Of it."}}})
    {'properties': {'description': {}}}
    """
    if not isinstance(schema, Mapping):
        return schema
    result: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "properties" and isinstance(value, Mapping):
            result[key] = {name: without_texts(item) for name, item in value.items()}
        elif key in ("allOf", "anyOf", "oneOf") and isinstance(value, list):
            result[key] = [without_texts(item) for item in value]
        elif key in ("items", "additionalProperties"):
            result[key] = without_texts(value)
        elif key != "description":
            result[key] = value
    return result
