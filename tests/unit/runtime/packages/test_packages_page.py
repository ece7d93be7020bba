"""The commands of docs/packages.md do what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.runtime.packages.local_index import PASSWORD, LocalIndex, wheel

PAGE = (Path(__file__).parents[4] / "docs" / "packages.md").read_text(encoding="utf-8")
MAIN = "import pandas\nfrom tieline import Integration\nintegration = Integration()\n"


def block(language: str) -> str:
    """The first block of this kind."""
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None, language
    return found[1]


def lock_commands() -> list[str]:
    """``tieline lock`` in all its forms, as the table has them, and the same by uv alone."""
    found = re.findall(r"`(tieline lock --[^`]*)`", PAGE)
    return [*found, *re.findall(r"^(uv pip compile .*)$", PAGE, re.MULTILINE)]


class Author:
    """Runs the page's commands in a project's folder."""

    def __init__(self, folder: Path, scratch: Path, index: LocalIndex) -> None:
        self.folder, self.index = folder, index
        self._env = {
            **os.environ,
            "TIELINE_CACHE_FOLDER": str(scratch / "cache"),
            "UV_CACHE_DIR": str(scratch / "uv"),
            "UV_DEFAULT_INDEX": index.url.replace("://", f"://reader:{PASSWORD}@"),
        }

    def __call__(self, command: str, *, code: int = 0) -> str:
        name, *arguments = command.split()
        program = {
            "tieline": [sys.executable, "-c", "from tieline.cli.main import main; main()"],
            "uv": [str(Path(sys.executable).with_name("uv"))],
        }[name]
        ended = subprocess.run(
            [*program, *arguments],
            cwd=self.folder,
            env=self._env,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ended.returncode == code, ended.stdout + ended.stderr
        return ended.stdout

    @property
    def lock(self) -> str:
        return (self.folder / "requirements.txt").read_text()


@pytest.fixture
def author(tmp_path: Path, index: LocalIndex) -> Author:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "main.py").write_text(MAIN)
    (folder / "requirements.in").write_text(f"{block('text requirements.in').strip()}\n")
    index.add(wheel("pandas", "2.3", requires="numpy"), wheel("numpy", "2.0"))
    return Author(folder, tmp_path, index)


def test_the_first_steps_lead_to_code_that_can_be_deployed(author: Author) -> None:
    commands = re.findall(r"```console\n\s*(tieline .*)\n", PAGE)
    assert commands == ["tieline lock", "tieline check"]
    assert "Wrote" in author(commands[0])
    assert "pandas==2.3" in author.lock
    assert "numpy==2.0" in author.lock
    assert "Nothing refuses a deploy" in author(commands[1])


@pytest.mark.parametrize("command", lock_commands())
def test_every_form_of_the_command_does_what_the_table_says(author: Author, command: str) -> None:
    author("tieline lock")
    author.index.add(wheel("pandas", "2.4", requires="numpy"), wheel("numpy", "2.1"))
    author("tieline lock --check")
    if command.endswith("--check"):
        (author.folder / "requirements.in").write_text("pandas>=2.4\n")
        assert "out of date" in author(command, code=1)
        return
    author(command)
    assert ("pandas==2.4" in author.lock) is command.startswith("tieline")
    assert ("numpy==2.1" in author.lock) is command.endswith("--upgrade")
    author("tieline check")
