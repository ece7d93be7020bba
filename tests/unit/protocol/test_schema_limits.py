"""What a schema may ask for is counted without a validator, in time that its size bounds."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from tests.harness.inputs.hostile_schemas import doubling, nested
from tieline_protocol.schema_limits import (
    MAX_ALL_PATTERN_STEPS,
    MAX_EXPANDED,
    excess,
    expanded,
    is_linear,
    pattern_steps,
)
from tieline_protocol.variables import schema_problem

COUNTRY = {"type": "string", "pattern": "^[A-Z]{2}$"}
TREE: dict[str, Any] = {
    "$defs": {"node": {"properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}},
    "properties": {"root": {"$ref": "#/$defs/node"}},
}


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {f"p{n}": {"type": "string", "description": "x" * 20} for n in range(4_000)}},
        {"$defs": {"country": COUNTRY}, "properties": {f"c{n}": {"$ref": "#/$defs/country"} for n in range(500)}},
        {"properties": {"name": {"pattern": r"^\p{L}{1,64}$"}, "slug": {"pattern": "^[a-z0-9-]{1,63}$"}}},
        {"properties": {"zone": {"enum": [f"Zone/{n}" for n in range(600)]}}},
        TREE,
        {"$ref": "#"},
        nested(90),
        doubling(8),
    ],
    ids=["many", "one definition", "patterns", "time zones", "a tree", "itself", "depth", "some doubling"],
)  # fmt: skip
def test_schemas_that_people_write_are_within_the_limits(schema: dict[str, Any]) -> None:
    assert excess(schema) is None
    assert schema_problem(schema) is None


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (doubling(30), "$ref"),
        ({"properties": {"a": doubling(1_000)["$defs"]["a0"]}, "$defs": doubling(1_000)["$defs"]}, "$ref"),
        ({"$defs": {"a": {"$anchor": "x", "enum": [*range(999)]}}, "allOf": [{"$ref": "#x"}] * 200}, "$ref"),
        (nested(101), "100 levels"),
        ({"properties": {"a": {"enum": [*range(10_001)]}}}, "enums"),
        ({"properties": {"a": {"pattern": "x" * 10_001}}}, "pattern"),
        ({"properties": {"a": {"pattern": "(a{1000}){1000}"}}}, "pattern"),
        ({"patternProperties": {r"^\p{L}{1000}$": {}}}, "pattern"),
        ({"properties": {f"p{n}": {"pattern": r"\p{L}{90}"} for n in range(9)}}, "together"),
    ],
    ids=["doubling", "long doubling", "an anchor", "depth", "enum", "long", "counts", "names", "sum"],
)
def test_what_exceeds_a_limit_is_told_with_what_to_do(schema: dict[str, Any], words: str) -> None:
    found = excess(schema)
    assert found
    assert words in found
    assert schema_problem(schema) == found, "what checks variables says the same"


def test_a_circle_is_counted_once_and_found() -> None:
    size, circular = expanded(TREE)
    assert circular
    assert size < 20
    assert expanded(doubling(3))[1] is False
    assert expanded(doubling(200))[0] == MAX_EXPANDED + 1


@pytest.mark.parametrize(
    ("pattern", "steps"),
    [("abc", 3), ("a{3,5}", 5), ("a{2,}", 2), ("(ab){3}", 6), ("((a{9}){9}){9}", 729), ("[a-z]{4}", 4),
     (r"\d{4}-\d{2}", 7), (r"\p{L}{2}", 2000), (r"[\p{L}_]", 1001), ("a{", 2), ("(((", 0), (")", 0), ("\\", 1)],
)  # fmt: skip
def test_repeats_are_written_out(pattern: str, steps: int) -> None:
    assert pattern_steps(pattern) == steps


def test_counts_of_counts_do_not_grow_without_end() -> None:
    assert pattern_steps("(" * 500 + "a" + "{99})" * 500) > MAX_ALL_PATTERN_STEPS


PLAIN: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["region"],
    "additionalProperties": False,
    "properties": {
        "region": {"enum": ["eu", "us"], "default": "eu"},
        "limits": {"type": "object", "properties": {"daily": {"type": ["integer", "null"], "maximum": 9}}},
        "names": {"type": "array", "maxItems": 9, "items": {"type": "string", "maxLength": 9}},
        "kind": {"const": "shop", "title": "Kind"},
    },
}


def test_plain_schemas_are_linear() -> None:
    assert is_linear(PLAIN)
    assert is_linear({})
    assert not is_linear({"properties": {f"p{n}": {} for n in range(40)}}), "compiling it takes milliseconds"


@pytest.mark.parametrize(
    "inner",
    [
        {"$ref": "#/$defs/a"}, {"$ref": "#/%24defs/a"}, {"$ref": "json-schema:///#/$defs/a"}, {"$dynamicRef": "#a"},
        {"$recursiveRef": "#"}, {"$id": "x"}, {"id": "x"}, {"$anchor": "x"}, {"$defs": {}}, {"definitions": {}},
        {"anyOf": [{}]}, {"oneOf": [{}]}, {"allOf": [{}]}, {"not": {}}, {"if": {}}, {"contains": {}},
        {"prefixItems": [{}]},
        {"items": [{}]}, {"uniqueItems": True}, {"pattern": "a"}, {"patternProperties": {"a": {}}}, {"format": "email"},
        {"propertyNames": {}}, {"dependencies": {}}, {"dependentSchemas": {}}, {"unevaluatedProperties": False},
        {"multipleOf": 0.01}, {"enum": [1, 2]}, {"enum": [{}]}, {"const": [1]}, {"type": [{}]}, {"type": "objekt"},
        {"properties": []}, {"$schema": "x"}, {"unknown": 1}, {"minLength": "1"}, 5, None,
    ],
    ids=str,
)  # fmt: skip
def test_whatever_is_not_listed_is_not_linear(inner: Any) -> None:
    for around in (
        {"properties": {"a": inner}},
        {"additionalProperties": inner},
        {"items": {"items": inner}},
    ):
        assert not is_linear(around)


def test_percent_encoded_references_are_counted() -> None:
    text = orjson.dumps(doubling(30)).replace(b"#/$defs", b"#/%24defs")
    assert "$ref" in (excess(orjson.loads(text)) or "")
