"""Notices changed files by looking at them: no library, and the same on every system."""

from tieline.desk.folders import Folder

Stamp = frozenset[tuple[str, int, int]]


def stamp(folder: Folder) -> Stamp:
    """Differs when a file of the project was changed, added or removed, or its connections are other files."""
    found = {(str(folder), 0, 0)}
    for path in folder.paths():
        try:
            status = path.stat()
        except OSError:
            continue  # removed between listing and looking
        found.add((str(path), status.st_mtime_ns, status.st_size))
    return frozenset(found)
