"""The Python distributions: a wheel and a source distribution."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from deploy.release.errors import ReleaseError
from deploy.release.source import Source

_TIMEOUT = 600


def write_wheels(source: Source, target: Path) -> None:
    """Write the wheel and the source distribution, by hatchling and without a network."""
    environment = {
        **os.environ,
        "SOURCE_DATE_EPOCH": str(source.epoch),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(target.resolve())]
    done = subprocess.run(  # noqa: S603
        command,
        cwd=source.files,
        env=environment,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT,
        check=False,
    )
    if done.returncode:
        raise ReleaseError(f"hatchling could not build the distributions:\n{done.stderr[-4000:]}")
