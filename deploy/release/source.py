"""The commit that is released. A release has only what is committed."""

from __future__ import annotations

import io
import json
import re
import subprocess
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import yaml
from packaging.requirements import Requirement

from deploy.release.errors import ReleaseError

CHART = Path("deploy/helm/tieline")
SDK = Path("runtime/tieline/__init__.py")
PROJECTS = (Path("pyproject.toml"), Path("deploy/platform/pyproject.toml"))
_GIT_TIMEOUT = 120


@dataclass(frozen=True, kw_only=True)
class Source:
    """A commit, and its files in a folder of their own."""

    files: Path
    version: str
    commit: str
    epoch: int
    """When it was committed, in seconds since 1970. All times in a release are this one."""

    @property
    def time(self) -> str:
        """The time of the commit in RFC 3339."""
        return datetime.fromtimestamp(self.epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@contextmanager
def source(root: Path) -> Iterator[Source]:
    """The commit that is checked out in ``root``. Raises ReleaseError."""
    commit, epoch = _git(root, "log", "-1", "--format=%H %ct").decode().split()
    with tempfile.TemporaryDirectory(prefix="tieline-release-") as name:
        files = Path(name)
        # Modes follow from this umask, and not from the publisher's.
        exported = _git(root, "-c", "tar.umask=0022", "archive", "--format=tar", commit)
        with tarfile.open(fileobj=io.BytesIO(exported)) as archive:
            archive.extractall(files, filter="tar")
        yield Source(files=files, version=one_version(files), commit=commit, epoch=int(epoch))


def uncommitted(root: Path) -> list[str]:
    """The changed and new files of a work tree, which the release does not have."""
    return [line[3:] for line in _git(root, "status", "--porcelain").decode().splitlines()]


def one_version(files: Path) -> str:
    """The version that all parts of the project name. Raises ReleaseError if they differ."""
    chart = yaml.safe_load((files / CHART / "Chart.yaml").read_text("utf-8"))
    sdk = re.search(r'^__version__ = "(.+)"$', (files / SDK).read_text("utf-8"), re.MULTILINE)
    named = {
        **{str(path): _project(files / path)["version"] for path in PROJECTS},
        **_pinned_parts(_project(files / PROJECTS[1])),
        str(SDK): sdk[1] if sdk else "none",
        f"{CHART}/Chart.yaml (version)": str(chart["version"]),
        f"{CHART}/Chart.yaml (appVersion)": str(chart["appVersion"]),
        "connect/package.json": json.loads((files / "connect/package.json").read_text("utf-8"))["version"],
    }
    if len(set(named.values())) > 1:
        listed = ", ".join(f"{place}: {version}" for place, version in named.items())
        raise ReleaseError(f"All parts of a release have one version. Make these the same: {listed}")
    return str(chart["version"])


def _project(path: Path) -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))["project"]
    return project


def _pinned_parts(project: Mapping[str, Any]) -> dict[str, str]:
    """The versions of other parts of Tieline that a distribution demands."""
    extras = project.get("optional-dependencies", {}).values()
    demanded = [Requirement(one) for one in (*project.get("dependencies", []), *chain(*extras))]
    return {
        f"{project['name']} (needs {one.name})": str(one.specifier).removeprefix("==")
        for one in demanded
        if one.name.startswith("tieline")
    }


def _git(root: Path, *arguments: str) -> bytes:
    command = ["git", "-C", str(root), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_GIT_TIMEOUT, check=True)  # noqa: S603
    except FileNotFoundError:
        raise ReleaseError("git is not installed") from None
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip()
        raise ReleaseError(f"A release is made in a git checkout with a commit: {said}") from None
    except subprocess.TimeoutExpired:
        raise ReleaseError(f"git {arguments[-1]} was not done after {_GIT_TIMEOUT} s") from None
    return done.stdout
