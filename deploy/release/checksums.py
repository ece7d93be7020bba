"""``SHA256SUMS``, as ``sha256sum -c`` reads it."""

from __future__ import annotations

import re
from pathlib import Path

from deploy.release.archives import sha256
from deploy.release.errors import ReleaseError

NAME = "SHA256SUMS"
_LINE = re.compile(r"([0-9a-f]{64})  ([^/\s]+)")


def write_checksums(folder: Path) -> None:
    """Write the digests of all files in a folder."""
    lines = [f"{sha256(path)}  {path.name}\n" for path in files(folder)]
    (folder / NAME).write_text("".join(lines), encoding="utf-8")


def read_checksums(folder: Path) -> dict[str, str]:
    """The digests by the names of files. Raises ReleaseError."""
    path = folder / NAME
    if not path.is_file():
        raise ReleaseError(f"{folder} has no {NAME}: it is not the folder of a release")
    found = {}
    for line in path.read_text("utf-8", errors="replace").splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            raise ReleaseError(f"{NAME} has a line that is no digest and name: {line[:100]}")
        found[match[2]] = match[1]
    return found


def require_checksums(folder: Path) -> dict[str, str]:
    """The digests by name, where all files have theirs, and there are no others. Raises ReleaseError."""
    listed = read_checksums(folder)
    there = {path.name for path in files(folder)}
    wrong = [
        *(f"{name} is missing" for name in sorted(listed.keys() - there)),
        *(f"{name} is not in {NAME}" for name in sorted(there - listed.keys())),
        *(
            f"{name} has another digest"
            for name in sorted(there & listed.keys())
            if sha256(folder / name) != listed[name]
        ),
    ]
    if wrong:
        raise ReleaseError(f"Do not install this release: {'; '.join(wrong)}")
    return listed


def files(folder: Path) -> list[Path]:
    """What a release consists of. Signatures are made later, and ``SHA256SUMS`` lists itself not."""
    paths = (path for path in folder.iterdir() if path.is_file())
    return sorted(path for path in paths if path.name != NAME and not path.name.endswith(".sigstore.json"))
