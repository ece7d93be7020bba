"""What is released is one commit, in one version."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from deploy.release.errors import ReleaseError
from deploy.release.main import main, prepare
from deploy.release.npm import pack
from deploy.release.source import Source, one_version, source, uncommitted
from deploy.release.wheels import write_wheels
from tests.harness.cluster.kubectl import ROOT

EPOCH = 1_795_828_078
PROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "tieline"
version = "0.1.0"
requires-python = ">=3.11"

[tool.hatch.build.targets.wheel]
packages = ["runtime/tieline"]
"""
PLATFORM = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "tieline-platform"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["tieline==0.1.0"]

[tool.hatch.build.targets.wheel]
packages = ["operator/tieline_operator"]
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A small project in git."""
    root = tmp_path / "repository"
    for name, text in {
        "pyproject.toml": PROJECT,
        "deploy/platform/pyproject.toml": PLATFORM,
        "operator/tieline_operator/__init__.py": "",
        "runtime/tieline/__init__.py": '__version__ = "0.1.0"\n',
        "deploy/helm/tieline/Chart.yaml": "version: 0.1.0\nappVersion: 0.1.0\n",
        "connect/package.json": '{"version": "0.1.0"}\n',
        "connect/README.md": "# Connect\n",
        "LICENSE": "Apache\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    git(root, "init", "--quiet")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "First")
    return root


def git(root: Path, *arguments: str) -> str:
    environment = {
        **os.environ,
        **{f"GIT_{who}_{what}": "t@example" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
        "GIT_COMMITTER_DATE": f"{EPOCH} +0000",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
    }
    command = ["git", *arguments]
    done = subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.strip()


def test_a_release_has_what_is_committed_and_nothing_else(repository: Path) -> None:
    (repository / "LICENSE").write_text("changed")
    (repository / "notes.txt").write_text("mine")
    assert uncommitted(repository) == ["LICENSE", "notes.txt"]
    with source(repository) as found:
        assert (found.version, found.epoch, found.time) == ("0.1.0", EPOCH, "2026-11-28T01:07:58Z")
        assert found.commit == git(repository, "rev-parse", "HEAD")
        assert (found.files / "LICENSE").read_text() == "Apache\n"
        assert not (found.files / "notes.txt").exists()


def test_distributions_twice_are_the_same_bytes(repository: Path, tmp_path: Path) -> None:
    found = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        with source(repository) as committed:
            write_wheels(committed, tmp_path / name)
        found.append({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()})
    assert found[0] == found[1]
    assert found[0].keys() == {
        *("tieline-0.1.0-py3-none-any.whl", "tieline-0.1.0.tar.gz"),
        *("tieline_platform-0.1.0-py3-none-any.whl", "tieline_platform-0.1.0.tar.gz"),
    }


def test_the_npm_package_has_what_its_description_names(repository: Path, tmp_path: Path) -> None:
    made = Source(files=repository, version="0.1.0", commit="c", epoch=EPOCH)
    (repository / "connect/dist").mkdir()
    (repository / "connect/dist/index.js").write_text("export {};\n")
    pack(made, tmp_path)
    listed = subprocess.run(
        ["tar", "-tzf", tmp_path / "tieline-connect-0.1.0.tgz"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert listed.stdout.split() == [
        f"package/{name}" for name in ("package.json", "README.md", "LICENSE", "dist/index.js")
    ]


def test_all_parts_of_this_project_have_one_version() -> None:
    assert one_version(ROOT)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ("connect/package.json", r"connect/package\.json: 0\.2\.0"),
        ("runtime/tieline/__init__.py", r"runtime/tieline/__init__\.py: 0\.2\.0"),
        ("deploy/platform/pyproject.toml", r"tieline-platform \(needs tieline\): 0\.2\.0"),
    ],
)
def test_parts_with_other_versions_are_refused(repository: Path, changed: str, said: str) -> None:
    path = repository / changed
    path.write_text(path.read_text().replace("0.1.0", "0.2.0"))
    with pytest.raises(ReleaseError, match=rf"pyproject\.toml: 0\.1\.0.*{said}"):
        one_version(repository)


def test_a_folder_without_a_commit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="in a git checkout with a commit"), source(tmp_path):
        pass


def test_a_folder_with_files_of_others_is_not_emptied(tmp_path: Path) -> None:
    (tmp_path / "tieline-0.0.9.tgz").write_text("old")
    (tmp_path / "thesis.odt").write_text("mine")
    with pytest.raises(ReleaseError, match=r"what no release wrote: thesis\.odt"):
        prepare(tmp_path, fresh=True)
    (tmp_path / "thesis.odt").unlink()
    prepare(tmp_path, fresh=True)
    assert not list(tmp_path.iterdir())


def test_a_tag_of_another_version_builds_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--into", str(tmp_path / "dist"), "--expect", "v9.9.9"]) == 1
    assert "The tag is v9.9.9, but the commit has version" in capsys.readouterr().err
    assert not (tmp_path / "dist").exists()
