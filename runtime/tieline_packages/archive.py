"""A folder of installed packages as one file, the same for the same contents.

It is a zip: unpacked only once its digest is known to be right, with no way out of the folder.
"""

import json
import os
import shutil
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from tieline_protocol.packages import MANIFEST, MAX_UNPACKED_BYTES

_EPOCH = (1980, 1, 1, 0, 0, 0)
_LEVEL = 1
_EXECUTABLE = 0o755
_READABLE = 0o644
_MIB = 1 << 20


class PackagesError(Exception):
    """Packages cannot be installed or used; the message says what to do."""


def python_tag() -> str:
    """This interpreter, as wheels name it: ``cp311``."""
    return f"cp{sys.version_info.major}{sys.version_info.minor}"


def write_archive(folder: Path, target: Path, manifest: Mapping[str, object]) -> None:
    """Writes ``folder`` and the manifest into ``target``. Raises PackagesError if there is too much."""
    total = 0
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL) as archive:
        _add(archive, MANIFEST, json.dumps(manifest, sort_keys=True).encode(), _READABLE)
        for path in _files(folder):
            total += path.stat().st_size
            if total > MAX_UNPACKED_BYTES:
                raise PackagesError(
                    f"the packages take more than {MAX_UNPACKED_BYTES // _MIB} MiB unpacked; use fewer or smaller "
                    "ones, or an image of your own"
                )
            mode = _EXECUTABLE if os.access(path, os.X_OK) else _READABLE
            _add(archive, path.relative_to(folder).as_posix(), path.read_bytes(), mode)


def unpack_archive(source: Path | BinaryIO, folder: Path) -> None:
    """Unpacks ``source`` into ``folder``. Raises PackagesError for an archive that holds too much."""
    with zipfile.ZipFile(source) as archive:
        entries = archive.infolist()
        if sum(entry.file_size for entry in entries) > MAX_UNPACKED_BYTES + _MIB:
            raise PackagesError(f"the archive holds more than {MAX_UNPACKED_BYTES // _MIB} MiB")
        for entry in entries:
            # zipfile takes drive letters, leading slashes and ".." out of names.
            target = Path(archive.extract(entry, folder))
            if target.is_file() and entry.external_attr >> 16 & 0o111:
                target.chmod(_EXECUTABLE)


def read_manifest(folder: Path) -> Mapping[str, object]:
    """What the packages in a folder were installed for. Raises PackagesError where they are no packages."""
    try:
        found = json.loads((folder / MANIFEST).read_bytes())
    except (OSError, ValueError) as error:
        raise PackagesError(f"{folder} holds no packages: {error}") from error
    return found if isinstance(found, dict) else {}


def clear(folder: Path) -> None:
    """Empties a folder that stays: what an earlier try may have left."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _files(folder: Path) -> Iterator[Path]:
    """The files of packages; one in the place of our own is left out."""
    found = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return iter(sorted(path for path in found if path != folder / MANIFEST))


def _add(archive: zipfile.ZipFile, name: str, content: bytes, mode: int) -> None:
    entry = zipfile.ZipInfo(name, _EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = mode << 16
    archive.writestr(entry, content, compresslevel=_LEVEL)
