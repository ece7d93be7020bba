"""Typed modules of connectors: they compile and type check, and no description gets code into them."""

import ast
import copy
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from tests.harness.inputs import api_descriptions
from tests.harness.inputs.type_checkers import Check, mypy, pyright
from tests.unit.cli.connector_files import SHOP, file_of, file_of_bytes, source_of
from tieline.cli.connector_code.module import module_of
from tieline.cli.connector_code.names import Names, class_name, docstring, literal, snake_name

EVIL = [
    "class", "import os", "__class__", "__init__", "_ctx", "self", "body", "options", "cast", "list", "str", "dict",
    "Any", "Shop", "Context", "TypedDict", "None", "True", "match", "ctx", "connector", "__import__('os').system('x')",
    '"""', "'''", '\\"""\nimport os\n', "a\rimport os", "a\x0cimport os", "a\u2028import os", "a\u0085b", "#", "\x00",
    "\u202eevil", "日本語", "ｃｌａｓｓ", "ªº", "../../etc/passwd", "..\\..\\x", "/abs", "a/b", "{x}", "%s", "", " ",
    "0", "1abc", "a" * 500, "-", "_", "__", "get-order", "get_order", "getOrder", "GetOrder", "\\N{DASH}", "f'{1}'",
    "print", "open", "return", "async", "Order", "order", "items", "\N{ZERO WIDTH SPACE}x", "]", "Literal['x']",
]  # fmt: skip
# A description that fails is small enough to be read as it is, and shrinking one takes minutes.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
STUB = """
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Generic, TypeVar

V = TypeVar("V")
Given = Mapping[str, Any] | None

class Context(Generic[V]):
    async def call(
        self, template: str, operation: str, *, connector: str, body: Any = ..., path: Given = ..., query: Given = ...,
        headers: Given = ..., **options: Any,
    ) -> Any: ...
    def call_pages(
        self, template: str, operation: str, *, connector: str, body: Any = ..., path: Given = ..., query: Given = ...,
        headers: Given = ..., **options: Any,
    ) -> AsyncIterator[Any]: ...

class SyncContext(Generic[V]):
    def call(
        self, template: str, operation: str, *, connector: str, body: Any = ..., path: Given = ..., query: Given = ...,
        headers: Given = ..., **options: Any,
    ) -> Any: ...
    def call_pages(
        self, template: str, operation: str, *, connector: str, body: Any = ..., path: Given = ..., query: Given = ...,
        headers: Given = ..., **options: Any,
    ) -> Iterator[Any]: ...
"""
CALLED = {"TypedDict", "cast", "call", "call_pages"}
IMPORTED = {"__future__", "collections.abc", "typing", "tieline"}
NODES = (
    ast.Module, ast.Expr, ast.Constant, ast.ImportFrom, ast.alias, ast.ClassDef, ast.AnnAssign, ast.Assign, ast.Name,
    ast.Load, ast.Store, ast.Subscript, ast.Tuple, ast.BinOp, ast.BitOr, ast.Call, ast.Dict, ast.FunctionDef,
    ast.AsyncFunctionDef, ast.arguments, ast.arg, ast.Attribute, ast.Return, ast.Await, ast.keyword, ast.UnaryOp,
    ast.USub, ast.BoolOp, ast.Or,
)  # fmt: skip


def check_harmless(source: str) -> None:
    """The source is types, and methods that call operations: whatever else there is came from a description."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        assert isinstance(node, NODES), ast.dump(node)
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id  # type: ignore[attr-defined]
            assert name in CALLED
        if isinstance(node, ast.ImportFrom):
            assert node.module in IMPORTED
    exec(compile(tree, "module", "exec"), {"__name__": "module"})
    for line in source.splitlines():
        assert line.isprintable()


# Half letters: the importer refuses files with them, and they may be in names that are typed at the command.
HALF = "\ud800"
names = st.one_of(st.sampled_from(EVIL), st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
references = st.one_of(
    names.map(lambda name: f"#/components/schemas/{name}"),
    st.sampled_from(
        [
            "#/components/schemas/A", "#/components/schemas/B", "#/components/schemas/A/properties/x", "#",
            "#/components/schemas/B/items", "http://evil.example/x.json", "file:///etc/passwd", "../../x.json#/A",
            "#/x", "#/components/schemas/A/allOf/0",
        ]
    ),
)  # fmt: skip
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**62), 2**62),
    st.floats(allow_nan=False, allow_infinity=False),
    names,
)


def objects(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.one_of(
                st.sampled_from(
                    ["object", "array", "string", "integer", "number", "boolean", "null", "file", "evil()"]
                ),
                st.lists(st.sampled_from(["object", "string", "null", "array"]), max_size=3),
            ),
            "properties": st.dictionaries(names, children, max_size=4),
            "required": st.lists(names, max_size=3),
            "items": children,
            "additionalProperties": st.one_of(st.booleans(), children),
            "allOf": st.lists(children, max_size=3),
            "anyOf": st.lists(children, max_size=3),
            "oneOf": st.lists(children, max_size=3),
            "enum": st.lists(scalars, max_size=5),
            "const": scalars,
            "pattern": st.one_of(names, st.sampled_from(["(", "(?=a)b", "a{1000000}", "(a+)+$"])),
            "minimum": scalars,
            "exclusiveMinimum": scalars,
            "maxLength": scalars,
            "multipleOf": scalars,
            "nullable": st.booleans(),
            "readOnly": st.booleans(),
            "description": names,
            "default": scalars,
            "example": scalars,
            "format": names,
        },
    )


schemas = st.recursive(
    st.one_of(st.builds(lambda one: {"$ref": one}, references), objects(st.just({})), scalars),
    objects,
    max_leaves=8,
)
parameters = st.fixed_dictionaries(
    {"name": names, "in": st.sampled_from(["path", "query", "header", "cookie", "evil"]), "schema": schemas},
    optional={"required": st.booleans(), "style": names, "explode": st.booleans()},
)
contents = st.dictionaries(
    st.sampled_from(["application/json", "text/plain", "multipart/form-data", "evil\n", "*/*"]),
    st.fixed_dictionaries({"schema": schemas}, optional={"example": scalars}),
    max_size=2,
)
answers = st.fixed_dictionaries({"description": names, "content": contents})
operations = st.fixed_dictionaries(
    {"responses": st.dictionaries(st.sampled_from(["200", "201", "2XX", "204", "default"]), answers, max_size=3)},
    optional={
        "operationId": names,
        "summary": names,
        "parameters": st.lists(parameters, max_size=4),
        "requestBody": st.fixed_dictionaries({"content": contents}, optional={"required": st.booleans()}),
    },
)  # fmt: skip
descriptions = st.fixed_dictionaries(
    {
        "openapi": st.sampled_from(["3.0.3", "3.1.0"]),
        "info": st.fixed_dictionaries({"title": names, "version": st.just("1")}),
        "paths": st.dictionaries(
            names.map(lambda name: f"/{name}"),
            st.dictionaries(st.sampled_from(["get", "post", "delete"]), operations, max_size=2),
            max_size=3,
        ),
        "components": st.fixed_dictionaries(
            {"schemas": st.dictionaries(st.one_of(names, st.sampled_from(["A", "B"])), schemas, max_size=5)}
        ),
    }
)


@settings(max_examples=60, phases=PHASES, suppress_health_check=list(HealthCheck))
@given(descriptions, st.booleans())
def test_no_description_gets_code_into_the_module(description: dict[str, Any], plain: bool) -> None:
    source = source_of(description, plain=plain)
    check_harmless(source)
    assert source == source_of(copy.deepcopy(description), plain=plain)


@settings(max_examples=300)
@given(st.one_of(names, st.text()))
@example(HALF)
def test_texts_become_names_and_literals_of_themselves(text: str) -> None:
    assert class_name(text).isidentifier()
    assert snake_name(text).isidentifier()
    assert ast.literal_eval(literal(text)) == text
    assert ast.literal_eval(f'"""{docstring(text)}"""') == docstring(text)
    assert "\n" not in literal(text) + docstring(text)


def hostile() -> Iterator[tuple[str, dict[str, Any]]]:
    """Descriptions that have it all, each for a module of its own."""
    yield "shop", SHOP
    schema = {
        "type": "object",
        "required": EVIL[:20],
        "properties": {name: {"type": "string"} for name in EVIL},
    }
    circles = {
        "A": {"allOf": [{"$ref": "#/components/schemas/A"}, {"$ref": "#/components/schemas/B"}]},
        "B": {"anyOf": [{"$ref": "#/components/schemas/A"}, {"$ref": "#/components/schemas/B"}]},
        "Json": {
            "oneOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#/components/schemas/Json"}}]
        },
        "Tree": {
            "type": "object",
            "properties": {
                "children": {"type": "array", "items": {"$ref": "#/components/schemas/Tree"}},
                "class": {"$ref": "#/components/schemas/Tree"},
                "Tree": {"$ref": "#/components/schemas/Tree"},
                "list": {"type": "array", "items": {"type": "integer"}},
            },
        },
        "Huge": {"type": "string", "enum": [f"choice {number}" for number in range(5000)]},
        "Kinds": {"enum": ["a", 1, None, True, 'x"y', "\u202e", -1]},
        "Remote": {"$ref": "https://evil.example/schema.json"},
    }
    anything = {"content": {"application/json": {"schema": {"type": "array", "items": {}}}}}
    bodies = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Tree"}}}}
    paths = {
        f"/{number}/{{id}}": {
            "get": {
                "operationId": name,
                "summary": name,
                "parameters": [
                    {"name": other, "in": "query", "schema": {"type": "string"}} for other in EVIL
                ],
                "responses": {"200": {"description": name, **bodies}, "204": {"description": "none"}},
            },
            "post": {
                "operationId": name,
                "requestBody": {
                    "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{kind}"}}}
                },
                "responses": {"default": {"description": name, **bodies}},
            },
        }
        for number, (name, kind) in enumerate(zip(EVIL, [*circles, "Evil"] * 20, strict=False))
    }
    named = {name: {"type": "object", "properties": {name: {}}} for name in EVIL}
    paths["/any"] = {
        "get": {
            "parameters": [{"name": "page", "in": "query", "schema": {"type": "integer"}}],
            "responses": {"200": {"description": "a list of anything, in pages", **anything}},
        }
    }
    yield (
        "evil",
        {
            "openapi": "3.0.3",
            "info": {"title": EVIL[12], "version": "1"},
            "paths": paths,
            "components": {"schemas": {"Evil": schema, **circles, **named}},
        },
    )  # fmt: skip


def check_types(folder: Path) -> None:
    """All modules in a folder are strictly typed."""
    complaints = type_errors(folder)
    assert not complaints, "\n".join(complaints)[-3000:]


def type_errors(folder: Path) -> list[str]:
    """What mypy says of the modules in a folder."""
    # Without all of the runtime and its libraries, it takes a tenth of the time.
    (folder / "tieline.pyi").write_text(STUB)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(folder / "cache"), "."]
    checked = subprocess.run(  # noqa: PLW1510  (looked at below)
        command, cwd=folder, env={"PATH": ""}, capture_output=True, text=True, timeout=300
    )
    assert checked.returncode in (0, 1), checked.stdout[-3000:] + checked.stderr[-3000:]
    return [line for line in checked.stdout.splitlines() if ": error:" in line]


USED = """\
from shop import Shop


async def use(shop: Shop) -> None:
    await shop.list_orders(state="open", timeout=3, retries=0)
    [_ async for _ in shop.list_orders_pages(max_pages=2)]
    await shop.upload({"file": b"content", "name": "x"})
    await shop.list_orders(total={"above": 1})
    await shop.list_orders(stat="open")  # wrong
    await shop.list_orders(timeuot=3)  # wrong
    [_ async for _ in shop.list_orders_pages(after="x")]  # wrong
    await shop.upload({"fiel": b"content"})  # wrong
    await shop.upload({"file": 7})  # wrong
    await shop.list_orders(total={"above": 1, "admin": True})  # wrong
    await shop.create_order({"reference": "A-1", "lines": [{"sku": "x"}]})
    await shop.create_order({"refrence": "A-1", "lines": []})  # wrong
    await shop.create_order({"reference": "A-1", "lines": [{"sku": "x", "quantty": 1}]})  # wrong
    await shop.create_order({"reference": "A-1"})  # wrong
    print((await shop.get_order("7"))["refrence"])  # wrong
"""


@pytest.mark.parametrize("checker", [mypy, pyright])
def test_misspelt_parameters_options_and_fields_do_not_type_check(
    tmp_path: Path, checker: Callable[[Path], Check]
) -> None:
    (tmp_path / "shop.py").write_text(source_of(SHOP))
    (tmp_path / "use.py").write_text(USED)
    (tmp_path / "tieline.pyi").write_text(STUB)
    wrong = [number for number, line in enumerate(USED.splitlines(), 1) if "# wrong" in line]
    check = checker(tmp_path)
    assert check.lines("use.py") == wrong, check.output
    assert check.lines("shop.py") == []


def test_a_parameter_called_as_an_option_has_a_name_of_its_own() -> None:
    description = copy.deepcopy(SHOP)
    description["paths"]["/orders"]["get"]["parameters"].append(
        {"name": "timeout", "in": "query", "schema": {}}
    )
    assert "timeout_2: str | None = None" in source_of(description)


def test_modules_type_check_strictly(tmp_path: Path) -> None:
    @settings(
        max_examples=25,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(descriptions)
    def collect(description: dict[str, Any]) -> None:
        found.append((f"drawn{len(found)}", description))

    found = list(hostile())
    collect()
    for name, description in found:
        for plain in (False, True):
            source = source_of(description, name, plain=plain)
            check_harmless(source)
            (tmp_path / f"{name}{'_sync' if plain else ''}.py").write_text(source, encoding="utf-8")
    check_types(tmp_path)


def test_modules_of_published_descriptions_type_check(tmp_path: Path) -> None:
    for number, (name, data) in enumerate(api_descriptions.examples()):
        if name.endswith(".json"):
            source = module_of(file_of_bytes(data), "shop")
            check_harmless(source)
            (tmp_path / f"example{number}.py").write_text(source, encoding="utf-8")
    used = {"issues/create", "issues/list-for-repo", "pulls/list-files", "repos/get", "git/create-blob"}
    source = module_of(file_of_bytes(api_descriptions.github(), only=used), "github")
    (tmp_path / "github.py").write_text(source, encoding="utf-8")
    assert "    def issues_list_for_repo_pages(" in source
    check_types(tmp_path)


def test_a_module_is_formatted_as_ruff_would(tmp_path: Path) -> None:
    path = tmp_path / "shop.py"
    path.write_text(source_of(SHOP).replace("# fmt: off\n", ""))
    ruff = Path(sys.executable).with_name("ruff")
    checked = subprocess.run(  # noqa: PLW1510  (looked at below)
        [ruff, "format", "--isolated", "--line-length", "110", "--check", path],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_module_has_a_method_for_each_operation() -> None:
    source = source_of(SHOP)
    methods = {
        node.name: [argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)]
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert methods == {
        "__init__": ["self", "ctx", "template"],
        "create_order": ["self", "body", "idempotency_key", "headers"],
        "delete_order": ["self", "id", "headers"],
        "get_order": ["self", "id", "headers"],
        "list_orders": ["self", "state", "tags", "ids", "after", "total", "headers"],
        "list_orders_pages": ["self", "state", "tags", "ids", "total", "headers"],
        "upload": ["self", "body", "headers"],
    }
    assert "class Order(TypedDict):" in source
    assert '"from": "NotRequired[str]"' in source


def test_only_what_the_named_operations_need_is_kept() -> None:
    whole, part = file_of(SHOP), file_of(SHOP, only={"deleteOrder"})
    assert set(part["operations"]) == {"deleteOrder"}
    assert part["schemas"] == {}
    assert whole["operations"]["deleteOrder"] == part["operations"]["deleteOrder"]


def test_references_to_other_places_are_not_kept() -> None:
    description = copy.deepcopy(SHOP)
    description["components"]["schemas"]["Line"]["properties"]["sku"] = {"$ref": "file:///etc/passwd"}
    description["components"]["schemas"]["Line"]["$id"] = "https://evil.example"
    text = json.dumps(file_of(description))
    assert "passwd" not in text
    assert "evil" not in text


CURSOR = {"kind": "cursor", "parameter": "after", "next": "meta.next", "items": "data"}
NUMBERED = {
    "kind": "numbered",
    "parameter": "page",
    "start": 1,
    "sizeParameter": "per_page",
    "size": 100,
    "items": "",
}
OFFSET = {"kind": "offset", "parameter": "offset", "limitParameter": "limit", "limit": 100, "items": "rows"}


@pytest.mark.parametrize(
    ("query", "answer", "headers", "pages"),
    [
        ("after", {"data": [], "meta": {"next": "x"}}, None, CURSOR),
        ("page per_page:maximum", [], None, NUMBERED),
        ("page per_page:default", [], None, NUMBERED | {"size": 30}),
        ("page:first", [], None, {"kind": "numbered", "parameter": "page", "start": 0, "items": ""}),
        # Without a size that the system surely gives, a short page might not be the last one.
        ("page per_page", [], None, {"kind": "numbered", "parameter": "page", "start": 1, "items": ""}),
        ("offset limit:maximum", {"rows": []}, None, OFFSET),
        ("offset limit", {"rows": []}, None, None),
        ("", [], {"Link": {}}, {"kind": "link", "items": ""}),
        ("", {"a": [], "b": []}, None, None),
        ("after", {"data": []}, None, None),
        ("q", {"data": []}, None, None),
    ],
)  # fmt: skip
def test_pages_are_what_the_description_says(
    query: str, answer: Any, headers: Any, pages: dict[str, Any] | None
) -> None:
    def schema(value: Any) -> dict[str, Any]:
        if isinstance(value, list):
            return {"type": "array", "items": {}}
        if isinstance(value, dict):
            return {"type": "object", "properties": {key: schema(item) for key, item in value.items()}}
        return {"type": "string"}

    sizes = {
        "": {},
        "first": {"type": "integer", "default": 0},
        "maximum": {"maximum": 500, "default": 30},
        "default": {"default": 30},
    }
    response = {"description": "", "content": {"application/json": {"schema": schema(answer)}}}
    description = {
        "openapi": "3.1.0",
        "info": {"title": "x", "version": "1"},
        "paths": {
            "/x": {
                "get": {
                    "operationId": "x",
                    "parameters": [
                        {"name": name, "in": "query", "schema": {"type": "string", **sizes[said]}}
                        for name, _, said in (word.partition(":") for word in query.split())
                    ],
                    "responses": {"200": {**response, **({"headers": headers} if headers else {})}},
                }
            }
        },
    }
    assert file_of(description)["operations"]["x"].get("pages") == pages


def test_thousands_of_operations_without_a_name_of_their_own_get_different_ones() -> None:
    # One after the other, this many would look for their number for minutes.
    names = Names()
    assert len({names.free("operation") for _ in range(100_000)}) == 100_000


def test_definitions_with_very_many_ways_through_them_have_a_type() -> None:
    # 12 choices of 12 choices of …: as many ways as there are atoms in a cell.
    levels: dict[str, Any] = {
        f"L{level}": {"oneOf": [{"$ref": f"#/components/schemas/L{level + 1}"}] * 12} for level in range(12)
    }
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/L0"}}}
    operation = {"operationId": "get", "responses": {"200": {"description": "", "content": content}}}
    description = {
        "openapi": "3.1.0",
        "info": {"title": "x", "version": "1"},
        "paths": {
            f"/{number}": {"get": {**operation, "operationId": f"get{number}"}} for number in range(50)
        },
        "components": {"schemas": {**levels, "L12": {"type": "string"}}},
    }
    assert "async def get7(" in source_of(description)
