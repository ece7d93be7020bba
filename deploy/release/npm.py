"""The npm package ``@tieline/connect``."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from deploy.release.archives import tar_gz
from deploy.release.errors import ReleaseError
from deploy.release.source import Source

_TIMEOUT = 900
_BESIDE_DIST = ("package.json", "README.md")


def write_npm_package(source: Source, target: Path) -> None:
    """Compile the package, and write ``tieline-connect-VERSION.tgz``."""
    command = [str(source.files / "console" / "build"), "connect"]
    done = subprocess.run(  # noqa: S603
        command, env={**os.environ}, capture_output=True, text=True, timeout=_TIMEOUT, check=False
    )
    if done.returncode:
        raise ReleaseError(f"console/build connect failed:\n{(done.stdout + done.stderr)[-4000:]}")
    pack(source, target)


def pack(source: Source, target: Path) -> None:
    """Write the archive of the compiled package."""
    folder = source.files / "connect"
    paths = [
        *(folder / name for name in _BESIDE_DIST),
        source.files / "LICENSE",
        *sorted((folder / "dist").iterdir()),
    ]
    names = [path.name if path.parent.name != "dist" else f"dist/{path.name}" for path in paths]
    content = tar_gz(
        ((f"package/{name}", path.read_bytes()) for name, path in zip(names, paths, strict=True)),
        source.epoch,
    )
    (target / f"tieline-connect-{source.version}.tgz").write_bytes(content)
