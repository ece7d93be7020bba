"""The rules for deploys, as the platform applies them, and what is known of the image."""

import ast
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.unit.protocol.deploy_cases import CASES, GOOD, UNSAVED, Case
from tieline.cli.scaffold import CI_FILES
from tieline_core.project_files.deploy_findings import check_files, has_errors, summary
from tieline_protocol.missing_modules import missing_modules
from tieline_protocol.runtime_image import HOLDS, MODULES, OLDEST_PYTHON, PACKAGES, PYTHON

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("case", [*CASES, *UNSAVED], ids=str)
def test_the_platform_refuses_what_the_table_says(case: Case) -> None:
    findings = check_files(case.files, case.labels, case.templates)
    assert has_errors(findings) == bool(case.words)
    if case.words:
        (finding,) = findings
        assert (finding.filename, finding.line) == case.place
        assert all(word in finding.message for word in case.words)
        assert finding.message in summary(findings)


def missing(main: str, **others: str) -> list[tuple[str | None, int | None, str]]:
    files = {"main": main, **others}
    pairs = [(f"{name}.py", code.encode()) for name, code in files.items()]
    return [
        (finding.filename, finding.line, finding.message.split('"')[1]) for finding in missing_modules(pairs)
    ]


def test_modules_of_the_image_the_library_and_the_project_are_there() -> None:
    code = "import json, aiohttp.web\nimport shop.orders\nfrom tieline import Integration\nfrom jwt import encode\n"
    assert missing(code, **{"shop/orders": "from . import prices", "shop/prices": ""}) == []


def test_a_module_that_is_nowhere_is_told_where_it_is_first_imported() -> None:
    assert missing("import shop", shop="import json\nimport requests.auth\nimport requests\n") == [
        ("shop.py", 2, "requests")
    ]
    assert missing("if True:\n    from pandas import *\nclass A:\n    import numpy\n") == [
        ("main.py", 2, "pandas"),
        ("main.py", 4, "numpy"),
    ]


def test_imports_that_may_fail_or_are_never_run_are_left_out() -> None:
    code = """
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    import pandas
try:
    import orjson as json
except ImportError:
    import json
try:
    import simplejson
except (ValueError, ModuleNotFoundError):
    pass
def later():
    import requests
"""
    assert missing(code, test_main="import pytest") == []
    assert missing("try:\n    import pandas\nexcept ValueError:\n    pass\n") == [("main.py", 2, "pandas")]


def test_relative_imports_are_followed() -> None:
    files = {
        "shop/__init__": "from .orders import x",
        "shop/orders": "from ..shop import prices",
        "shop/prices": "import requests",
    }
    assert missing("import shop", **files) == [("shop/prices.py", 1, "requests")]


def test_the_image_holds_what_it_is_said_to_hold() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    waiting = [Requirement(item) for item in project["optional-dependencies"]["runtime"]]
    found: dict[str, set[str]] = {}
    while waiting:
        requirement = waiting.pop()
        name = requirement.name.lower().replace("_", "-")
        if name in found and not requirement.extras:
            continue
        distribution = metadata.distribution(name)
        found[name] = {
            re.split(r"[/.]", str(file))[0]
            for file in distribution.files or ()
            if str(file).endswith((".py", ".so")) and ".dist-info" not in str(file)
        }
        environments = [{"extra": extra} for extra in requirement.extras or [""]]
        waiting += [
            item
            for item in map(Requirement, distribution.requires or ())
            if item.marker is None or any(item.marker.evaluate(each) for each in environments)
        ]
    assert found.keys() == PACKAGES.keys() - {"tieline"}
    assert {module for names in found.values() for module in names} - {".."} == MODULES - {
        *PACKAGES["tieline"]
    }


def test_the_runtime_imports_only_what_the_image_holds() -> None:
    """The image has the extra `runtime` alone; a development environment has everything."""
    local = {"cli", "emulator", "testing"}
    found: set[tuple[str, str]] = set()
    packages = ("tieline_common", "tieline_engine", "tieline_protocol")
    shared = [path for package in packages for path in (ROOT / "core" / package).rglob("*.py")]
    for path in [*(ROOT / "runtime/tieline").rglob("*.py"), *shared]:
        if (
            path.is_relative_to(ROOT / "runtime/tieline")
            and path.relative_to(ROOT / "runtime/tieline").parts[0] in local
        ):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            found |= {(path.name, name.partition(".")[0]) for name in names}
    missing = {(file, name) for file, name in found if name not in MODULES | sys.stdlib_module_names}
    # Imported by the command `tieline` and by the platform, never in a pod.
    assert missing == {("connections_file.py", "yaml"), ("graphql_schemas.py", "graphql")}


def test_the_images_python_is_the_one_of_its_base() -> None:
    """The Dockerfile names it once, and its build compares it with the base image's."""
    text = (ROOT / "Dockerfile").read_text()
    assert re.findall(r"3\.\d+", text) == [f"{PYTHON[0]}.{PYTHON[1]}"]
    assert f"ARG PYTHON_VERSION={PYTHON[0]}.{PYTHON[1]}\n" in text


def test_the_oldest_python_is_the_one_that_the_package_supports() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">={OLDEST_PYTHON[0]}.{OLDEST_PYTHON[1]}"
    assert OLDEST_PYTHON <= PYTHON


def test_pages_and_new_projects_name_the_images_python() -> None:
    version = f"{PYTHON[0]}.{PYTHON[1]}"
    assert HOLDS in " ".join((ROOT / "docs" / "packages.md").read_text().split())
    assert f"the image's {version} " in (ROOT / "docs" / "limits.md").read_text()
    pipelines = "".join(text for _, text in CI_FILES.values())
    assert set(re.findall(r"3\.\d+", pipelines)) == {version}


def test_the_table_holds_a_sound_project() -> None:
    assert check_files({"main.py": GOOD}, {}, ()) == []
