"""The chart as it reaches a cluster: in archives of a commit, and packaged by helm."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from pathlib import Path

from deploy.release.chart import write_chart
from deploy.release.source import Source
from tests.harness.cluster.kubectl import ROOT

CHART = Path("deploy/helm/tieline")
_NO_CONFIGURATION = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}


def checkout(folder: Path, root: Path = ROOT) -> Path:
    """A repository in ``folder`` with the files of ``deploy/`` as they are in this one now, committed or not."""
    folder.mkdir()
    _git(folder, "init", "--quiet")
    names = _git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "deploy").decode()
    for name in filter(None, names.split("\0")):
        source, target = root / name, folder / name
        if not os.path.lexists(source):
            continue  # deleted, and not yet committed
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            target.symlink_to(source.readlink())
        else:
            target.write_bytes(source.read_bytes())
    _git(folder, "add", "--all")
    return folder


def from_flux(repository: Path, folder: Path) -> Path:
    """The chart in an archive as Flux's source-controller writes it: regular files and folders alone."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as writer:
        for path in sorted(repository.rglob("*")):
            name = path.relative_to(repository)
            if path.is_file() and not path.is_symlink() and name.parts[0] != ".git":
                writer.add(path, arcname=str(name), recursive=False)
    return _extracted(archive.getvalue(), folder)


def from_git(repository: Path, folder: Path) -> Path:
    """The chart in what ``git archive`` writes, as the downloads of a forge are."""
    tree = _git(repository, "write-tree").decode().strip()
    return _extracted(_git(repository, "archive", "--format=tar", tree), folder)


def packaged(helm: Path, repository: Path, folder: Path) -> Path:
    """The file that ``helm package`` writes."""
    command = [helm, "package", repository / CHART, "--destination", folder]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    (file,) = folder.glob("*.tgz")
    return file


def released(repository: Path, folder: Path) -> Path:
    """The file that a release has."""
    folder.mkdir()
    write_chart(Source(files=repository, version="0.1.0", commit="none", epoch=0), folder)
    (file,) = folder.glob("*.tgz")
    return file


def _extracted(archive: bytes, folder: Path) -> Path:
    with tarfile.open(fileobj=io.BytesIO(archive)) as reader:
        reader.extractall(folder, filter="data")
    return folder / CHART


def _git(folder: Path, *arguments: str) -> bytes:
    done = subprocess.run(
        ["git", *arguments],
        cwd=folder,
        env={**os.environ, **_NO_CONFIGURATION},
        check=True,
        capture_output=True,
        timeout=60,
    )
    return done.stdout
