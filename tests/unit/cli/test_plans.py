"""What ``deploy --dry-run`` and ``manifests`` say of a folder's files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.cli.commands import project
from tests.unit.cli.hostile_server import ID, Server, Tieline
from tieline.cli.manifests import Wanted, manifests_of
from tieline.configuration.project_folder import find


@pytest.fixture
def code(tmp_path: Path) -> Path:
    return project(tmp_path / "code", {"notes.txt": "one\n"})


def test_a_dry_run_tells_programs_what_would_change(server: Server, tieline: Tieline, code: Path) -> None:
    files = [{"filename": "notes.txt", "content": "none\n"}, {"filename": "old.py", "content": ""}]
    environment = {"id": ID, "name": "production", "status": "running", "files": files}
    found = {"id": ID, "name": "p", "environments": [environment]}

    def answer(path: str) -> tuple[int, Any, dict[str, str]]:
        if path.endswith("/projects"):
            return 200, {"projects": [found]}, {}
        return 200, {"items": [], **found}, {}

    server.answer = answer
    code_, output, errors = tieline("deploy", str(code), "--dry-run", "--output", "json")
    assert code_ == 0, errors
    assert json.loads(output) == {
        "project": "p",
        "environment": "production",
        "dryRun": True,
        "changes": [
            {"filename": "main.py", "change": "added", "added": 8, "removed": 0},
            {"filename": "notes.txt", "change": "changed", "added": 1, "removed": 1},
            {"filename": "old.py", "change": "removed", "added": 0, "removed": 0},
        ],
    }
    server.answer = lambda _: (200, {"projects": []}, {})
    created = json.loads(tieline("deploy", str(code), "--dry-run", "--create", "--output", "json")[1])
    assert [item["change"] for item in created["changes"]] == ["added", "added"]
    assert all("deploy" not in path for path, _ in server.requests), "nothing was changed"


def test_a_link_to_a_file_elsewhere_is_named_as_it_is_deployed(code: Path, tmp_path: Path) -> None:
    (tmp_path / "shared.txt").write_text("shared")
    (code / "shared.txt").symlink_to(tmp_path / "shared.txt")
    files, _ = manifests_of(Wanted(name="p", folder=find(code), target=tmp_path / "deploy"))
    (generated,) = files["kustomization.yaml"][0]["configMapGenerator"]
    sources = dict(item.split("=", 1) for item in generated["files"])
    assert (tmp_path / "deploy" / sources["shared.txt"]).resolve() == (tmp_path / "shared.txt").resolve()


def test_templates_whose_names_kubernetes_would_not_tell_apart_get_objects_of_their_own(
    code: Path, tmp_path: Path
) -> None:
    system = {"id": ID, "name": "Shop", "domain": "x.example", "templateBaseUrl": "https://x.example"}
    template = {**system, "authSchemeConfigs": [], "dynamic": True}
    wanted = Wanted(
        name="p",
        folder=find(code),
        target=tmp_path / "deploy",
        systems=[template],
        templates=[
            (
                "production",
                {**template, "name": name, "connectionTemplateId": f"01JD3Y00000000000000000{number:03}"},
            )
            for number, name in enumerate(("shop_a", "shop-a", "shop.b"))
        ],
    )
    files, _ = manifests_of(wanted)
    names = [item["metadata"]["name"] for item in files["project.yaml"]]
    assert len(set(names)) == len(names) == 4
    assert yaml.safe_dump_all(files["project.yaml"])
