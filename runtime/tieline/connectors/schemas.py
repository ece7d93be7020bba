"""Checks of values against the JSON Schemas of a description. What is found names the field, and never its value."""

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

Schema = Mapping[str, Any]
PREFIX = "#/$defs/"
MAX_FINDINGS = 5
"""Findings that one check lists."""
_MASK = "it"
_LONGEST = 300
_VALUES = frozenset({"const", "default", "enum", "examples"})
_PLAIN = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*")


class Schemas:
    """The named schemas of a description, and checks with them."""

    def __init__(self, named: Mapping[str, Schema]) -> None:
        self.named = named
        self._validators: dict[int, tuple[Schema, Any]] = {}

    def findings(self, schema: Schema, value: Any, at: str) -> list[str]:
        """What is wrong with ``value`` at a place such as ``body``, the first few: ``body.lines[0].sku: …``."""
        if not schema:
            return []
        validator = self._validator(schema)
        if validator is None or validator.is_valid(value):
            return []
        errors = islice(validator.iter_errors(value), MAX_FINDINGS)
        return [f"{at}{_path(error.instance_path)}: {_text(error)}" for error in errors]

    def resolved(self, schema: Any) -> Schema:
        """A schema with its reference followed; ``{}`` where that leads nowhere or in circles."""
        seen: set[str] = set()
        while isinstance(schema, Mapping) and isinstance(reference := schema.get("$ref"), str):
            if reference in seen:
                return {}
            seen.add(reference)
            schema = self.named.get(reference.removeprefix(PREFIX), {})
        return schema if isinstance(schema, Mapping) else {}

    def _validator(self, schema: Schema) -> Any:
        # With the schema itself: what is deleted gives its identity to the next one.
        key = id(schema)
        if key not in self._validators:
            self._validators[key] = (schema, self._build(schema))
        return self._validators[key][1]

    def _build(self, schema: Schema) -> Any:
        # Pods load no more than they need: most never call an operation.
        import jsonschema_rs  # noqa: PLC0415

        used = {name: discriminated(self.named[name]) for name in self._used(schema)}
        whole = {**discriminated(schema), "$defs": used}
        try:
            return jsonschema_rs.validator_for(
                whole, mask=_MASK, offline=True, pattern_options=jsonschema_rs.RegexOptions()
            )
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError):
            # Nothing can be checked with it. `tieline connectors add` writes no such schema.
            return None

    def _used(self, schema: Schema) -> list[str]:
        """The names of the schemas that it needs, directly or not."""
        found: dict[str, None] = {}
        waiting = list(references(schema))
        while waiting:
            name = waiting.pop()
            if name in self.named and name not in found:
                found[name] = None
                waiting += references(self.named[name])
        return list(found)


def discriminated(schema: Any) -> Any:
    """The schema with the alternative that the discriminator means, in place of all of them.

    Alternatives are often so loose that a value fits several of them, of which ``oneOf`` would allow one. A value
    without the discriminator may be any of them.
    """
    if isinstance(schema, list):
        return [discriminated(one) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    plain = {key: _part(key, value) for key, value in schema.items()}
    found = schema.get("discriminator")
    if not isinstance(found, Mapping) or not isinstance(mapping := found.get("mapping"), Mapping):
        return plain
    name = found.get("propertyName")
    members = [*plain.pop("oneOf", ()), *plain.pop("anyOf", ())]
    meant = [
        {"if": {"properties": {name: {"const": value}}}, "then": {"$ref": reference}}
        for value, reference in mapping.items()
    ]
    choice = {
        "if": {"required": [name]},
        "then": {"properties": {name: {"enum": list(mapping)}}, "allOf": meant},
        "else": {"anyOf": members},
    }
    return {**plain, "allOf": [*plain.get("allOf", ()), choice]}


def _part(keyword: str, value: Any) -> Any:
    if keyword == "properties" and isinstance(value, Mapping):
        return {name: discriminated(one) for name, one in value.items()}
    return value if keyword in _VALUES else discriminated(value)


def references(schema: Any) -> Iterator[str]:
    """The names of the schemas that a schema refers to."""
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Mapping):
            reference = node.get("$ref")
            if isinstance(reference, str) and reference.startswith(PREFIX):
                yield reference.removeprefix(PREFIX)
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node


def _path(parts: list[str | int]) -> str:
    return "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" if _PLAIN.fullmatch(part) else f"[{part[:80]!r}]"
        for part in parts
    )


def _text(error: Any) -> str:
    text = str(error.message).removeprefix(f"{_MASK} ")
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
