"""Schemas of variables that take a validator seconds to hours, or all of its memory."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]


def doubling(levels: int) -> Schema:
    """Each level is tried twice: 20 levels take 80 s."""
    definitions: Schema = {f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(levels)}
    return {"$defs": {**definitions, f"a{levels}": {"type": "string"}}, "$ref": "#/$defs/a0"}


def doubling_below(name: str, levels: int) -> Schema:
    """The same for one variable."""
    return {"$defs": doubling(levels)["$defs"], "properties": {name: {"$ref": "#/$defs/a0"}}}


def nested(levels: int) -> Schema:
    """Schemas inside each other."""
    schema: Schema = {}
    for _ in range(levels):
        schema = {"not": schema}
    return schema


def slow() -> Schema:
    """Within all limits that are known without a validator; with SLOW_VALUES it takes minutes."""
    options = [{"number": n} for n in range(5_000)]
    return {"properties": {"items": {"type": "array", "items": {"not": {"enum": options}}}}}


SLOW_VALUES: Schema = {"items": [{"number": -1}] * 60_000}

HOSTILE: dict[str, Schema] = {
    "exponential references": doubling(20),
    "exponential references for one variable": doubling_below("x", 20),
    "a wide enum": {"properties": {"a": {"enum": [f"{n:010}" for n in range(15_000)]}}},
    "a large class with a count": {"properties": {"a": {"pattern": r"^\p{L}{1000}$"}}},
    "many large classes": {
        "properties": {f"p{n}": {"pattern": rf"^(\p{{L}}|\p{{N}}|{n}){{1,40}}$"} for n in range(60)}
    },
    "counts in counts": {"properties": {"a": {"pattern": "((((a{99}){99}){99}){99}){99}"}}},
    "depth": nested(120),
    "groups in groups": {"properties": {"a": {"pattern": "(" * 6000 + ")" * 6000}}},
}
