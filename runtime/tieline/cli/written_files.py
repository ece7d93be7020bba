"""Files in the project's folder that its own code writes: their changes are no reason to deploy it again.

Processes that run the code write down which files they open for writing, before they do (audit hooks, PEP 578).
"""

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any

RECORD = "TIELINE_DESK_OUTPUTS"
"""Environment variable: the file in which it is written down, one path in JSON a line."""

_WRITING = os.O_WRONLY | os.O_RDWR
_DATABASE_FILES = ("", "-journal", "-wal", "-shm")


def record_written_files(code: Path) -> None:
    """From now on write down which files below ``code`` this process writes, moves or removes; for its whole life."""
    record = os.environ.get(RECORD)
    if not record:
        return
    root = os.path.join(code.resolve(), "")
    descriptor = os.open(record, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    known: set[str] = set()

    def note(path: Any) -> None:
        if not isinstance(path, str | bytes | os.PathLike):
            return
        full = os.path.realpath(os.fsdecode(path))
        if full.startswith(root) and full not in known:
            known.add(full)
            os.write(descriptor, f"{json.dumps(full)}\n".encode())

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        with contextlib.suppress(Exception):  # whatever it is, the code must not fail by being watched
            match event, arguments:
                case "open", (path, _, int(flags)) if flags & _WRITING:
                    note(path)
                case (("os.rename" | "os.link" | "os.symlink"), (source, target, *_)):
                    note(source)
                    note(target)
                case (("os.remove" | "os.truncate"), (path, *_)):
                    note(path)
                case "sqlite3.connect", (path, *_):
                    for ending in _DATABASE_FILES:
                        note(f"{os.fsdecode(path)}{ending}")

    sys.addaudithook(hook)


class WrittenFiles:
    """What was written down so far."""

    def __init__(self, record: Path) -> None:
        self._record = record
        self._read = 0
        self.paths: set[str] = set()
        """The files' paths, with symbolic links resolved."""

    def refresh(self) -> set[str]:
        """Read what was added; returns the paths that are new."""
        try:
            with self._record.open("rb") as file:
                file.seek(self._read)
                added = file.read()
        except FileNotFoundError:
            return set()
        whole = added[: added.rfind(b"\n") + 1]
        self._read += len(whole)
        new = {json.loads(line) for line in whole.splitlines()} - self.paths
        self.paths |= new
        return new
