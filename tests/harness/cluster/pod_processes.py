"""The processes of pods as this machine sees them: to kill and pause what runs in a container."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path


def processes_of(pod: str) -> list[int]:
    """The numbers of a pod's processes; none where the cluster's nodes are elsewhere (or in a machine of their own)."""
    wanted = f"HOSTNAME={pod}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        # They come and go, and others' cannot be read.
        with suppress(OSError):
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def send(pod: str, number: signal.Signals) -> None:
    """Sends a signal to all processes of a pod, as many as there are."""
    for process in processes_of(pod):
        with suppress(ProcessLookupError):
            os.kill(process, number)
