"""``tieline types``: the project's schema of variables as TypedDicts, for editors and type checkers."""

import json
import keyword
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tieline.desk.described import describe
from tieline.desk.folders import Folder
from tieline.variables import resolved
from tieline_rules.findings import first

NAME = "variables.py"
HEADER = '"""Types of the project\'s variables. Written by `tieline types`: change the schema instead."""\n'

_SIMPLE = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_DEEPEST = 16


class TypesError(Exception):
    """There is nothing to write, or it must not be written; the message says why."""


def types_file(folder: Folder) -> tuple[Path, str]:
    """The path of the file with the types, and its text. Raises TypesError."""
    described = describe(folder.connections, folder.schema)
    broken = [str(item) for item in described.findings if "schema" in item.message]
    if broken:
        raise TypesError(first(broken, most=3))
    if not described.schema:
        raise TypesError(
            "There is no schema of variables; put it into variables.schema.json beside main.py, or name it by --schema"
        )
    path = folder.code / NAME
    if path.is_file() and not path.read_text(encoding="utf-8").startswith(HEADER):
        raise TypesError(f"{path} was not written by `tieline types`; rename it first")
    return path, typed_dicts(described.schema)


def typed_dicts(schema: Mapping[str, Any], name: str = "Variables") -> str:
    """Python source with a TypedDict for the schema's object and each object in it.

    A property with a default is always there, since ``ctx.variables`` has it; other optional ones are NotRequired.

    >>> schema = {"properties": {"region": {"enum": ["eu", "us"], "default": "eu"}}}
    >>> typed_dicts(schema).splitlines()[-2:]
    ['class Variables(TypedDict):', '    region: Literal["eu", "us"]']
    """
    writer = _Writer(schema)
    writer.add(name, schema)
    body = "\n\n\n".join(writer.classes)
    names = [
        item for item in ("Any", "Literal", "NotRequired", "TypedDict") if re.search(rf"\b{item}\b", body)
    ]
    return (
        f"{HEADER}\nfrom __future__ import annotations\n\nfrom typing import {', '.join(names)}\n\n\n{body}\n"
    )


class _Writer:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._names: dict[str, str] = {}
        self.classes: list[str] = []

    def add(self, name: str, schema: Mapping[str, Any], depth: int = 0) -> str:
        """Write a class for an object's schema; returns the name that it got."""
        known = repr(schema)
        if known in self._names:
            return self._names[known]
        name = self._free(name)
        self._names[known] = name
        required = schema.get("required")
        properties = schema.get("properties")
        lines: list[tuple[str, str, str]] = []
        for key, part in properties.items() if isinstance(properties, Mapping) else ():
            found = self._resolved(part)
            kind = self._type(found, f"{name}{_camel(key)}", depth + 1)
            there = "default" in found or (isinstance(required, list) and key in required)
            lines.append(
                (str(key), kind if there else f"NotRequired[{kind}]", str(found.get("description") or ""))
            )
        self.classes.append(_class(name, lines))
        return name

    def _type(self, schema: Mapping[str, Any], name: str, depth: int) -> str:
        if depth > _DEEPEST:
            return "Any"
        values = schema.get("enum", [schema["const"]] if "const" in schema else None)
        if isinstance(values, list) and values and all(isinstance(item, str | int | None) for item in values):
            return f"Literal[{', '.join(map(_literal, values))}]"
        choices = schema.get("anyOf") or schema.get("oneOf")
        if isinstance(choices, list):
            return _union([self._type(self._resolved(item), name, depth + 1) for item in choices])
        kinds = schema.get("type")
        return _union(
            [
                self._plain(kind, schema, name, depth)
                for kind in (kinds if isinstance(kinds, list) else [kinds])
            ]
        )

    def _plain(self, kind: Any, schema: Mapping[str, Any], name: str, depth: int) -> str:
        if kind == "array":
            items = self._resolved(schema.get("items"))
            return f"list[{self._type(items, f'{name}Item', depth + 1)}]"
        if kind == "object" or (kind is None and schema.get("properties")):
            if schema.get("properties"):
                return self.add(name, schema, depth)
            more = schema.get("additionalProperties")
            return f"dict[str, {self._type(self._resolved(more), name, depth + 1)}]"
        return _SIMPLE.get(str(kind), "Any")

    def _resolved(self, schema: Any) -> Mapping[str, Any]:
        return {key: value for key, value in resolved(schema, self._root).items() if key != "$ref"}

    def _free(self, name: str) -> str:
        taken = set(self._names.values())
        return next(item for item in (name, *(f"{name}{n}" for n in range(2, 1000))) if item not in taken)


def _class(name: str, lines: list[tuple[str, str, str]]) -> str:
    if any(not key.isidentifier() or keyword.iskeyword(key) for key, _, _ in lines):
        entries = "".join(f"        {_literal(key)}: {_literal(kind)},\n" for key, kind, _ in lines)
        return f'{name} = TypedDict(\n    "{name}",\n    {{\n{entries}    }},\n)'

    if not lines:
        return f"class {name}(TypedDict):\n    pass"
    body = "\n".join(f"    {key}: {kind}{_documented(text)}" for key, kind, text in lines)
    return f"class {name}(TypedDict):\n{body}"


def _documented(text: str) -> str:
    """A docstring for editors, where the schema's text can be one."""
    line = " ".join(text.split())
    return f'\n    """{line}"""' if line and '"' not in line and "\\" not in line else ""


def _literal(value: str | int | None) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _union(kinds: list[str]) -> str:
    return " | ".join(dict.fromkeys(kinds)) if "Any" not in kinds else "Any"


def _camel(key: object) -> str:
    words = re.split(r"[^A-Za-z0-9]+", str(key))
    return "".join(word[:1].upper() + word[1:] for word in words) or "Value"
