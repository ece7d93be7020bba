"""Templates of projects: what their files name, and that a wheel has the same ones as a checkout."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tieline_catalogue.catalogue import catalogue
from tieline_catalogue.project_templates import (
    ProjectTemplate,
    UnknownTemplateError,
    project_template,
    project_templates,
)
from tieline_catalogue.template_packing import TemplateError, pack_templates, read_templates
from tieline_protocol.deploys import check_files
from tieline_protocol.python_source import named_templates

ROOT = Path(__file__).parents[3]
MANY = 30


@pytest.mark.parametrize("one", project_templates(), ids=lambda one: one.key)
def test_a_template_can_be_deployed_once_it_has_what_it_needs(one: ProjectTemplate) -> None:
    pairs = [(path, content.encode()) for path, content in one.files.items()]
    needed = [each.name for each in one.connections]
    assert check_files(pairs, {}, needed) == []
    assert set(named_templates(pairs)) <= set(needed)
    local = yaml.safe_load(one.local_files.get("connections.yaml", "{}"))
    assert list((local or {}).get("connections", {})) == needed
    assert any(path.startswith("tests/") for path in one.local_files)
    for each in one.connections:
        assert each.catalogue is None or catalogue().get(each.catalogue)


@pytest.mark.parametrize("one", project_templates(), ids=lambda one: one.key)
def test_its_request_is_for_a_webhook_of_its_code(one: ProjectTemplate) -> None:
    webhooks = {
        f"/{decorator.args[0].value}"
        for node in ast.walk(ast.parse(one.files["main.py"]))
        if isinstance(node, ast.AsyncFunctionDef)
        for decorator in node.decorator_list
        if isinstance(decorator, ast.Call)
        and ast.unparse(decorator.func) == "integration.webhook"
        and isinstance(decorator.args[0], ast.Constant)
    }
    assert (one.request is None) == (not webhooks)
    assert one.request is None or one.request.path in webhooks


def test_there_are_few_and_each_has_a_place_of_its_own() -> None:
    assert 5 <= len(project_templates()) <= MANY
    assert len({one.key for one in project_templates()}) == len(project_templates())
    assert len({one.order for one in project_templates()}) == len(project_templates())


def test_the_packed_file_has_the_same_templates(tmp_path: Path) -> None:
    pack_templates(ROOT / "examples", tmp_path / "packed.json")
    packed = [
        ProjectTemplate.model_validate(item) for item in json.loads((tmp_path / "packed.json").read_text())
    ]
    assert packed == list(project_templates())


def test_packing_needs_what_a_build_has_alone() -> None:
    code = "import sys; sys.modules['pydantic'] = None; import tieline_catalogue.template_packing"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_an_unknown_key_names_the_known_ones() -> None:
    with pytest.raises(UnknownTemplateError, match="hello"):
        project_template("../hello")


@pytest.mark.parametrize("text", ["", "[]", "key: x", "key: [", "key: x\norder: 1\n"])
def test_an_example_that_makes_no_template_is_named(tmp_path: Path, text: str) -> None:
    folder = tmp_path / "broken"
    (folder / "integration").mkdir(parents=True)
    (folder / "template.yaml").write_text(text)
    (folder / "integration" / "main.py").write_bytes(b"x" * (64 * 1024 + 1))
    with pytest.raises(TemplateError, match="broken"):
        read_templates(tmp_path)
