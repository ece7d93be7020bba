"""``tieline releases``, and the Git commit that a deploy names."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.hostile_server import ID, ORGANISATION, Server, Tieline
from tieline.cli.git_revision import git_revision

RELEASE: dict[str, Any] = {
    "number": 7,
    "version": {"id": ID, "name": "v7"},
    "deployedAt": "2026-11-25T12:00:00Z",
    "by": "ann",
    "revision": "6d3c",
    "outcome": "rolled_back",
    "wasHealthy": True,
    "failure": {"reason": "Crashed", "message": "KeyError: 'X', main.py:4"},
    "servedSeconds": 7300,
    "runs": 9,
    "failedRuns": 4,
}
DETAIL = {
    **RELEASE,
    "previous": 6,
    "changes": {
        "to": {"id": ID, "name": "v7"},
        "files": [
            {"filename": "main.py", "change": "changed", "diff": "-a\n+b\x1b[31m\n"},
            {"filename": "a\nadded: b.py", "change": "deleted"},
        ],
        "labels": [{"key": "team", "after": "ops"}],
    },
    "rollbackVersion": {"id": ID, "name": "v6"},
}


@pytest.fixture
def releases(server: Server) -> None:
    environment = {"id": ID, "name": "production"}
    path = f"projects/{ID}/environments/{ID}/releases"
    known = {
        "projects": {"projects": [{"id": ID, "name": "orders", "environments": [environment]}]},
        path: {"items": [RELEASE]},
        f"{path}/7": DETAIL,
        f"{path}/latest": DETAIL,
    }
    server.answer = lambda asked: (200, known[asked.removeprefix(f"/api/v2/o/{ORGANISATION}/")], {})


@pytest.mark.usefixtures("releases")
def test_a_list_says_who_deployed_what_and_how_it_went(tieline: Tieline) -> None:
    code, shown, errors = tieline("releases", "list", "--project", "orders")
    assert code == 0, errors
    line = shown.splitlines()[-1]
    for text in ("7", "rolled back", "v7", "ann", "6d3c", "2h", "4 of 9", "KeyError: 'X', main.py:4"):
        assert text in line, text


@pytest.mark.usefixtures("releases")
@pytest.mark.parametrize("number", [(), ("7",)])
def test_a_release_says_what_changed(tieline: Tieline, number: tuple[str, ...]) -> None:
    code, shown, errors = tieline("releases", "show", *number, "--project", "orders", "--diff")
    assert code == 0, errors
    for text in ("changed: main.py", "deleted: a\\nadded: b.py", "+b\\x1b[31m", "label team:  -> ops", "v6"):
        assert text in shown, text


@pytest.mark.usefixtures("releases")
@pytest.mark.parametrize("number", ["x", "../7", "7?a"])
def test_what_is_no_number_is_not_asked_for(tieline: Tieline, number: str) -> None:
    code, _, errors = tieline("releases", "show", number, "--project", "orders")
    assert code != 0
    assert "no release" in errors


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@example")
    return subprocess.run(
        ["git", *who, "-C", str(folder), *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()


def test_a_folder_is_of_a_commit(tmp_path: Path) -> None:
    assert git_revision(tmp_path / "nowhere") is None
    code = tmp_path / "code"
    code.mkdir()
    (code / "main.py").write_text("a\n")
    git(tmp_path, "init", "-q")
    assert git_revision(code) is None, "nothing is committed"
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    commit = git(tmp_path, "rev-parse", "HEAD")
    assert git_revision(code) == commit
    (tmp_path / "README.md").write_text("beside the code\n")
    assert git_revision(code) == commit
    (code / "main.py").write_text("b\n")
    assert git_revision(code) == f"{commit}-dirty"


def test_a_hook_of_another_repository_does_not_change_the_revision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("code", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "main.py").write_text(f"{name}\n")
        git(tmp_path / name, "init", "-q")
        git(tmp_path / name, "add", ".")
        git(tmp_path / name, "commit", "-qm", name)
    commit = git(tmp_path / "code", "rev-parse", "HEAD")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    assert git_revision(tmp_path / "code") == commit


def test_a_folder_that_git_does_not_know_has_no_revision(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-qm", "first", "--allow-empty")
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "main.py").write_text("a\n")
    assert git_revision(tmp_path / "build") is None
