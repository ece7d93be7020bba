"""The schemas of a connector's version that an operation refers to."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import orjson

from tieline_api.agents import reach
from tieline_api.http.operation import AnyCall

_ALL = 1_000_000
_MOST = 200
"""Schemas that are read for one operation."""


@dataclass(kw_only=True)
class Schemas:
    """Schemas by the references that name them."""

    found: dict[str, Any] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    """References whose schemas did not fit."""


async def read_schemas(
    call: AnyCall, connection: reach.OpenConnection, content: Any, *, room: int
) -> Schemas:
    """The schemas that ``content`` refers to, directly or not, the nearest first; at most ``room`` bytes of JSON."""
    schemas, waiting = Schemas(), list(references(content))
    version = reach.version_of(call, connection.system)
    if not waiting or version is None:
        return schemas
    results = call.platform.connectors
    head = await results.head(version)
    lines = await results.lines(version, head, "definitions", 0, _ALL)
    places = await asyncio.to_thread(_places, lines)
    while waiting:
        wanted, waiting = dict.fromkeys(waiting), []
        for reference in wanted:
            if reference in schemas.found or reference in schemas.left_out:
                continue
            place = _place(reference, places)
            if place is None:
                continue
            number, steps = place
            (line,) = await results.lines(version, head, "schemas", number, number + 1)
            room -= len(reference) + len(line)
            if room < 0 or len(schemas.found) >= _MOST:
                room += len(reference) + len(line)
                schemas.left_out.append(reference)
                continue
            schemas.found[reference] = schema = _part(orjson.loads(line), steps)
            waiting += references(schema)
    return schemas


def references(content: Any) -> Iterator[str]:
    """The local references in JSON.

    >>> list(references({"items": {"$ref": "#/components/schemas/Line"}, "properties": {"$ref": {"type": "string"}}}))
    ['#/components/schemas/Line']
    """
    waiting = [content]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Mapping):
            reference = node.get("$ref")
            if isinstance(reference, str) and reference.startswith("#/"):
                yield reference
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node


def _places(lines: Iterable[bytes]) -> dict[tuple[str, ...], int]:
    """The numbers of definitions by the steps to where they stand in the description."""
    return {tuple(_steps(orjson.loads(line)["url"])): number for number, line in enumerate(lines)}


def _place(reference: str, places: Mapping[tuple[str, ...], int]) -> tuple[int, list[str]] | None:
    """The definition that a reference leads into, and the steps within it."""
    steps = _steps(reference)
    for length in range(len(steps), 0, -1):
        number = places.get(tuple(steps[:length]))
        if number is not None:
            return number, steps[length:]
    return None


def _part(schema: Any, steps: list[str]) -> Any:
    for step in steps:
        if isinstance(schema, dict):
            schema = schema.get(step)
        elif isinstance(schema, list) and step.isdecimal() and int(step[:6]) < len(schema):
            schema = schema[int(step[:6])]
        else:
            return None
    return schema


def _steps(reference: str) -> list[str]:
    return [unquote(step).replace("~1", "/").replace("~0", "~") for step in reference[2:].split("/")]
