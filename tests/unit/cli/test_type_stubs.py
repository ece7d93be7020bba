"""``tieline types``: what a schema says, as classes that type checkers and Python both take."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.harness.inputs.type_checkers import mypy_cache
from tests.unit.cli.commands import project, tieline
from tieline.cli.type_stubs import HEADER, variables_types

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["region"],
    "properties": {
        "region": {"enum": ["eu", "us"], "description": "Where the customer's data is kept"},
        "rate": {"type": "number", "default": 1},
        "tags": {"type": "array", "items": {"type": "string"}},
        "limits": {"$ref": "#/$defs/limits"},
        "owner": {"type": ["string", "null"]},
        "either": {"anyOf": [{"type": "integer"}, {"type": "boolean"}]},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "anything": {},
    },
    "$defs": {
        "limits": {
            "type": "object",
            "properties": {"per-day": {"type": "integer"}, "child": {"$ref": "#/$defs/limits"}},
        }
    },
}


def test_each_property_has_its_type() -> None:
    text = variables_types(SCHEMA)
    assert text.startswith(HEADER)
    types = {
        "region": 'Literal["eu", "us"]',
        "rate": "float",
        "tags": "list[str]",
        "limits": "VariablesLimits",
        "owner": "str | None",
        "either": "int | bool",
        "labels": "dict[str, str]",
        "anything": "Any",
        "child": "VariablesLimits",
    }
    for name, kind in types.items():
        assert f"    {name}: {kind}\n" in text
    for name, kind in {**types, "per-day": "int"}.items():
        assert f'    def __getitem__(self, key: Literal["{name}"], /) -> {kind}: ...\n' in text
    assert '"eu", "us"]\n    """Where the customer\'s data is kept"""\n' in text
    module: dict[str, Any] = {}
    exec(compile(text, "variables.py", "exec"), module)
    assert module["Variables"].__annotations__.keys() == SCHEMA["properties"].keys()


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"properties": {"class": {"type": "string"}, "a b": {"$ref": "#/nowhere"}, "1": True}},
        {
            "properties": {
                "a": {"properties": {"b": {"properties": {}}}},
                "A": {"properties": {"b": {"type": "x"}}},
            }
        },
        {"properties": {"text": {"type": "string", "description": 'has "quotes" and \\'}}},
    ],
)
def test_any_schema_makes_python(schema: dict[str, Any]) -> None:
    module: dict[str, Any] = {}
    exec(compile(variables_types(schema), "variables.py", "exec"), module)
    assert "Variables" in module


def test_the_command_writes_beside_main_and_overwrites_only_its_own(tmp_path: Path) -> None:
    project(tmp_path, {"variables.schema.json": json.dumps(SCHEMA)})
    assert tieline("types", ".", "--check", cwd=tmp_path).returncode == 1
    assert tieline("types", cwd=tmp_path).returncode == 0
    assert (tmp_path / "variables.py").read_text() == variables_types(SCHEMA)
    assert tieline("types", ".", "--check", cwd=tmp_path).returncode == 0
    (tmp_path / "variables.py").write_text("mine = 1\n")
    refused = tieline("types", cwd=tmp_path)
    assert (refused.returncode, "was not written by" in refused.stderr) == (1, True)


def test_without_a_schema_there_is_nothing_to_write(tmp_path: Path) -> None:
    ended = tieline("types", str(project(tmp_path)))
    assert (ended.returncode, "There is no schema of variables" in ended.stderr) == (1, True)


INTEGRATION = """\
from tieline import Context, Integration, Request, Response, SyncContext, SyncRequest
from variables import Variables

integration = Integration()


@integration.webhook("orders", methods=["POST"])
async def orders(ctx: Context[Variables], request: Request) -> Response | dict[str, object]:
    async with ctx.session("shop") as shop, shop.get("/orders", params={"page": "1"}) as page:
        count: int = len(await page.read())
    with ctx.trace("parse", rows=count) as span:
        span.set(more=1)
    response = await ctx.fetch("shop", "/orders", json=await request.json())
    reveal_type(ctx.variables["region"])
    reveal_type(ctx.variables["rate"])
    reveal_type(ctx.variables.region)
    reveal_type(ctx.variables.limits.child)
    reveal_type(ctx.variables["limits"]["per-day"])
    name = ctx.activation.user.external_id if ctx.activation.user else ""
    ctx.log.info("Sent", order=7, status=response.status, name=name)
    return Response(status=response.status)


@integration.webhook("plain")
def plain(ctx: SyncContext, request: SyncRequest) -> None:
    reveal_type(ctx.variables.region)
    ctx.fetch("shop", json=request.json()).raise_for_status()


async def wrong(ctx: Context[Variables]) -> None:
    ctx.variables["regoin"]
    ctx.variables.regoin
"""


def mypy(folder: Path, *files: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--config-file=",
            "--cache-dir",
            mypy_cache(),
            *(folder / file for file in files),
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_a_type_checker_knows_the_sdk_and_the_variables(tmp_path: Path) -> None:
    code = {"main.py": INTEGRATION, "variables.py": variables_types(SCHEMA)}
    project(tmp_path, code)
    ended = mypy(tmp_path, "main.py")
    told = [line.partition(": ")[2] for line in ended.stdout.splitlines()]
    assert [line for line in told if "Revealed" in line] == [
        f'note: Revealed type is "{kind}"'
        for kind in (
            "Literal['eu'] | Literal['us']",
            "float",
            "Literal['eu'] | Literal['us']",
            "variables.VariablesLimits",
            "int",
            "Any",
        )
    ], ended.stdout
    errors = [line for line in told if line.startswith("error")]
    assert errors[0].startswith(
        'error: No overload variant of "__getitem__" of "Variables" matches argument type "str"'
    )
    assert len(errors) == 2, ended.stdout
    assert errors[1].startswith('error: "Variables" has no attribute "regoin"')


def test_a_schema_with_one_variable_is_strictly_typed_too(tmp_path: Path) -> None:
    schema = {"properties": {"region": {"type": "string"}, "items": {"type": "array"}}}
    for part in (["region"], ["items"], ["region", "items"]):
        one = {"properties": {name: schema["properties"][name] for name in part}}
        (tmp_path / "variables.py").write_text(variables_types(one))
        ended = mypy(tmp_path, "variables.py")
        assert "Success" in ended.stdout, ended.stdout


EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*/integration"))


@pytest.mark.parametrize("folder", EXAMPLES, ids=lambda path: path.parent.name)
def test_the_examples_are_strictly_typed(folder: Path) -> None:
    options = ["--strict", "--explicit-package-bases", "--config-file="]
    options += ["--cache-dir", mypy_cache("explicit package bases")]
    ended = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *folder.rglob("*.py")],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "Success" in ended.stdout, ended.stdout


def test_the_examples_types_are_what_their_schema_says() -> None:
    for folder in EXAMPLES:
        if (folder / "variables.py").is_file():
            assert tieline("types", str(folder), "--check").returncode == 0
