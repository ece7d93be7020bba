"""Ports for the processes that tests start."""

from __future__ import annotations

import fcntl
import os
import socket
import tempfile
from pathlib import Path

_FIRST, _LAST = 18_000, 26_999
"""Below the ports of local clusters (from 27440), NodePorts (30000) and outgoing connections (32768)."""
_NEXT = Path(tempfile.gettempdir()) / f"tieline-test-ports.{os.getuid()}"


def free_port() -> int:
    """A port that nobody has."""
    (port,) = free_ports(1)
    return port


def free_ports(count: int) -> list[int]:
    """As many ports, which nobody has, and which no other process of tests is given for a long time.

    A port that the kernel picks can be given to another process, or to an outgoing connection, before the process that
    it is meant for listens.
    """
    found: list[int] = []
    with _NEXT.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        port = int(file.read() or _FIRST)
        for _ in range(_LAST - _FIRST):
            if _is_free(port):
                found.append(port)
            port = port + 1 if port < _LAST else _FIRST
            if len(found) == count:
                break
        else:
            raise RuntimeError(f"fewer than {count} ports from {_FIRST} to {_LAST} are free")
        file.truncate(0)
        file.write(str(port))
    return found


def _is_free(port: int) -> bool:
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
