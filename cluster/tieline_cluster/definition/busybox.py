"""BusyBox: the shell and the tools that the published image of the event engine has, from Debian's static package."""

import tempfile
from pathlib import Path

from tieline_cluster.commands import run
from tieline_cluster.errors import ClusterError
from tieline_cluster.files import locked
from tieline_cluster.paths import cache_folder
from tieline_cluster.progress import Progress

_PACKAGE = "busybox-static"
_TIMEOUT = 300


def ensure_busybox(progress: Progress) -> Path:
    """The program, downloaded if it is not in the cache. Nothing is installed: it would replace another BusyBox."""
    program = cache_folder() / "busybox"
    if program.is_file():
        return program
    with locked(cache_folder() / "busybox.lock"):
        if not program.is_file():
            with progress.step(f"Downloading {_PACKAGE}"), tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                _download(folder)
                (archive,) = folder.glob("*.deb")
                run(["dpkg-deb", "--extract", archive, folder / "files"])
                (found,) = [path for path in folder.glob("files/**/bin/busybox") if path.is_file()]
                _move(found, program)
    return program


def _download(folder: Path) -> None:
    command = ["apt-get", "download", "-q", _PACKAGE]
    try:
        run(command, cwd=folder, timeout=_TIMEOUT)
    except ClusterError:
        # The package lists may be missing, or older than what the mirror has.
        run(["apt-get", "update", "-q"], timeout=_TIMEOUT)
        run(command, cwd=folder, timeout=_TIMEOUT)


def _move(found: Path, program: Path) -> None:
    part = program.with_suffix(".part")
    part.write_bytes(found.read_bytes())
    part.chmod(0o755)
    part.rename(program)
