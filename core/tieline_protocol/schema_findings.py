"""Findings about a JSON Schema in words: what is wrong, where, and what is allowed."""

import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote

import jsonschema_rs

TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
MAX_FINDINGS = 5
"""Findings that one message lists: each one after the first costs another compilation of the schema."""
_MAX_MESSAGE = 512
_MAX_SHOWN = 60
_LOOK_AROUND = re.compile(r"\(\?<?[=!]")
_BACK_REFERENCE = re.compile(r"\\[1-9]|\\k[<{]|\(\?P=")
_QUOTED = re.compile("'([^']*)'")

Path = list[str | int]


def findings_text(
    schema: dict[str, Any], error: jsonschema_rs.ValidationError, build: Callable[[dict[str, Any]], Any]
) -> str:
    """The first MAX_FINDINGS findings about ``schema``, of which ``error`` is the first; changes ``schema``.

    The validator stops at the first error: what it complains about is removed, and ``build`` called again.
    """
    findings: list[str] = []
    current: jsonschema_rs.ValidationError | None = error
    while current is not None:
        found = list(_findings(schema, current))
        findings += [f"{path_text(path)}: {text}" if path else text for path, text in found]
        if len(findings) >= MAX_FINDINGS:
            return "; ".join([*findings[:MAX_FINDINGS], f"only the first {MAX_FINDINGS} findings are shown"])
        removed = [_remove(schema, path) for path, _ in found]
        if not all(removed):
            break
        current = None
        try:
            build(schema)
        except jsonschema_rs.ValidationError as following:
            current = following
        except (jsonschema_rs.ReferencingError, ValueError) as other:
            findings.append(cut(str(other)))
    return "; ".join(findings)


def path_text(parts: Path) -> str:
    """JavaScript's notation, which people know from the REST API's errors."""
    text = ""
    for part in parts:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part[:_MAX_SHOWN]}" if text else part[:_MAX_SHOWN]
    return text


def cut(message: str) -> str:
    """A message of a limited length."""
    return message if len(message) <= _MAX_MESSAGE else f"{message[: _MAX_MESSAGE - 1]}…"


def _findings(schema: dict[str, Any], error: jsonschema_rs.ValidationError) -> Iterator[tuple[Path, str]]:
    path, value = list(error.instance_path), error.instance
    if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.Referencing):
        named = [found for found in _QUOTED.findall(error.message) if found]
        broken = [
            (location, reference)
            for location, reference in _references(schema, [])
            if any(_refers_to(reference, target) for target in named)
        ]
        yield from ((location, _reference_text(reference)) for location, reference in broken)
        if not broken:
            yield [], cut(error.message)
    elif error.kind.name == "format" and isinstance(value, str):
        yield path, _pattern_text(value)
    elif path and path[-1] == "type" and error.kind.name == "anyOf":
        yield path, _type_text(value)
    else:
        yield path, cut(error.message)


def _type_text(value: Any) -> str:
    wrong = [item for item in value if item not in TYPES] if isinstance(value, list) else [value]
    named = ", ".join(f'"{str(item)[:_MAX_SHOWN]}"' for item in wrong[:MAX_FINDINGS])
    allowed = f"use one of {', '.join(TYPES)}, or a list of them"
    if not wrong:
        return f"the list of types must not be empty or repeat a type; {allowed}"
    return f"{named} {'is no type' if len(wrong) == 1 else 'are no types'} of JSON Schema; {allowed}"


def _pattern_text(pattern: str) -> str:
    shown = f'"{pattern[:_MAX_SHOWN]}"'
    if _LOOK_AROUND.search(pattern):
        return f"{shown} uses look-around, which is not supported: patterns are matched in linear time; remove it"
    if _BACK_REFERENCE.search(pattern):
        return f"{shown} uses a back-reference, which is not supported: patterns are matched in linear time; remove it"
    return f"{shown} is not a valid regular expression"


def _reference_text(reference: str) -> str:
    if reference.startswith("#"):
        return f'"{reference[:_MAX_SHOWN]}" refers to nothing in this schema; define it there, for example under $defs'
    return (
        f'"{reference[:_MAX_SHOWN]}" lies outside of this schema and is not fetched; '
        'copy it under $defs and refer to it as "#/$defs/<name>"'
    )


def _refers_to(reference: str, target: str) -> bool:
    before, _, fragment = reference.partition("#")
    return bool(before and target.endswith(before)) or bool(fragment and unquote(fragment) == unquote(target))


def _references(node: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(node, dict):
        for key, item in node.items():
            if key in ("$ref", "$dynamicRef", "$recursiveRef") and isinstance(item, str):
                yield [*path, key], item
            else:
                yield from _references(item, [*path, key])
    elif isinstance(node, list):
        for index, item in enumerate(node):
            yield from _references(item, [*path, index])


def _remove(schema: dict[str, Any], path: Path) -> bool:
    """Whether something was removed."""
    node: Any = schema
    try:
        for part in path[:-1]:
            node = node[part]
        if path:
            del node[path[-1]]
    except (KeyError, IndexError, TypeError):
        return False
    return bool(path)
