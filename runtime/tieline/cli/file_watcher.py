"""Notices changed files by looking at them: no library, and the same on every system."""

import os
from collections.abc import Collection, Mapping
from pathlib import Path

from tieline.configuration.project_folder import Folder

Stamp = Mapping[str, tuple[int, int]]
"""Time and size of files by their paths, with symbolic links resolved."""

_OFTEN = 3
_SOON = 10.0


def stamp(folder: Folder) -> Stamp:
    """Differs when a file of the project was changed, added or removed, or its connections are other files."""
    found = {str(folder): (0, 0)}
    for path in folder.paths():
        try:
            status = path.stat()
        except OSError:
            continue  # removed between listing and looking
        found[os.path.realpath(path)] = status.st_mtime_ns, status.st_size
    return found


def changed(before: Stamp, now: Stamp, *, outputs: Collection[str] = ()) -> set[str]:
    """The paths that differ, without those of ``outputs``."""
    return {
        path
        for path in before.keys() | now.keys()
        if before.get(path) != now.get(path) and path not in outputs
    }


class SelfModifiedFiles:
    """Finds files that change after every deploy: a program that the code has started writes them, say."""

    def __init__(self) -> None:
        self._times: dict[str, int] = {}

    def found(self, paths: Collection[str], *, seconds: float) -> set[str]:
        """Those of ``paths``, which changed ``seconds`` after a deploy, that did so after the ones before, too.

        Never Python's: authors change these again and again.
        """
        if seconds > _SOON or any(Path(path).suffix == ".py" for path in paths):
            self._times = {}
            return set()
        self._times = {path: self._times.get(path, 0) + 1 for path in paths}
        return {path for path, times in self._times.items() if times >= _OFTEN}
