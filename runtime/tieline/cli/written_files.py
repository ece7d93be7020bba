"""Files in the project's folder that its own code writes: their changes are no reason to deploy it again.

Processes that run the code write down which files they open for writing, before they do.
"""

import json
import os
from pathlib import Path

from tieline.server.write_watcher import watch_writes

RECORD = "TIELINE_DESK_OUTPUTS"
"""Environment variable: the file in which it is written down, one path in JSON a line."""


def record_written_files(code: Path) -> None:
    """From now on write down which files below ``code`` this process writes, moves or removes; for its whole life."""
    record = os.environ.get(RECORD)
    if not record:
        return
    descriptor = os.open(record, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    known: set[str] = set()

    def note(path: str) -> None:
        if path not in known:
            known.add(path)
            os.write(descriptor, f"{json.dumps(path)}\n".encode())

    watch_writes(code, note)


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
