"""The examples of docs/connectors.md do what the page says."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from aiohttp import ClientSession

from tests.harness.inputs.type_checkers import mypy_cache
from tests.unit.cli.commands import Running, tieline
from tests.unit.cli.connector_files import write_files
from tieline.connectors.description import Descriptions
from tieline.testing import FakeConnection, Project

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/connectors.md").read_text(encoding="utf-8")
DESCRIPTION = yaml.safe_load(re.findall(r"```yaml\n(.*?)```", PAGE, re.S)[0])
MAIN, CALL, GRAPHQL_MAIN, TEST = re.findall(r"```python\n(.*?)```", PAGE, re.S)

DOCUMENTS, SCHEMA = re.findall(r"```graphql\n(.*?)```", PAGE, re.S)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The project of the page."""
    (tmp_path / "main.py").write_text(MAIN)
    write_files(DESCRIPTION, tmp_path, "shop", only={"createOrder", "listOrders"})
    (tmp_path / "test_orders.py").write_text(TEST)
    return tmp_path


def test_the_pages_test_passes(folder: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tieline_pytest"]
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    ended = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert "1 passed" in ended.stdout, ended.stdout


def test_the_pages_code_type_checks(folder: Path) -> None:
    options = ["--strict", "--follow-imports=silent", "--cache-dir", mypy_cache("silent")]
    command = [sys.executable, "-m", "mypy", *options, folder / "main.py"]
    env = {"MYPYPATH": f"{ROOT / 'runtime'}:{ROOT / 'core'}", "PATH": ""}
    ended = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert ended.returncode == 0, ended.stdout


async def test_the_runtime_serves_it(folder: Path) -> None:
    """What pods run: with the answers that the system gives, right or wrong."""
    shop = FakeConnection("shop", descriptions=Descriptions(folder))
    await shop.start()
    shop.answer("createOrder")
    shop.answer("listOrders", json={"orders": [{"id": 6}]}, check=False)
    (folder / "connections.yaml").write_text(f"connections: {{shop: {{baseUrl: '{shop.url}'}}}}\n")
    assert tieline("check", str(folder)).returncode == 0
    statuses = []
    try:
        for checks in ("log", "raise"):
            env = {"TIELINE_ANSWER_CHECKS": checks}
            async with Running(folder, env=env) as running, ClientSession() as client:
                answer = await client.post(f"{await running.url()}/orders", json={"number": "A-1"})
                statuses.append(answer.status)
            assert "answer.orders[0].id" in "".join(running.lines)
    finally:
        await shop.stop()
    assert statuses == [200, 500]


def test_an_operation_is_called_by_its_name(folder: Path) -> None:
    indented = "".join(f"    {line}\n" for line in CALL.splitlines())
    head = "\n\n@integration.webhook('named')\nasync def named(ctx: Context) -> str:\n"
    code = f"{head}{indented}    return created['id']\n"
    (folder / "main.py").write_text(MAIN + code)
    with Project(folder) as project:
        project.connection("shop").answer("createOrder")
        assert project.post("/named").text == "7"


def test_the_page_names_what_there_is() -> None:
    source = (ROOT / "runtime/tieline/cli/commands/connectors.py").read_text()
    options = {
        node.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("--")
    }
    named = set(re.findall(r"(--[a-z]+)", PAGE))
    parameters = {"--operations", "--schema", "--documents"}
    assert named <= {part for option in options for part in option.split("/")} | parameters


def test_the_pages_graphql_operations_are_called_and_type_check(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(GRAPHQL_MAIN)
    (tmp_path / "connectors").mkdir()
    (tmp_path / "connectors/shop_api.graphql").write_text(DOCUMENTS)
    (tmp_path / "shop.graphqls").write_text(SCHEMA)
    command = next(line for line in PAGE.splitlines() if line.startswith("tieline connectors add shop_api"))
    ended = tieline(*command.split()[1:], cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    options = ["--strict", "--follow-imports=silent", "--cache-dir", mypy_cache("silent")]
    command = [sys.executable, "-m", "mypy", *options, tmp_path / "main.py"]
    env = {"MYPYPATH": f"{ROOT / 'runtime'}:{ROOT / 'core'}", "PATH": ""}
    checked = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert checked.returncode == 0, checked.stdout
    with Project(tmp_path) as project:
        shop = project.connection("shop")
        page = {
            "nodes": [{"id": "7", "reference": "A-1"}],
            "pageInfo": {"hasNextPage": False, "endCursor": None},
        }
        shop.answer("OpenOrders", json={"orders": page}, connector="shop_api")
        shop.answer("CloseOrder", connector="shop_api")
        assert project.post("/close").json() == ["A-1"]
        assert shop.requests[1].json()["variables"] == {"id": "7"}
