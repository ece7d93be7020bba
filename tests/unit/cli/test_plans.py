"""What ``deploy --dry-run`` and ``manifests`` say of a folder's files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.cli.commands import project
from tests.unit.cli.hostile_server import ID, Server, Tieline
from tieline.cli.deploy_plan import events_without_task
from tieline.cli.inspect_code import LoadedCode
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


def test_both_credentials_of_a_rotated_secret_get_names(code: Path, tmp_path: Path) -> None:
    scheme = {"type": "hmac", "hmac": {"id": "webhooks", "preset": "stripe"}}
    system = {"id": ID, "name": "Stripe", "domain": "x.example", "templateBaseUrl": "https://x.example"}
    ends = "2027-01-31T00:00:00Z"
    credentials = [
        {"authSchemeConfig": scheme, "credential": {"type": "string", "expiresAt": ends}},
        {"authSchemeConfig": scheme, "credential": {"type": "string"}},
    ]
    connection = {"id": ID, "name": "Stripe", "systemId": ID, "credentials": credentials}
    wanted = Wanted(
        name="p",
        folder=find(code),
        target=tmp_path / "deploy",
        systems=[{**system, "authSchemeConfigs": [scheme]}],
        templates=[("production", {**system, "name": "stripe", "connectionTemplateId": ID, "dynamic": True})],
        connections=[connection],
    )
    files, _ = manifests_of(wanted)
    (found,) = (one for items in files.values() for one in items if one.get("kind") == "Connection")
    assert [(one["id"], one.get("expiresAt")) for one in found["spec"]["credentials"]] == [
        ("webhooks", ends),
        ("webhooks-2", None),
    ]


def test_a_deploy_names_waiting_events_that_lose_their_task() -> None:
    def waiting(task: str, status: str = "queued", environment: str = "here") -> dict[str, object]:
        return {"environmentId": environment, "task": task, "status": status, "count": 2}

    backlog = [waiting("gone"), waiting("gone", "waiting"), waiting("kept"), waiting("dead", "dead")]
    loaded = LoadedCode(events=({"name": "kept"},), webhooks=({"name": "orders"},))
    (line,) = events_without_task([*backlog, waiting("other", environment="there")], "here", loaded)
    assert line.startswith("4 events wait for gone, which this code does not have")


def test_a_deploy_sets_the_schema_of_variables(server: Server, tieline: Tieline, code: Path) -> None:
    schema = {"type": "object", "properties": {"region": {"type": "string"}}}
    (code / "variables.schema.json").write_text(json.dumps(schema))
    environment = {"id": ID, "name": "production", "status": "running", "files": []}
    found = {"id": ID, "name": "p", "environments": [environment]}
    stored: dict[str, Any] = {"type": "object"}

    def answer(path: str) -> tuple[int, Any, dict[str, str]]:
        if path.endswith("/projects"):
            return 200, {"projects": [found]}, {}
        return 200, stored if path.endswith("/variables") else {"items": [], **found}, {}

    server.answer = answer
    _, _, errors = tieline("deploy", str(code), "--dry-run")
    assert "Would replace the schema of variables of p" in errors
    stored = schema
    _, _, errors = tieline("deploy", str(code), "--dry-run")
    assert "schema of variables" not in errors


@pytest.mark.parametrize("logged", [True, False])
def test_a_failed_rollout_prints_the_crash_once(
    server: Server, tieline: Tieline, code: Path, logged: bool
) -> None:
    environment = {
        "id": ID, "name": "production", "status": "error", "files": [], "deployedVersion": {"id": ID, "name": "v1"},
        "rollout": {"state": "failed"}, "message": "The code crashed with exit code 1; its last lines: KaBoom",
    }  # fmt: skip
    found = {"id": ID, "name": "p", "environments": [environment]}
    entry = {"timestamp": "2026-11-26T10:00:00Z", "severity": "ERROR", "message": "KaBoom"}

    def answer(path: str) -> tuple[int, Any, dict[str, str]]:
        if path.endswith("/projects"):
            return 200, {"projects": [found]}, {}
        return 200, {"items": [], "logs": [entry] if logged else [], **found}, {}

    server.answer = answer
    exit_code, _, errors = tieline("deploy", str(code))
    assert exit_code == 1
    assert "The rollout of v1 failed: The code crashed with exit code 1" in errors
    assert errors.count("KaBoom") == 1
