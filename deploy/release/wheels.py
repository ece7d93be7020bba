"""The Python distributions, each as a wheel and a source distribution: ``tieline`` for authors, and the platform."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from deploy.release.errors import ReleaseError
from deploy.release.source import PROJECTS, Source

_TIMEOUT = 600


def write_wheels(source: Source, target: Path) -> None:
    """Write the distributions, by hatchling and without a network."""
    for project in PROJECTS:
        with tempfile.TemporaryDirectory(prefix="tieline-wheels-") as name:
            folder = Path(name) / "source"
            # The name of a project file is fixed, and so is its place: the root of what is built.
            shutil.copytree(source.files, folder, symlinks=True)
            shutil.copy(source.files / project, folder / "pyproject.toml")
            _build(folder, target, source.epoch)


def _build(folder: Path, target: Path, epoch: int) -> None:
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(target.resolve())]
    done = subprocess.run(  # noqa: S603
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=_TIMEOUT, check=False
    )
    if done.returncode:
        raise ReleaseError(f"hatchling could not build the distributions:\n{done.stderr[-4000:]}")
