"""``tieline types``: what a schema says, as TypedDicts that type checkers and Python both take."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.desk.commands import project, tieline
from tieline.desk.typed import HEADER, typed_dicts

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
    text = typed_dicts(SCHEMA)
    assert text.startswith(HEADER)
    for line in (
        'region: Literal["eu", "us"]\n    """Where the customer\'s data is kept"""',
        "rate: float",
        "tags: NotRequired[list[str]]",
        "limits: NotRequired[VariablesLimits]",
        "owner: NotRequired[str | None]",
        "either: NotRequired[int | bool]",
        "labels: NotRequired[dict[str, str]]",
        "anything: NotRequired[Any]",
        '"per-day": "NotRequired[int]"',
        '"child": "NotRequired[VariablesLimits]"',
    ):
        assert f"    {line}\n" in text or f"    {line},\n" in text
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
    exec(compile(typed_dicts(schema), "variables.py", "exec"), module)
    assert "Variables" in module


def test_the_command_writes_beside_main_and_overwrites_only_its_own(tmp_path: Path) -> None:
    project(tmp_path, {"variables.schema.json": json.dumps(SCHEMA)})
    assert tieline("types", ".", "--check", cwd=tmp_path).returncode == 1
    assert tieline("types", cwd=tmp_path).returncode == 0
    assert (tmp_path / "variables.py").read_text() == typed_dicts(SCHEMA)
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
    name = ctx.activation.user.external_id if ctx.activation.user else ""
    ctx.log.info("Sent", order=7, status=response.status, name=name)
    return Response(status=response.status)


@integration.webhook("plain")
def plain(ctx: SyncContext, request: SyncRequest) -> None:
    reveal_type(ctx.variables.region)
    ctx.fetch("shop", json=request.json()).raise_for_status()


async def wrong(ctx: Context[Variables]) -> None:
    ctx.variables["regoin"]
"""


def test_a_type_checker_knows_the_sdk_and_the_variables(tmp_path: Path) -> None:
    code = {"main.py": INTEGRATION, "variables.py": typed_dicts(SCHEMA)}
    project(tmp_path, code)
    ended = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--config-file=",
            f"--cache-dir={tmp_path}/cache",
            "main.py",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    told = [line.partition(": ")[2] for line in ended.stdout.splitlines()]
    assert told[:4] == [
        "note: Revealed type is \"Literal['eu'] | Literal['us']\"",
        'note: Revealed type is "float"',
        'note: Revealed type is "Any"',
        'error: TypedDict "Variables" has no key "regoin"  [typeddict-item]',
    ], ended.stdout
    assert "Found 1 error" in ended.stdout


EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*/integration"))


@pytest.mark.parametrize("folder", EXAMPLES, ids=lambda path: path.parent.name)
def test_the_examples_are_strictly_typed(folder: Path) -> None:
    files = [str(path.relative_to(folder)) for path in folder.rglob("*.py")]
    ended = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir", os.devnull, *files],
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
