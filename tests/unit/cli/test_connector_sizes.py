"""Descriptions whose schemas refer to each other, or repeat themselves: modules stay small, and say nothing wrong."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.harness.inputs.type_checkers import mypy
from tests.unit.cli.connector_files import file_of, source_of
from tieline.cli.connector_code.names import Names
from tieline.cli.connector_code.reach import LARGEST, limited, size_of
from tieline.cli.connector_code.sharing import shared
from tieline.connectors.schemas import PREFIX, Schemas, references

NUMBER = 14
PLACE = "#/components/schemas/"


def content(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"content": {"application/json": {"schema": schema}}}


def described(
    schemas: Mapping[str, Any], answer: Mapping[str, Any], request: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    operation = {"operationId": "get", "responses": {"200": {"description": "It", **content(answer)}}}
    if request is not None:
        operation["requestBody"] = {"required": True, **content(request)}
    return {
        "openapi": "3.0.3",
        "info": {"title": "Shop", "version": "1"},
        "paths": {"/": {"post": operation}},
        "components": {"schemas": schemas},
    }


def entangled(reference: Any) -> dict[str, Any]:
    """Objects of which each has a field for each other: more ways through them than anybody counts."""
    return {
        f"Model{one}": {
            "type": "object",
            "required": ["id"],
            "properties": {
                "id": {"type": "string"},
                **{f"model{other}": reference(f"{PLACE}Model{other}") for other in range(NUMBER)},
            },
        }
        for one in range(NUMBER)
    }


def expandable(target: str) -> dict[str, Any]:
    return {"anyOf": [{"type": "string", "maxLength": 50}, {"$ref": target}]}


def largest(file: Mapping[str, Any]) -> int:
    return max(size_of({"$ref": f"{PREFIX}{name}"}, file["schemas"], 10**5) for name in file["schemas"])


def test_alternatives_to_an_id_are_open_where_objects_refer_to_each_other() -> None:
    description = described(entangled(expandable), {"$ref": f"{PLACE}Model0"})
    file, source = file_of(description), source_of(description)
    assert list(file["schemas"]) == ["Model0"]
    assert "    model1: NotRequired[str | dict[str, Any]]" in source
    findings = Schemas(file["schemas"]).findings
    answer = {"$ref": f"{PREFIX}Model0"}
    assert not findings(answer, {"id": "1", "model1": "2", "model2": {"id": "3", "more": True}}, "answer")
    assert findings(answer, {"id": "1", "model1": 2}, "answer")


def test_objects_far_away_are_open_where_they_refer_to_each_other() -> None:
    description = described(entangled(lambda one: {"$ref": one}), {"$ref": f"{PLACE}Model0"})
    file, source = file_of(description), source_of(description)
    assert largest(file) <= LARGEST
    assert "    model1: NotRequired[Model1]" in source
    assert "    model0: NotRequired[Model0]" in source
    assert "    model2: NotRequired[dict[str, Any]]" in source


def test_alternatives_lose_their_discriminator_with_the_first_that_is_open() -> None:
    models = entangled(lambda one: {"$ref": one})
    either = [{"$ref": f"{PLACE}Model{number}"} for number in range(3)]
    for name in ("Model5", "Model6"):
        discriminator = {"propertyName": "id"}
        models[name]["properties"]["either"] = {"oneOf": either, "discriminator": discriminator}
    found = file_of(described(models, {"$ref": f"{PLACE}Model5"}))["schemas"]
    near = found["Model5"]["properties"]["either"]
    assert near["oneOf"] == [{"$ref": f"{PREFIX}Model{number}"} for number in range(3)]
    assert near["discriminator"]["mapping"].keys() == {"Model0", "Model1", "Model2"}
    assert found["Model6"]["properties"]["either"] == {"anyOf": [{"type": "object"}] * 3}


def test_requests_stay_whole_beside_answers_that_are_too_large() -> None:
    models = entangled(expandable) | {
        "New": {"type": "object", "properties": {"lines": {"$ref": f"{PLACE}Line"}}},
        "Line": {
            "type": "object",
            "properties": {"product": {"anyOf": [{"type": "string"}, {"$ref": f"{PLACE}Product"}]}},
        },
        "Product": {
            "type": "object",
            "additionalProperties": False,
            "properties": {"sku": {"type": "string"}},
        },
    }
    file = file_of(described(models, {"$ref": f"{PLACE}Model0"}, {"$ref": f"{PLACE}New"}))
    findings = Schemas(file["schemas"]).findings
    body = {"$ref": f"{PREFIX}New"}
    assert not findings(body, {"lines": {"product": {"sku": "x"}}}, "body")
    assert findings(body, {"lines": {"product": {"suk": "x"}}}, "body")


def test_requests_that_are_too_large_themselves_are_open_far_away() -> None:
    models = entangled(lambda one: {"$ref": one})
    description = described(models, {"$ref": f"{PLACE}Model0"}, {"$ref": f"{PLACE}Model0"})
    assert largest(file_of(description)) <= LARGEST


def test_a_description_of_usual_size_stays_whole() -> None:
    tree = {
        "Tree": {
            "type": "object",
            "properties": {"children": {"type": "array", "items": {"$ref": f"{PLACE}Tree"}}},
        }
    }
    assert "NotRequired[list[Tree]]" in source_of(described(tree, {"$ref": f"{PLACE}Tree"}))


def test_reveal_type_of_such_an_object_is_no_essay(tmp_path: Path) -> None:
    for name, reference in (("ids", expandable), ("plain", lambda one: {"$ref": one})):
        source = source_of(described(entangled(reference), {"$ref": f"{PLACE}Model0"}), name)
        (tmp_path / f"{name}.py").write_text(source)
    (tmp_path / "tieline.pyi").write_text(
        "class Context[V]:\n    def __getattr__(self, name: str) -> object: ..."
    )
    (tmp_path / "show.py").write_text(
        "import ids\nimport plain\n\n\ndef show(one: ids.Model0, two: plain.Model0) -> None:\n"
        "    reveal_type(one)\n    reveal_type(two)\n"
    )
    check = mypy(tmp_path)
    assert check.output.count("Revealed type") == 2
    assert len(check.output) < 500_000


ADDRESS = {
    "type": "object",
    "required": ["street"],
    "properties": {
        "street": {"type": "string", "maxLength": 100},
        "town": {"type": "string", "description": "Its name, and no number.", "maxLength": 100},
    },
}


def test_equal_objects_are_one_class_and_one_schema() -> None:
    order = {
        "type": "object",
        "properties": {
            "billing": {**ADDRESS, "description": "Where the bill goes."},
            "shipping": {**ADDRESS, "description": "Where the parcel goes."},
            "lines": {"type": "array", "items": {"type": "object", "properties": {"from": ADDRESS}}},
        },
    }
    description = described({"Order": order}, {"$ref": f"{PLACE}Order"})
    file, source = file_of(description), source_of(description)
    assert list(file["schemas"]) == ["Order", "OrderBilling"]
    assert source.count("street: ") == 1
    assert "    billing: NotRequired[OrderBilling]" in source
    assert "    shipping: NotRequired[OrderBilling]" in source
    assert '    """Where the parcel goes."""' in source
    findings = Schemas(file["schemas"]).findings({"$ref": f"{PREFIX}Order"}, {"shipping": {}}, "answer")
    assert findings == ['answer.shipping: "street" is a required property']


def test_an_object_that_is_a_named_one_written_out_is_that_one() -> None:
    order = {"type": "object", "properties": {"to": ADDRESS, "from": {"$ref": f"{PLACE}Address"}}}
    source = source_of(described({"Address": ADDRESS, "Order": order}, {"$ref": f"{PLACE}Order"}))
    assert source.count("street: ") == 1


def test_a_schema_that_is_gone_leaves_no_check_behind() -> None:
    schemas = Schemas({})
    for _ in range(20):
        assert schemas.findings({"type": "string"}, 1, "body") == ['body: is not of type "string"']
        assert schemas.findings({"type": "integer"}, 1, "body") == []


def test_errors_of_an_operation_bring_no_schemas() -> None:
    description = described(
        {"Order": ADDRESS, "Error": {"type": "object", "properties": {"code": {"type": "string"}}}},
        {"$ref": f"{PLACE}Order"},
    )
    responses = description["paths"]["/"]["post"]["responses"]
    responses["default"] = {"description": "An error", **content({"$ref": f"{PLACE}Error"})}
    assert list(file_of(description)["schemas"]) == ["Order"]
    del responses["200"]
    assert list(file_of(description)["schemas"]) == ["Error"]


NAMES = ("A", "B", "C", "D", "E")
FIELDS = ("x", "y", "z")
leaves = st.sampled_from(
    [{"type": "string"}, {"type": "integer"}, ADDRESS, *({"$ref": f"{PREFIX}{name}"} for name in NAMES)]
)
graphs = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.fixed_dictionaries(
            {"type": st.just("object"), "properties": st.dictionaries(st.sampled_from(FIELDS), inner)},
            optional={
                "required": st.lists(st.sampled_from(FIELDS), max_size=2, unique=True),
                "additionalProperties": st.booleans(),
            },
        ),
        st.fixed_dictionaries({"type": st.just("array"), "items": inner}),
        st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"oneOf": st.lists(inner, min_size=1, max_size=3)}),
    ),
    max_leaves=6,
)
values = st.recursive(
    st.one_of(st.text(max_size=3), st.integers(0, 3), st.just({"street": "x"})),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.sampled_from(FIELDS), inner)),
    max_leaves=6,
)
groups = st.fixed_dictionaries(dict.fromkeys(NAMES, graphs))


def has_meaning(graph: dict[str, Any]) -> bool:
    """Whether no schema is itself without a value in between: what one allows depends on the depth of the stack."""

    def same_value(schema: Any) -> Iterator[str]:
        if "$ref" in schema:
            yield schema["$ref"].removeprefix(PREFIX)
        for one in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
            yield from same_value(one)

    reached = {name: {*same_value(schema)} for name, schema in graph.items()}
    for _ in NAMES:
        for found in reached.values():
            found |= {further for name in found for further in reached.get(name, ())}
    return not any(name in found for name, found in reached.items())


def operations_of() -> dict[str, Any]:
    return {"get": {"answers": {"200": {"mediaType": "application/json", "schema": {"$ref": f"{PREFIX}A"}}}}}


@settings(max_examples=300)
@given(groups, st.lists(values, min_size=1, max_size=5))
def test_what_is_open_allows_what_was_allowed(graph: dict[str, Any], given_values: list[Any]) -> None:
    assume(has_meaning(graph))
    less = limited(operations_of(), graph, largest=8)
    assert set(references([*less.values()])) <= less.keys()
    before, after = Schemas(graph), Schemas(less)
    for value in given_values:
        if not before.findings({"$ref": f"{PREFIX}A"}, value, "answer"):
            assert not after.findings({"$ref": f"{PREFIX}A"}, value, "answer")


@settings(max_examples=300)
@given(groups, st.lists(values, min_size=1, max_size=5))
def test_what_is_shared_says_the_same(graph: dict[str, Any], given_values: list[Any]) -> None:
    assume(has_meaning(graph))
    less = shared(operations_of(), json.loads(json.dumps(graph)), Names(graph), smallest=0)
    assert set(references([*less.values()])) <= less.keys()
    before, after = Schemas(graph), Schemas(less)
    for name in NAMES:
        for value in given_values:
            one = before.findings({"$ref": f"{PREFIX}{name}"}, value, "answer")
            assert bool(one) == bool(after.findings({"$ref": f"{PREFIX}{name}"}, value, "answer"))
