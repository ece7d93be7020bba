"""``tieline types``: the project's schema of variables as classes, for editors and type checkers.

They say what ``ctx.variables`` holds, both as items and as attributes; nothing at run time is made of them.
"""

import json
import keyword
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tieline.configuration.project_folder import Folder
from tieline.variables import resolved
from tieline_protocol.findings import first

NAME = "variables.py"
HEADER = '"""Types of the project\'s variables. Written by `tieline types`: change the schema instead."""\n'

_SIMPLE = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_DEEPEST = 16


class TypesError(Exception):
    """There is nothing to write, or it must not be written; the message says why."""


def types_file(folder: Folder) -> tuple[Path, str]:
    """The path of the file with the types, and its text. Raises TypesError."""
    from tieline.cli.config_check import describe  # noqa: PLC0415  (loads the SDK)

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
    return path, variables_types(described.schema)


def variables_types(schema: Mapping[str, Any], name: str = "Variables") -> str:
    """Python source with a class for the schema's object and each object in it.

    Names that are no Python names, or are those of a dict's methods, are items alone.

    >>> schema = {"properties": {"region": {"enum": ["eu", "us"], "default": "eu"}}}
    >>> print(variables_types(schema).partition("\\n\\n\\n")[2])
    class Variables(dict[str, Any]):
        region: Literal["eu", "us"]
    <BLANKLINE>
        def __getitem__(self, key: Literal["region"], /) -> Literal["eu", "us"]:  # type: ignore[override]
            value: Literal["eu", "us"] = super().__getitem__(key)
            return value
    <BLANKLINE>
    """
    writer = _Writer(schema)
    writer.add(name, schema)
    body = "\n\n\n".join(writer.classes)
    names = [item for item in ("Any", "Literal", "overload") if re.search(rf"\b{item}\b", body)]
    imports = f"from __future__ import annotations\n\nfrom typing import {', '.join(names)}\n"
    return f"{HEADER}# ruff: noqa\n\n{imports}\n\n{body}\n"


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
        properties = schema.get("properties")
        lines: list[tuple[str, str, str]] = []
        for key, part in properties.items() if isinstance(properties, Mapping) else ():
            found = self._resolved(part)
            kind = self._type(found, f"{name}{_camel(key)}", depth + 1)
            lines.append((str(key), kind, str(found.get("description") or "")))
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
    attributes = [f"    {key}: {kind}{_documented(text)}" for key, kind, text in lines if _is_attribute(key)]
    body = "\n".join(attributes)
    items = _items([(key, kind) for key, kind, _ in lines])
    parts = [part for part in (body, items) if part] or ["    pass"]
    return f"class {name}(dict[str, Any]):\n" + "\n\n".join(parts)


def _is_attribute(key: str) -> bool:
    return (
        key.isidentifier()
        and not keyword.iskeyword(key)
        and not key.startswith("__")
        and not hasattr(dict, key)
    )


def _items(items: list[tuple[str, str]]) -> str:
    """Each item's type by its name. Another name is an error, which a dict's own method would not make of it."""
    methods = [
        f"    def __getitem__(self, key: Literal[{_literal(key)}], /) -> {kind}:" for key, kind in items
    ]
    if len(methods) < 2:
        return "".join(
            f"{method}  # type: ignore[override]\n"
            f"        value: {kind} = super().__getitem__(key)\n        return value"
            for method, (_, kind) in zip(methods, items, strict=True)
        )
    first, *others = [f"    @overload\n{method} ..." for method in methods]
    first = first.replace("@overload", "@overload  # type: ignore[override]", 1)
    whole = "    def __getitem__(self, key: str, /) -> Any:\n        return super().__getitem__(key)"
    return "\n".join([first, *others, whole])


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
