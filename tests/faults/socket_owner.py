"""Which process of this machine has a TCP port, from /proc (proc(5))."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def sender_of(port: int, candidates: Mapping[str, int]) -> str:
    """The name of the candidate (process number by name) that is connected from ``port``, or ``somebody``."""
    inodes = _inodes(port)
    for name, pid in candidates.items():
        folder = Path(f"/proc/{pid}/fd")
        try:
            links = [os.readlink(entry) for entry in folder.iterdir()]
        except OSError:
            continue
        if any(link in inodes for link in links):
            return name
    return "somebody"


def _inodes(port: int) -> set[str]:
    found = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if int(fields[1].rpartition(":")[2], 16) == port:
            found.add(f"socket:[{fields[9]}]")
    return found
