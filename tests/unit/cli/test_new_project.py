"""``tieline init`` and ``tieline manifests``: what they write works as it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.unit.cli.commands import project, tieline
from tieline.cli.manifests import object_name


def test_a_new_project_passes_its_checks_and_its_tests(tmp_path: Path) -> None:
    folder = tmp_path / "order-sync"
    made = tieline("init", str(folder))
    assert made.returncode == 0, made.stderr
    checked = tieline("check", str(folder))
    assert checked.returncode == 0, checked.stdout
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "2 passed" in tested.stdout, tested.stdout + tested.stderr
    assert yaml.safe_load((folder / "tieline.yaml").read_text()) == {"project": "order-sync"}


@pytest.mark.parametrize(
    ("ci", "path"), [("github", ".github/workflows/integration.yaml"), ("gitlab", ".gitlab-ci.yml")]
)
def test_its_pipeline_checks_tests_and_deploys(tmp_path: Path, ci: str, path: str) -> None:
    assert tieline("init", str(tmp_path / "x"), "--ci", ci).returncode == 0
    text = (tmp_path / "x" / path).read_text()
    assert yaml.safe_load(text)
    assert all(command in text for command in ("tieline check", "pytest", "tieline deploy --version-name"))


def test_nothing_is_written_over_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    refused = tieline("init", str(tmp_path), "--name", "x")
    assert refused.returncode == 1
    assert "README.md exists already; nothing was written" in refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]


def test_templates_are_listed_and_one_is_chosen(tmp_path: Path) -> None:
    listed = tieline("init", "--list")
    assert listed.returncode == 0, listed.stderr
    assert "queued-orders" in listed.stdout
    assert "scheduled-sync" in listed.stdout
    assert tieline("init", str(tmp_path / "x"), "--template", "scheduled-sync").returncode == 0
    assert "ScheduledRun" in (tmp_path / "x/integration/main.py").read_text()
    assert "`supplier`, `shop`" in (tmp_path / "x/README.md").read_text()
    nowhere = tieline("init")
    assert nowhere.returncode == 2
    assert "--list" in nowhere.stderr


@pytest.mark.parametrize(
    "arguments",
    [("--name", "../x"), ("--ci", "travis"), ("--name", "x" * 64), ("--template", "no-such-one")],
)
def test_a_name_or_pipeline_that_cannot_be_is_a_usage_error(
    tmp_path: Path, arguments: tuple[str, str]
) -> None:
    assert tieline("init", str(tmp_path / "x"), *arguments).returncode == 2
    assert not (tmp_path / "x").exists()


def test_manifests_of_a_folder_name_every_file(tmp_path: Path) -> None:
    folder = project(tmp_path / "code", {"shop/__init__.py": "", "shop/orders.py": "A = 1\n", ".hidden": "x"})
    (folder / "variables.schema.json").write_text('{"type": "object"}')
    made = tieline(
        "manifests",
        str(folder),
        "--offline",
        "--to",
        str(tmp_path / "deploy"),
        "--project",
        "Order sync (EU)",
    )
    assert made.returncode == 0, made.stderr
    (kustomization,) = yaml.safe_load_all((tmp_path / "deploy/kustomization.yaml").read_text())
    (written,) = yaml.safe_load_all((tmp_path / "deploy/project.yaml").read_text())
    assert written["metadata"]["name"] == "order-sync-eu"
    assert written["spec"]["name"] == "Order sync (EU)"
    assert written["spec"]["dynamicVariablesSchema"] == {"type": "object"}
    (config_map,) = written["spec"]["source"]["configMaps"]
    (generated,) = kustomization["configMapGenerator"]
    assert config_map["name"] == generated["name"]
    sources = dict(item.split("=", 1) for item in generated["files"])
    assert {item["path"] for item in config_map["items"]} == {"main.py", "shop/__init__.py", "shop/orders.py"}
    for item in config_map["items"]:
        source = tmp_path / "deploy" / sources[item["key"]]
        assert source.resolve() == (folder / item["path"]).resolve()
    again = tieline("manifests", str(folder), "--offline", "--to", str(tmp_path / "deploy"))
    assert "use --force" in again.stderr
    assert again.returncode == 1


@pytest.mark.parametrize("text", ["Ünïcode", "---", "", "a" * 300, "UPPER case", "1"])
def test_names_for_people_become_names_that_kubernetes_takes(text: str) -> None:
    name = object_name(text)
    assert 1 <= len(name) <= 50
    assert name.strip("-") == name
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")


def test_long_names_that_begin_alike_stay_apart() -> None:
    assert object_name("a" * 60 + "b") != object_name("a" * 60 + "c")


def test_without_a_sign_in_commands_say_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TIELINE_URL", "TIELINE_TOKEN", "TIELINE_ORGANISATION", "TIELINE_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TIELINE_CONFIG_FOLDER", str(tmp_path))
    refused = tieline("runs", "list")
    assert refused.returncode == 3
    assert "Run `tieline login URL`" in refused.stderr
