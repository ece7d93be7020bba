"""Archives whose bytes depend on nothing but their content and one time."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Iterable
from pathlib import Path

_CHUNK = 1 << 20


def sha256(path: Path) -> str:
    """The digest of a file's content in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def tar_gz(files: Iterable[tuple[str, bytes]], epoch: int) -> bytes:
    """A compressed archive of files in their order."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in files:
            archive.addfile(_entry(name, len(content), epoch), io.BytesIO(content))
    return gzip.compress(written.getvalue(), mtime=0)


def tar_of_folder(folder: Path, target: Path, epoch: int) -> None:
    """Write the files below a folder into an archive, by their names in order."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    with tarfile.open(target, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in paths:
            entry = _entry(path.relative_to(folder).as_posix(), path.stat().st_size, epoch)
            with path.open("rb", buffering=_CHUNK) as file:
                archive.addfile(entry, file)


def _entry(name: str, size: int, epoch: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = size, 0o644, epoch
    return entry
