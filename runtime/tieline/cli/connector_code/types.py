"""Types of values from their schemas: a TypedDict for each object, and everything else where it is used."""

import keyword
import re
from collections.abc import Mapping
from typing import Any

from tieline.cli.connector_code.descriptions import RESERVED
from tieline.cli.connector_code.names import Names, class_name, docstring, literal
from tieline.cli.connector_code.paging import resolved
from tieline.connectors.schemas import PREFIX

_SIMPLE = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_DEEPEST = 12
_MAX_CHOICES = 50
_MAX_TYPES = 1_000
_MAX_MEMBERS = 12
_MAX_TEXT = 1_000
"""Letters of one type: longer ones help nobody."""
_MAX_CLASSES = 5_000

_TYPENAME = "__typename"
"""The field with the name of a GraphQL object's type."""

Schema = Mapping[str, Any]


class Types:
    """Writes the types of a description's schemas."""

    def __init__(self, schemas: Mapping[str, Schema], taken: Names) -> None:
        """``schemas`` are the description's, whose names are free for their classes; ``taken`` gives further ones."""
        self._schemas = schemas
        self._taken = taken
        self._known: dict[int, str] = {}
        self._followed: dict[tuple[str, int], str] = {}
        self.classes: dict[str, str] = {}
        """The source of each class, by its name."""

    def write_all(self) -> None:
        """Write a class for each named object."""
        for name, schema in self._schemas.items():
            if (fields := self._object(schema)) is not None:
                self._write(name, schema, fields, 0)

    def of(self, schema: Any, name: str, depth: int = 0, inside: tuple[str, ...] = ()) -> str:
        """The type of a schema's values; ``name`` is that of the class, if it needs one."""
        text = self._of(schema, name, depth, inside)
        return text if len(text) <= _MAX_TEXT else "Any"

    def _of(self, schema: Any, name: str, depth: int, inside: tuple[str, ...]) -> str:
        if not isinstance(schema, Mapping) or depth > _DEEPEST:
            return "Any"
        if isinstance(reference := schema.get("$ref"), str):
            target = reference.removeprefix(PREFIX)
            if target not in self._schemas or target in inside:
                return "Any"
            found = self._schemas[target]
            if self._object(found) is not None:
                return target
            # Once for each depth: definitions that refer to each other many times have very many ways through them.
            known = self._followed.get((target, depth))
            if known is None:
                known = self.of(found, target, depth + 1, (*inside, target))
                self._followed[target, depth] = known
            return known
        if (choices := _choices(schema)) is not None:
            return choices
        fields = self._object(schema)
        if fields is not None:
            return self._nested(name, schema, fields, depth)
        for key in ("anyOf", "oneOf"):
            if members := schema.get(key):
                return self._union(members, name, depth, inside)
        if members := schema.get("allOf"):
            return self.of(members[0], name, depth + 1, inside) if len(members) == 1 else "Any"
        kinds = schema.get("type")
        kinds = kinds if isinstance(kinds, list) else [kinds]
        return _joined([self._plain(kind, schema, name, depth, inside) for kind in kinds])

    def has_fields(self, schema: Any) -> bool:
        """Whether a schema's values are objects with known fields."""
        found = resolved(schema, self._schemas)
        return isinstance(found, Mapping) and self._object(found) is not None

    def _plain(self, kind: Any, schema: Schema, name: str, depth: int, inside: tuple[str, ...]) -> str:
        if kind == "array":
            items = self.of(schema.get("items"), f"{name}Item", depth + 1, inside)
            return f"list[{items}]"
        if kind == "object" or (kind is None and "additionalProperties" in schema):
            return (
                f"dict[str, {self.of(schema.get('additionalProperties'), f'{name}Value', depth + 1, inside)}]"
            )
        if kind == "string" and schema.get("format") == "binary":
            return "bytes | str"  # a file in a form
        return _SIMPLE.get(str(kind), "Any")

    def _union(self, members: list[Any], name: str, depth: int, inside: tuple[str, ...]) -> str:
        if len(members) > _MAX_MEMBERS:
            return "Any"
        return _joined(
            [self.of(member, f"{name}{_typename(member)}", depth + 1, inside) for member in members]
        )

    def _object(self, schema: Schema) -> Mapping[str, tuple[Any, bool]] | None:
        """The fields of an object, each with its schema and whether it is needed; None for what is no object."""
        found: dict[str, tuple[Any, bool]] = {}
        return found if self._collect(schema, found, set(), 0) and found else None

    def _collect(
        self, schema: Schema, found: dict[str, tuple[Any, bool]], seen: set[str], depth: int
    ) -> bool:
        """Whether it is an object with known fields alone, or several in one (``allOf``), which are put together."""
        if (
            depth > _DEEPEST
            or "anyOf" in schema
            or "oneOf" in schema
            or "enum" in schema
            or "const" in schema
        ):
            return False
        if schema.get("type", "object") != "object":
            return False
        for member in schema.get("allOf", ()):
            part = member
            if isinstance(reference := member.get("$ref"), str):
                if reference in seen:
                    return False
                seen.add(reference)
                part = resolved(member, self._schemas)
            if not self._collect(part, found, seen, depth + 1):
                return False
        required = set(schema.get("required", ()))
        for key, item in schema.get("properties", {}).items():
            found[key] = (item, key in required or (key in found and found[key][1]))
        for key in required & found.keys():
            found[key] = (found[key][0], True)
        return True

    def _nested(self, name: str, schema: Schema, fields: Mapping[str, tuple[Any, bool]], depth: int) -> str:
        if len(self.classes) >= _MAX_CLASSES:
            return "dict[str, Any]"
        # The description holds its schemas for as long as this is there.
        known = self._known.get(id(schema))
        if known is None:
            known = self._known[id(schema)] = self._taken.free(class_name(name))
            self._write(known, schema, fields, depth)
        return known

    def _write(self, name: str, schema: Schema, fields: Mapping[str, tuple[Any, bool]], depth: int) -> str:
        self.classes[name] = ""  # its place: nested ones come after it
        lines = []
        for key, (item, needed) in fields.items():
            # However many there are: by it, checkers tell alternatives apart.
            kinds = _choices(item, _MAX_TYPES) if key == _TYPENAME and isinstance(item, Mapping) else None
            kind = kinds or self.of(item, f"{name}{class_name(key)}", depth + 1)
            lines.append((key, kind if needed else f"NotRequired[{kind}]", _text(item)))
        self.classes[name] = _class(name, _text(schema), lines)
        return name


def _class(name: str, text: str, lines: list[tuple[str, str, str]]) -> str:
    # In a class, a field is what the types beside it take a name for.
    used = {*RESERVED, *re.findall(r"\w+", " ".join(kind for _, kind, _ in lines))}
    if not all(_is_field(key) and key not in used for key, _, _ in lines):
        return _functional(name, text, lines)
    body = [f'    """{text}"""', ""] if text else []
    for key, kind, note in lines:
        body.append(f"    {key}: {kind}")
        if note:
            body.append(f'    """{note}"""')
    return "\n".join([f"class {name}(TypedDict):", *body])


def _functional(name: str, text: str, lines: list[tuple[str, str, str]]) -> str:
    fields = [f"        {literal(key)}: {literal(kind)}," for key, kind, _ in lines]
    note = [f'"""{text}"""'] if text else []
    return "\n".join(
        [f"{name} = TypedDict(", f"    {literal(name)},", "    {", *fields, "    },", ")", *note]
    )


def _is_field(key: str) -> bool:
    """Whether a key can be an attribute of a class: ``__x`` would be renamed there."""
    return key.isascii() and key.isidentifier() and not keyword.iskeyword(key) and not key.startswith("__")


def _text(schema: Any) -> str:
    text = schema.get("description") if isinstance(schema, Mapping) else None
    return docstring(text) if isinstance(text, str) else ""


def _typename(schema: Any) -> str:
    """The type of GraphQL whose objects an alternative has; empty if there are several."""
    fields = schema.get("properties") if isinstance(schema, Mapping) else None
    found: Any = fields.get(_TYPENAME, {}).get("enum", ()) if isinstance(fields, Mapping) else ()
    return class_name(str(found[0])) if len(found) == 1 else ""


def _choices(schema: Schema, most: int = _MAX_CHOICES) -> str | None:
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if not values or not all(value is None or isinstance(value, str | int) for value in values):
        return None
    if len(values) > most or any(isinstance(value, str) and len(value) > 100 for value in values):
        return None
    return f"Literal[{', '.join(dict.fromkeys(map(_value, values)))}]"


def _value(value: str | int | None) -> str:
    return literal(value) if isinstance(value, str) else repr(value)


def _joined(kinds: list[str]) -> str:
    return "Any" if "Any" in kinds or not kinds else " | ".join(dict.fromkeys(kinds))
