"""GraphQL schemas as connectors: an action for each field of Query and Mutation, with a document that calls it."""

import json
import tempfile
from typing import Any

import jsonschema_rs
import pytest
from graphql import (
    build_schema,
    graphql_sync,
    introspection_from_schema,
    parse,
    validate,
)

from tieline_core.connectors.descriptions.findings import DescriptionTooLarge, UnreadableDescription
from tieline_core.connectors.descriptions.import_result import ImportResult
from tieline_core.connectors.descriptions.importer import MAX_GRAPHQL_BYTES, import_description
from tieline_core.connectors.import_process import Importer
from tieline_core.connectors.packing import all_lines, head_of
from tieline_core.connectors.storage import version_manifest

SCHEMA = '''
"""What a shop has."""
schema { query: Query mutation: Mutation subscription: Subscription }
enum State { OPEN CLOSED }
scalar DateTime
interface Node { id: ID! }
"An order" type Order implements Node {
  id: ID!  reference: String!  state: State!  created: DateTime  old: Int @deprecated
  customer: Customer  parent: Order  first: [Line!]!  lines(first: Int!): [Line!]!  items(first: Int): Orders
}
type Customer { id: ID! name: String }
type Line { sku: String quantity: Int! }
type Orders { nodes: [Order!]! pageInfo: PageInfo! totalCount: Int }
type People { edges: [PersonEdge!]! pageInfo: PageInfo! }
type PersonEdge { node: Customer cursor: String }
type PageInfo { hasNextPage: Boolean! endCursor: String }
union Hit = Order | Customer
input NewOrder { reference: String! state: State = OPEN lines: [NewLine!] parent: NewOrder }
input NewLine { "The article" sku: String! quantity: Int! = 1 }
type Payload { order: Order problems: [Problem!]! }
type Problem { field: [String!] message: String! }
type Query {
  """
  Orders of the shop.

  The newest come first.
  """
  orders(
    "How many" first: Int = 10
    state: State
    after: String
    gone: Int @deprecated
  ): Orders!
  people(after: String): People!
  search(text: String!): [Hit]
  node(id: ID!): Node
  ping: Boolean
  "An order" order(id: ID!): Order
  size: Int! @deprecated(reason: "Ask for count")
}
type Mutation { createOrder(input: NewOrder!): Payload! order(id: ID!): Order }
type Subscription { created: Order }
'''


def imported(text: str = SCHEMA) -> ImportResult:
    return import_description(text.encode(), "graphql")


def action(name: str, text: str = SCHEMA) -> dict[str, Any]:
    (found,) = [one for one in imported(text).actions if one["name"] == name]
    return found


def schema_of(result: ImportResult, body: dict[str, Any]) -> dict[str, Any]:
    """The JSON Schema of a body, with the definitions that it refers to."""
    known = {one["url"]: one["schema"] for one in result.definitions}
    types = {url.rpartition("/")[2]: schema for url, schema in known.items() if url.startswith("#/types/")}
    whole: dict[str, Any] = {**known[body["definition"]["$ref"]], "types": types}
    return whole


def test_every_field_of_query_and_mutation_is_an_action_that_the_schema_allows() -> None:
    schema = build_schema(SCHEMA)
    result = imported()
    names = ["orders", "people", "search", "node", "ping", "order", "size", "createOrder", "mutation_order"]
    assert [one["name"] for one in result.actions] == names
    for one in result.actions:
        assert validate(schema, parse(one["graphql"]["document"])) == [], one["graphql"]["document"]
        assert (one["method"], one["path"], one["parameters"]) == ("POST", "", [])


def test_an_action_has_arguments_types_and_texts() -> None:
    orders = action("orders")
    assert (orders["summary"], orders["graphql"]["kind"]) == ("Orders of the shop.", "query")
    assert orders["description"].endswith("The newest come first.")
    assert orders["graphql"]["answer"] == "Orders!"
    assert orders["graphql"]["arguments"] == [
        {"name": "first", "type": "Int", "required": False, "description": "How many"},
        {"name": "state", "type": "State", "required": False, "description": ""},
        {"name": "after", "type": "String", "required": False, "description": ""},
    ]
    assert action("createOrder")["graphql"]["arguments"][0]["required"] is True
    assert action("size")["errors"] == [
        {"field": "name", "message": "Deprecated: Ask for count", "severity": "warning"}
    ]


def test_a_document_selects_leaves_and_what_the_answer_refers_to() -> None:
    assert action("order")["graphql"]["document"] == (
        "query order($id: ID!) {\n"
        "  order(id: $id) {\n"
        "    id\n    reference\n    state\n    created\n"
        "    customer {\n      id\n      name\n    }\n"
        "    parent {\n      id\n      reference\n      state\n      created\n    }\n"
        "    first {\n      sku\n      quantity\n    }\n"
        "  }\n}"
    )
    assert "__typename" in action("node")["graphql"]["document"]
    assert action("ping")["graphql"]["document"] == "query ping {\n  ping\n}"


def test_connections_are_lists_in_pages() -> None:
    orders, people = action("orders")["graphql"], action("people")["graphql"]
    assert orders["pages"] == {"items": "orders", "parameter": "after"}
    assert people["pages"] == {"items": "people", "parameter": "after"}
    assert "pageInfo {\n      hasNextPage\n      endCursor" in orders["document"]
    assert "edges {\n      node {" in people["document"]
    assert "pages" not in action("search")["graphql"]


def test_variables_have_the_schema_that_the_server_demands() -> None:
    result = imported()
    (create,) = [one for one in result.actions if one["name"] == "createOrder"]
    assert create["requestBody"]["required"] is True
    (body,) = create["requestBody"]["definitions"]
    check = jsonschema_rs.validator_for(schema_of(result, body))
    line = {"sku": "a", "quantity": 2}
    for good in ({"reference": "1"}, {"reference": "1", "lines": [line], "parent": {"reference": "0"}}):
        assert check.is_valid({"input": good})
    for bad in (
        {},
        {"reference": "1", "state": "GONE"},
        {"reference": "1", "lines": [{}]},
        {"reference": None},
    ):
        assert not check.is_valid({"input": bad})
    assert not check.is_valid({})
    assert not check.is_valid({"input": {"reference": "1"}, "more": 1})
    (ping,) = [one for one in result.actions if one["name"] == "ping"]
    assert "requestBody" not in ping
    (new,) = [one for one in result.definitions if one["name"] == "NewOrder"]
    assert {one["name"] for one in new["referencedBy"]} == {"createOrder variables", "NewOrder"}


def test_what_a_server_answers_follows_the_schema_of_the_answer() -> None:
    schema, result = build_schema(SCHEMA), imported()
    order = {
        "id": "1",
        "reference": "A",
        "state": "OPEN",
        "created": None,
        "first": [{"sku": "x", "quantity": 1}],
    }
    values: dict[str, Any] = {
        "order": {**order, "parent": order, "customer": {"id": "7", "name": None}},
        "orders": {"nodes": [order], "pageInfo": {"hasNextPage": False, "endCursor": None}},
        "node": {"__typename": "Order", **order},
        "search": [{"__typename": "Order", **order}, None],
        "createOrder": {"order": order, "problems": []},
        "ping": None,
    }
    variables = {"id": "1", "text": "x", "input": {"reference": "A"}}
    for name, value in values.items():
        (one,) = [found for found in result.actions if found["name"] == name]
        given = {key: variables[key] for key in variables if f"${key}:" in one["graphql"]["document"]}
        answered = graphql_sync(schema, one["graphql"]["document"], {name: value}, variable_values=given)
        assert answered.errors is None
        (body,) = one["responses"][0]["definitions"]
        problems = list(jsonschema_rs.validator_for(schema_of(result, body)).iter_errors(answered.data))
        assert problems == [], name


def test_the_answer_to_an_introspection_query_says_the_same() -> None:
    answer = {"data": introspection_from_schema(build_schema(SCHEMA))}
    found = import_description(json.dumps(answer).encode(), "graphql")
    assert [one["graphql"] for one in found.actions] == [one["graphql"] for one in imported().actions]


def test_the_same_bytes_have_the_same_ids() -> None:
    assert imported() == imported()
    ids = [one["id"] for one in imported().definitions] + [one["id"] for one in imported().actions]
    assert len(set(ids)) == len(ids)


def test_what_is_left_out_and_what_is_wrong_is_said() -> None:
    said = [message["text"] for message in imported().messages]
    assert any("Subscriptions" in text for text in said)
    assert any("base URL is the endpoint" in text for text in said)
    broken = imported("type Query { a: Int } type A implements B { a: Int } interface B { b: Int }")
    assert broken.messages[0]["severity"] == "warning"
    assert "B.b" in broken.messages[0]["text"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("type A { a: Int }", "no type Query"),
        ("{}", "__schema"),
        ("openapi: 3.1.0", "no GraphQL schema"),
        ("type Query { a: Missing }", "Missing"),
        ("[" * 5000, "no GraphQL schema"),
        ("type Query { a(b: " + "[" * 5000 + "Int" + "]" * 5000 + "): Int }", "nested too deep"),
    ],
)
def test_what_is_no_schema_is_refused(text: str, reason: str) -> None:
    with pytest.raises(UnreadableDescription, match=reason):
        imported(text)


def test_long_chains_and_circles_of_types_are_read() -> None:
    chain = " ".join(f"input I{n} {{ next: I{n + 1} }}" for n in range(3000)) + " input I3000 { next: I0 }"
    result = imported(f"type A {{ a: A b: B }} type B {{ a: A }} type Query {{ a(i: I0): A }} {chain}")
    assert len(result.actions) == 1
    assert "__typename" in result.actions[0]["graphql"]["document"]


def test_a_wide_answer_is_cut() -> None:
    fields = " ".join(f"f{n}: Int" for n in range(5000))
    document = imported(f"type A {{ {fields} }} type Query {{ a: A }}").actions[0]["graphql"]["document"]
    assert document.count("\n") < 120


def test_a_schema_that_is_too_large_is_refused() -> None:
    with pytest.raises(DescriptionTooLarge):
        imported("#" * (MAX_GRAPHQL_BYTES + 1))


async def test_the_import_runs_in_its_process_and_its_version_says_the_format() -> None:
    with tempfile.TemporaryFile() as file:
        file.write(SCHEMA.encode())
        file.flush()
        maps = await Importer().run(file, format="graphql")
        with pytest.raises(UnreadableDescription):
            await Importer().run(file)
    names = [json.loads(line)["name"] for line in all_lines(maps, "actions")]
    assert names[:2] == ["orders", "people"]
    metadata = {"name": "shop", "namespace": "acme", "uid": "1", "labels": {}}
    connector = {
        "apiVersion": "tieline.dev/v1alpha1",
        "kind": "Connector",
        "metadata": metadata,
        "status": {"id": "01JD3YFM7CZX9KQW8T2V4N6P0K"},
    }
    digest = head_of(maps[0])["digest"]
    version = version_manifest(connector, name="1", digest=digest, maps=maps, siblings=[])
    assert version["spec"]["format"] == "graphql"
