"""The pytest plugin as projects use it: a test beside the code, run by pytest in a process of its own."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.unit.testing.written_projects import folder

ROOT = Path(__file__).parents[3]
CODE = """
@integration.webhook("ping", methods=["GET"])
async def ping(ctx: Context) -> str:
    await ctx.fetch("shop", "/")
    return "pong"
"""
TEST = """\
def test_ping(tieline_project):
    tieline_project.connection("shop").on("GET", "/")
    assert tieline_project.get("/ping").text == "pong"
"""


def pytest_in(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "tieline_pytest",
        *arguments,
    ]
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, cwd=path, env=env, capture_output=True, text=True, timeout=60, check=False)


def test_a_test_beside_the_code_needs_no_other_plugin(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    folder(tmp_path, CODE)
    (tmp_path / "tests" / "test_ping.py").write_text(TEST)
    for arguments in ((), ("tests",), ("tests/test_ping.py",)):
        ended = pytest_in(tmp_path, *arguments)
        assert "1 passed" in ended.stdout, ended.stdout


def test_the_folder_may_be_named_by_a_setting(tmp_path: Path) -> None:
    for name in ("code", "tests"):
        (tmp_path / name).mkdir()
    folder(tmp_path / "code", CODE)
    (tmp_path / "tests" / "test_ping.py").write_text(TEST)
    lost = pytest_in(tmp_path)
    assert "name the project's folder by the setting tieline_folder" in lost.stdout
    (tmp_path / "pytest.ini").write_text("[pytest]\ntieline_folder = code\n")
    ended = pytest_in(tmp_path)
    assert "1 passed" in ended.stdout, ended.stdout


def test_an_unexpected_request_after_the_last_answer_fails_the_test_too(tmp_path: Path) -> None:
    folder(tmp_path, CODE)
    (tmp_path / "test_ping.py").write_text(TEST.replace('.on("GET", "/")', '.on("GET", "/other")'))
    ended = pytest_in(tmp_path)
    assert "The code sent GET / through the template 'shop'" in ended.stdout


def test_without_use_it_imports_nothing_of_tieline() -> None:
    code = "import sys, tieline_pytest; sys.exit(any(name in sys.modules for name in ('tieline', 'aiohttp')))"
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0


def test_the_package_brings_the_plugin_and_the_command() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"tieline": "tieline_pytest"}
    assert project["scripts"]["tieline"] == "tieline.cli.main:main"


def test_the_examples_need_no_plugin_but_this_one() -> None:
    ended = pytest_in(ROOT / "examples", "quickstart/tests", "stock/tests")
    assert ended.returncode == 0, ended.stdout + ended.stderr
