"""Ports for the processes that tests start."""

from __future__ import annotations

import socket


def free_port() -> int:
    """A port that nobody has."""
    (port,) = free_ports(1)
    return port


def free_ports(count: int) -> list[int]:
    """As many ports, which nobody has and no two of which are the same."""
    taken = [socket.socket() for _ in range(count)]
    try:
        for one in taken:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in taken]
    finally:
        for one in taken:
            one.close()
