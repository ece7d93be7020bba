"""Variables: readable errors, no network, no values in messages, and no schema that can hold the service."""

from __future__ import annotations

import time

import pytest

from tieline_core.evaluation.variables_checker import VariablesChecker
from tieline_core.resources.activations import in_effect
from tieline_protocol.schema_findings import MAX_FINDINGS
from tieline_protocol.variables import MAX_ERRORS, InvalidSchema, schema_problem, variable_errors

SCHEMA = {
    "type": "object",
    "required": ["region"],
    "additionalProperties": False,
    "properties": {
        "region": {"enum": ["eu", "us"]},
        "limits": {"type": "object", "properties": {"daily": {"type": "integer", "maximum": 10}}},
        "names": {"type": "array", "items": {"type": "string", "maxLength": 3}},
    },
}


def test_variables_that_follow_the_schema_have_no_errors() -> None:
    assert variable_errors(SCHEMA, {"region": "eu", "limits": {"daily": 3}, "names": ["a"]}) == []
    assert variable_errors(None, {"anything": 1}) == []
    assert variable_errors({"type": "object", "properties": {}}, {}) == []


def test_errors_say_where_and_never_what_the_value_is() -> None:
    variables = {"region": "s3cret", "limits": {"daily": 4711}, "names": ["ok", "S3CRET"]}
    errors = {error.path: str(error) for error in variable_errors(SCHEMA, variables)}
    assert errors.keys() == {"region", "limits.daily", "names[1]"}
    assert not any(value in text for value in ("s3cret", "S3CRET", "4711") for text in errors.values())


def test_a_missing_variable_and_an_unknown_one_are_told() -> None:
    told = " ".join(str(error) for error in variable_errors(SCHEMA, {"regoin": "eu"}))
    assert "region" in told
    assert "regoin" in told


def test_errors_are_limited_in_number() -> None:
    assert len(variable_errors(SCHEMA, {"region": "eu", "names": [1] * 1000})) == MAX_ERRORS


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"properties": {"a": {"type": "strin"}}}, "properties.a.type"),
        ({"type": "array"}, 'type "object"'),
        ({"$ref": "http://127.0.0.1:9/schema"}, "not fetched; copy it under $defs"),
        ({"$ref": "file:///etc/passwd"}, "not fetched; copy it under $defs"),
        ({"$schema": "http://127.0.0.1:9/dialect"}, "$schema"),
        (
            {"properties": {"a": {"$ref": "#/$defs/nope"}}},
            'properties.a.$ref: "#/$defs/nope" refers to nothing',
        ),
        (
            {"properties": {"a": {"type": "strng"}}},
            '"strng" is no type of JSON Schema; use one of array, boolean,',
        ),
        ({"properties": {"a": {"type": ["null", "strng"]}}}, '"strng" is no type of JSON Schema'),
        ({"properties": {"a": {"type": []}}}, "must not be empty"),
        ({"properties": {"a": {"pattern": "(?=x)"}}}, "look-around, which is not supported"),
        ({"properties": {"a": {"pattern": r"(x)\1"}}}, "back-reference, which is not supported"),
        ({"properties": {"a": {"pattern": "(["}}}, "is not a valid regular expression"),
        ({"properties": {"a": {"pattern": "(?=x)"}}}, "properties.a.pattern"),
        ({"properties": {"a": {"pattern": "("}}}, "properties.a.pattern"),
    ],
)
def test_a_schema_that_cannot_be_used_says_why_and_nothing_is_fetched(schema: dict, words: str) -> None:
    problem = schema_problem(schema)
    assert problem
    assert words in problem
    with pytest.raises(InvalidSchema):
        variable_errors(schema, {})


def test_all_findings_about_a_schema_come_at_once() -> None:
    schema = {
        "properties": {
            "a": {"type": "strng"},
            "b": {"pattern": "(?=x)"},
            "c": {"$ref": "https://example.com/c"},
            "d": {"minimum": "3"},
        }
    }
    problem = schema_problem(schema)
    assert problem is not None
    assert all(f"properties.{place}: " in problem for place in ("a.type", "b.pattern", "c.$ref", "d.minimum"))
    assert "keyword" not in problem
    assert "registry" not in problem


def test_the_findings_about_a_schema_are_limited_in_number() -> None:
    problem = schema_problem({"properties": {f"v{n}": {"type": "strng"} for n in range(100)}})
    assert problem is not None
    assert problem.count("is no type") == MAX_FINDINGS
    assert problem.endswith(f"only the first {MAX_FINDINGS} findings are shown")


@pytest.mark.parametrize(
    ("keyword", "options", "words"),
    [
        ("anyOf", [{"type": "null"}, {"type": "string"}], "matches none of the alternatives"),
        ("oneOf", [{"type": "null"}, {"type": "string"}], "matches none of the alternatives"),
        ("oneOf", [{"type": "integer"}, {"minimum": 0}], "matches more than one of the alternatives"),
    ],
)
def test_a_value_that_matches_no_alternative_says_so(keyword: str, options: list, words: str) -> None:
    (error,) = variable_errors({"properties": {"a": {keyword: options}}}, {"a": 1})
    assert str(error).startswith(f"a: the value {words}")
    assert str(error).endswith(f"({keyword})")


def test_a_schema_may_refer_to_itself() -> None:
    schema = {"$defs": {"r": {"enum": ["eu"]}}, "properties": {"region": {"$ref": "#/$defs/r"}}}
    assert schema_problem(schema) is None
    assert variable_errors(schema, {"region": "us"})


def test_a_regular_expression_made_to_explode_answers_at_once() -> None:
    schema = {"properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}
    began = time.perf_counter()
    assert variable_errors(schema, {"a": "a" * 50_000 + "!"})
    assert time.perf_counter() - began < 30, "it would take longer than anybody has"


@pytest.mark.parametrize(
    ("schema", "variables", "last", "run"),
    [
        (SCHEMA, {"region": "eu"}, {"region": "us"}, {"region": "eu"}),
        (SCHEMA, {"region": "mars"}, {"region": "us"}, {"region": "us"}),
        (SCHEMA, {"region": "mars"}, None, {}),
        (None, {"anything": 1}, {"region": "us"}, {"anything": 1}),
        ({"type": "array"}, {"region": "eu"}, {"region": "us"}, {"region": "us"}),
    ],
    ids=["they fit", "they no longer fit", "they never fitted", "there is no schema", "the schema is none"],
)
def test_code_runs_with_the_last_values_that_fitted(
    schema: dict | None, variables: dict, last: dict | None, run: dict
) -> None:
    status = {"lastValidVariables": last} if last else {}
    fit = VariablesChecker().fits(schema, variables)
    assert in_effect({"spec": {"variables": variables}, "status": status}, fit=fit) == run
