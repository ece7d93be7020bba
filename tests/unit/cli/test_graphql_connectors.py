"""Operations of GraphQL documents as a connector: written, type checked, called on a GraphQL server, and faked."""

import ast
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from graphql import build_schema, graphql_sync, introspection_from_schema
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.inputs.type_checkers import Check, mypy, pyright
from tests.unit.cli.commands import project as written_project
from tests.unit.cli.commands import tieline
from tests.unit.cli.test_connector_modules import EVIL, STUB, check_harmless
from tieline.cli.connector_code.descriptions import description_of
from tieline.cli.connector_code.files import written
from tieline.cli.connector_code.graphql_operations import description_of_documents
from tieline.cli.connector_code.graphql_schema import operations_of, schema_of
from tieline.cli.connector_code.module import module_of
from tieline.cli.exit_codes import CommandError
from tieline.connectors.schemas import Schemas
from tieline.testing import Answer, Project
from tieline.testing.described import AnswerNotDescribedError
from tieline_core.connectors.descriptions.importer import import_description

SCHEMA = """
scalar DateTime
scalar JSON
enum State { OPEN PAID }
interface Node { id: ID! }
"An order."
type Order implements Node {
    id: ID!
    "Your own number."
    reference: String!
    state: State!
    created: DateTime
    extra: JSON
    lines(first: Int, after: String): Lines!
    customer: Customer
}
type Line { sku: String!, quantity: Int }
type Lines { edges: [LineEdge!]!, pageInfo: PageInfo! }
type LineEdge { node: Line, cursor: String! }
type Person implements Node { id: ID!, name: String! }
type Company implements Node { id: ID!, name: String!, number: String! }
union Customer = Person | Company
type Orders { nodes: [Order!]!, pageInfo: PageInfo! }
type PageInfo { hasNextPage: Boolean!, endCursor: String }
type Query {
    order(id: ID!): Order
    orders(first: Int!, after: String, where: Filter): Orders!
    node(id: ID!): Node
}
input Filter { state: State, all: [Filter!], reference: String }
input NewLine { sku: String!, quantity: Int! = 1 }
input NewOrder { reference: String!, lines: [NewLine!]! }
type Mutation { createOrder(order: NewOrder!): Order }
"""
DOCUMENTS = """
query GetOrder($id: ID!, $extra: Boolean! = false) {
    order(id: $id) {
        ...Short
        number: reference
        extra @include(if: $extra)
        customer { __typename ... on Person { name } ... on Company { name number } }
        lines(first: 10) { edges { node { sku quantity } } }
    }
}
query ListOrders($after: String, $where: Filter) {
    orders(first: 2, after: $after, where: $where) { nodes { ...Short } pageInfo { hasNextPage endCursor } }
}
query ListLines($id: ID!, $after: String) {
    order(id: $id) {
        lines(first: 2, after: $after) { edges { node { sku } } pageInfo { hasNextPage endCursor } }
    }
}
query FindNode($id: ID!) { node(id: $id) { __typename id ... on Order { reference } } }
mutation CreateOrder($order: NewOrder!) { createOrder(order: $order) { ...Short } }
fragment Short on Order { id state created }
"""
MAIN = """\
from typing import Any

from connectors.shop import Shop
from tieline import Context, GraphQLError, Integration, InvalidCallError, Request

integration = Integration()


@integration.webhook("typed")
async def typed(ctx: Context, request: Request) -> Any:
    shop = Shop(ctx)
    created = await shop.create_order({"order": {"reference": "A-9", "lines": [{"sku": "x"}]}})
    found = await shop.get_order({"id": "1"})
    listed = [order["id"] async for order in shop.list_orders_pages({"where": {"state": "OPEN"}})]
    lines = [line["sku"] async for line in shop.list_lines_pages({"id": "1"}) if line]
    return {"created": created, "found": found, "listed": listed, "lines": lines}


@integration.webhook("call")
async def call(ctx: Context, request: Request) -> Any:
    try:
        return await ctx.call("shop", **await request.json())
    except InvalidCallError as error:
        return {"problems": error.problems}
    except GraphQLError as error:
        return {"errors": str(error)}
"""


def file_of(documents: str = DOCUMENTS, schema: str = SCHEMA) -> dict[str, Any]:
    parsed = schema_of(schema.encode(), "schema.graphql").schema
    found = description_of_documents(
        parsed,
        operations_of(parsed, {"shop.graphql": documents.encode()}),
        name="shop",
        version="",
        class_named="Shop",
    )
    content: dict[str, Any] = json.loads(json.dumps(found))
    return content


ORDERS = [
    {"id": str(number), "reference": f"A-{number}", "state": "OPEN", "created": None, "customer": None}
    for number in range(1, 6)
]


def page(items: list[Any], first: int, after: str | None) -> tuple[list[Any], dict[str, Any]]:
    start = int(after or 0)
    end = start + first
    return items[start:end], {"hasNextPage": end < len(items), "endCursor": str(end)}


class Shop:
    """A GraphQL server with the orders."""

    def __init__(self) -> None:
        self.schema = build_schema(SCHEMA)

    def __call__(self, request: Any) -> Answer:
        given = request.json()
        found = graphql_sync(
            self.schema,
            given["query"],
            self,
            variable_values=given["variables"],
            operation_name=given["operationName"],
        )
        return Answer.of(json=found.formatted)

    def order(self, _info: Any, id: str) -> Any:
        if id == "broken":
            raise ValueError("it broke")
        return {
            **ORDERS[int(id) - 1],
            "lines": self.lines,
            "customer": {"__typename": "Person", "name": "Ann"},
        }

    def lines(self, _info: Any, first: int, after: str | None = None) -> Any:
        items, info = page([{"sku": f"s{number}", "quantity": 1} for number in range(3)], first, after)
        return {"edges": [{"node": item} for item in items], "pageInfo": info}

    def orders(self, _info: Any, first: int, after: str | None = None, where: Any = None) -> Any:
        assert where in (None, {"state": "OPEN"})
        items, info = page(ORDERS, first, after)
        return {"nodes": items, "pageInfo": info}

    def createOrder(self, _info: Any, order: Any) -> Any:  # noqa: N802  (the field's name)
        assert order == {"reference": "A-9", "lines": [{"sku": "x", "quantity": 1}]}
        return {"id": "9", "state": "OPEN", "reference": "A-9"}


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    content = file_of()
    (tmp_path / "main.py").write_text(MAIN)
    (tmp_path / "connectors").mkdir()
    (tmp_path / "connectors/shop.json").write_text(json.dumps(content))
    (tmp_path / "connectors/shop.py").write_text(module_of(content, "shop"))
    with Project(tmp_path) as made:
        made.connection("shop")
        yield made


def call(project: Project, operation: str, body: Any = None) -> Any:
    answer = project.post("/call", json={"operation": operation, "body": body})
    assert answer.status == 200, [entry.error for entry in project.logs]
    return answer.json()


def test_a_typed_module_asks_a_graphql_server(project: Project) -> None:
    shop = project.connection("shop")
    shop.on("POST", "/graphql").answer(Shop())
    answer = project.post("/typed")
    assert answer.status == 200, [entry.error for entry in project.logs]
    assert answer.json() == {
        "created": {"createOrder": {"id": "9", "state": "OPEN", "created": None}},
        "found": {
            "order": {
                "id": "1",
                "state": "OPEN",
                "created": None,
                "number": "A-1",
                "customer": {"__typename": "Person", "name": "Ann"},
                "lines": {"edges": [{"node": {"sku": f"s{number}", "quantity": 1}} for number in range(3)]},
            }
        },
        "listed": ["1", "2", "3", "4", "5"],
        "lines": ["s0", "s1", "s2"],
    }
    assert len(shop.requests) == 2 + 3 + 2
    assert "ListOrders" not in shop.requests[1].json()["query"]
    assert {span.name for span in project.spans} >= {"GetOrder", "ListOrders"}


def test_variables_are_checked_before_they_are_sent(project: Project) -> None:
    assert call(project, "GetOrder") == {"problems": ["body: is needed"]}
    problems = call(project, "CreateOrder", {"order": {"reference": 7, "lines": [], "lins": 1}})["problems"]
    assert any(one.startswith("body.order.reference: ") for one in problems)
    assert any("lins" in one for one in problems)
    assert not project.connection("shop").requests


def test_errors_of_the_server_are_errors(project: Project) -> None:
    project.connection("shop").on("POST", "/graphql").answer(Shop())
    assert "it broke" in call(project, "GetOrder", {"id": "broken"})["errors"]


def test_fakes_answer_as_the_schema_says(project: Project) -> None:
    shop = project.connection("shop")
    shop.answer("FindNode", json={"node": None})
    shop.answer("CreateOrder")
    assert call(project, "FindNode", {"id": "1"}) == {"node": None}
    made = {"createOrder": {"id": "text", "state": "OPEN", "created": "text"}}
    assert call(project, "CreateOrder", {"order": {"reference": "x", "lines": []}}) == made
    with pytest.raises(AnswerNotDescribedError, match=r"answer.node: "):
        shop.answer("FindNode", json={"node": {"__typename": "Order", "id": "1", "reference": 7}})


USED = """\
from typing import assert_type

from shop import GetOrderDataOrder, Shop


async def use(shop: Shop) -> None:
    order = (await shop.get_order({"id": "1"}))["order"]
    assert_type(order, GetOrderDataOrder | None)
    if order is not None:
        customer = order["customer"]
        if customer is not None and customer["__typename"] == "Company":
            print(customer["number"])
        print(order["number"], order["lines"]["edges"][0]["node"])
        print(order["refrence"])  # wrong
    await shop.list_orders()
    await shop.list_orders({"where": {"all": [{"state": "PAID"}]}})
    await shop.list_orders({"where": {"all": [{"state": "GONE"}]}})  # wrong
    await shop.get_order({"idd": "1"})  # wrong
    await shop.get_order({})  # wrong
    await shop.create_order({"order": {"reference": "A", "lines": [{"sku": "x"}]}})
    await shop.create_order({"order": {"reference": "A", "lines": [{"skuu": "x"}]}})  # wrong
    [line["sku"] async for line in shop.list_lines_pages({"id": "1"}) if line]
    [order["sku"] async for order in shop.list_orders_pages()]  # wrong
"""


@pytest.mark.parametrize("checker", [mypy, pyright])
def test_only_what_is_selected_type_checks(tmp_path: Path, checker: Callable[[Path], Check]) -> None:
    (tmp_path / "shop.py").write_text(module_of(file_of(), "shop"))
    (tmp_path / "use.py").write_text(USED)
    (tmp_path / "tieline.pyi").write_text(STUB)
    check = checker(tmp_path)
    wrong = [number for number, line in enumerate(USED.splitlines(), 1) if "# wrong" in line]
    assert check.lines("use.py") == wrong, check.output
    assert check.lines("shop.py") == []


def test_introspection_gives_what_the_schema_language_gives() -> None:
    introspected = json.dumps({"data": introspection_from_schema(build_schema(SCHEMA))})
    assert file_of(schema=introspected) == file_of()


def test_types_of_which_the_same_is_selected_are_one_object() -> None:
    content = file_of("query Q { node(id: 1) { __typename id ... on Order { reference } } }")
    node = content["schemas"]["QData"]["properties"]["node"]
    kinds = [one["properties"]["__typename"]["enum"] for one in node["anyOf"][:-1]]
    assert sorted(kinds) == [["Company", "Person"], ["Order"]]


def test_alternatives_are_named_and_told_apart_by_their_type() -> None:
    types = "".join(f"type T{number} implements N {{ id: ID! }}" for number in range(300))
    schema = f"interface N {{ id: ID! }} type Query {{ n: N }} {types}"
    source = module_of(file_of("query Q { n { __typename ... on T7 { id } } }", schema), "shop")
    assert "QDataNT7 = TypedDict(" in source
    assert source.count("T299") == 1


def test_a_field_that_a_condition_leaves_out_may_be_missing() -> None:
    content = file_of(
        "query Q($x: Boolean!) { order(id: 1) { id reference @skip(if: $x) ... @include(if: $x) { state } } }"
    )
    order = content["schemas"]["QData"]["properties"]["order"]["anyOf"][0]
    assert order["required"] == ["id"]
    assert set(order["properties"]) == {"id", "reference", "state"}


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("query Q { oder { id } }", "shop.graphql:1:11: Cannot query field 'oder'"),
        ("query Q($id: ID!) { order(id: $idd) { id } }", "shop.graphql:1:31, shop.graphql:1:1: Variable '$idd'"),
        ("{ order(id: 1) { id } }", "An operation has no name; write `query Name { … }`"),
        ("query Q {", "shop.graphql:1:10: Syntax Error"),
        ("fragment F on Order { id }", "Fragment 'F' is never used"),
        ("query Q { order(id: 1) { ...F } } fragment F on Order { customer { ...F } }", "Fragment 'F'"),
        ("", "shop.graphql:1:1: Syntax Error"),
        ("query Q {" + "a{" * 5_000, "is nested too deep"),
    ],
)  # fmt: skip
def test_documents_that_do_not_fit_are_refused_with_their_place(document: str, said: str) -> None:
    with pytest.raises(CommandError) as caught:
        file_of(document)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("type Query { a: Missing }", "Unknown type 'Missing'"),
        ("query Q { a }", "is no GraphQL schema"),
        ("{}", "has no __schema"),
        ("{", "is no GraphQL schema"),
        ('{"__schema": {}}', "is no GraphQL schema"),
        ("\ud800".encode("utf-8", "surrogatepass").decode("latin-1"), "is no GraphQL schema"),
        ("type Query { a: " + "[" * 100_000, "is nested too deep"),
    ],
)  # fmt: skip
def test_schemas_that_are_none_are_refused(schema: str, said: str) -> None:
    with pytest.raises(CommandError) as caught:
        schema_of(schema.encode(), "schema.graphql")
    assert said in str(caught.value)


def test_fragments_that_multiply_are_refused() -> None:
    document = "query Q { ...F0 }" + "".join(
        f"fragment F{level} on Query {{ a{level}: q {{ ...F{level + 1} }} b{level}: q {{ ...F{level + 1} }} }}"
        for level in range(30)
    )
    with pytest.raises(CommandError, match="selects more than 20,000 fields"):
        file_of(f"{document} fragment F30 on Query {{ x }}", "type Query { q: Query, x: Int }")


EVIL_NAMES = [
    name for name in (*EVIL, "nodes", "x") if name.isascii() and name.isidentifier() and name[:2] != "__"
]


@settings(max_examples=100)
@given(
    st.lists(st.sampled_from(EVIL_NAMES), min_size=4, max_size=4, unique=True),
    st.sampled_from(EVIL),
    st.booleans(),
)
def test_no_schema_gets_code_into_the_module(names: list[str], text: str, plain: bool) -> None:
    field, kind, argument, operation = names
    quoted = json.dumps(text)
    schema = (
        f"type Query {{ {quoted} {field}({argument}: I{kind}): T{kind} }} "
        f"type T{kind} {{ {quoted} {argument}: String, {operation}: [T{kind}] }} "
        f"input I{kind} {{ {quoted} {field}: Int = 3, {operation}: I{kind} }}"
    )
    selected = f"{{ {argument} {operation} {{ {argument} }} }}"
    document = f"query {operation}($v: I{kind}) {{ {kind}: {field}({argument}: $v) {selected} }}"
    content = file_of(document, schema)
    source = module_of(content, "shop", plain=plain)
    check_harmless(source)
    ast.parse(source)
    assert not Schemas(content["schemas"]).findings(
        content["operations"][operation]["answers"]["200"]["schema"], {kind: None}, "x"
    )


def test_the_command_writes_the_files_and_says_when_they_are_stale(tmp_path: Path) -> None:
    folder = written_project(tmp_path / "p", {"connectors/shop.graphql": DOCUMENTS, "shop.graphqls": SCHEMA})
    ended = tieline("connectors", "add", "shop", "--schema", "shop.graphqls", cwd=folder)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "from connectors.shop import Shop" in ended.stdout
    module = (folder / "connectors/shop.py").read_text()
    assert "    async def get_order(" in module
    again = tieline("connectors", "add", "shop", "--check", cwd=folder)
    assert again.returncode == 0, again.stderr
    (folder / "connectors/shop.graphql").write_text(DOCUMENTS.replace("number: ", "nummer: "))
    stale = tieline("connectors", "add", "shop", "--check", cwd=folder)
    assert stale.returncode == 1
    assert "is out of date" in stale.stderr
    (folder / "connectors/shop.graphql").write_text(DOCUMENTS.replace("reference", "refrence"))
    wrong = tieline("connectors", "add", "shop", cwd=folder)
    assert wrong.returncode == 1
    assert "connectors/shop.graphql:5:9: Cannot query field 'refrence' on type 'Order'" in wrong.stderr
    assert (folder / "connectors/shop.py").read_text() == module


def test_errors_of_a_published_schema_are_told_and_ignored(tmp_path: Path) -> None:
    schema = SCHEMA.replace("type Line {", "type Line { sku: String!")
    folder = written_project(tmp_path / "p", {"connectors/shop.graphql": DOCUMENTS, "shop.graphqls": schema})
    ended = tieline("connectors", "add", "shop", "--schema", "shop.graphqls", cwd=folder)
    assert ended.returncode == 0
    assert "shop.graphqls has 1 errors, which are ignored: " in ended.stderr
    assert "Field 'Line.sku' can only be defined once." in ended.stderr
    introspected = introspection_from_schema(build_schema(SCHEMA))
    one = next(item for item in introspected["__schema"]["types"] if item["name"] == "NewLine")
    one["inputFields"] = []  # type: ignore[typeddict-unknown-key]
    (folder / "shop.json").write_text(json.dumps(introspected))
    ended = tieline("connectors", "add", "shop", "--schema", "shop.json", cwd=folder)
    assert ended.returncode == 0, ended.stderr
    assert "shop.json has 1 errors, which are ignored: " in ended.stderr


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    folder = written_project(tmp_path / "p", {"shop.graphqls": SCHEMA})
    ended = tieline("connectors", "add", "shop", "--schema", "shop.graphqls", cwd=folder)
    assert "There are no operations; write them to connectors/shop.graphql" in ended.stderr
    ended = tieline("connectors", "add", "shop", "--documents", "x.graphql", cwd=folder)
    assert "give it by --schema" in ended.stderr


def test_operations_of_an_imported_schema_are_called_like_those_of_documents(tmp_path: Path) -> None:
    result = import_description(SCHEMA.encode(), "graphql")
    content = description_of(
        connector={"id": "01", "name": "Shop"},
        version={"name": "1"},
        actions=json.loads(json.dumps(result.actions)),
        definitions=result.definitions,
        class_named="Shop",
    )
    (tmp_path / "main.py").write_text(IMPORTED)
    (tmp_path / "connectors").mkdir()
    (tmp_path / "connectors/shop.json").write_text(written(content))
    (tmp_path / "connectors/shop.py").write_text(module_of(content, "shop"))
    with Project(tmp_path) as made:
        shop = made.connection("shop")
        shop.on("POST", "/graphql").answer(Shop())
        answer = made.post("/imported")
        assert answer.status == 200, [entry.error for entry in made.logs]
        assert answer.json() == {
            "created": "9",
            "listed": ["1", "2", "3", "4", "5"],
            "wrong": ['body: "id" is a required property'],
        }
        assert {span.name for span in made.spans} >= {"orders", "createOrder"}


IMPORTED = """\
from typing import Any

from connectors.shop import Shop
from tieline import Context, Integration, InvalidCallError

integration = Integration()


@integration.webhook("imported")
async def imported(ctx: Context) -> Any:
    shop = Shop(ctx)
    created = await shop.create_order({"order": {"reference": "A-9", "lines": [{"sku": "x"}]}})
    order = created["createOrder"]
    listed = [found["id"] async for found in shop.orders_pages({"first": 2})]
    try:
        await ctx.call("shop", "order", body={})
    except InvalidCallError as error:
        return {"created": order and order["id"], "listed": listed, "wrong": error.problems}
"""
