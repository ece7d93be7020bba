"""How long the tests and fixtures of a run took, over all of its sessions."""

from __future__ import annotations

import heapq
import json
import os
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

FILE = "TIELINE_TEST_DURATIONS"
"""Environment variable: the file to which sessions append what took long, one JSON array a line."""

_SHORTEST = 0.1
_SHOWN = 10


def note(what: str, seconds: float) -> None:
    """Append a test or a fixture that took ``seconds``; what is short, or nobody asks for, is left out."""
    path = os.environ.get(FILE)
    if path and seconds >= _SHORTEST:
        with Path(path).open("a") as file:
            file.write(f"{json.dumps([seconds, what])}\n")


def slowest(path: Path) -> str:
    """A table of the ten slowest; sessions that were killed leave what they noted."""
    return _table(_entries(path))


def slowest_folders(path: Path) -> str:
    """A table of the ten folders whose tests took longest in sum, without the fixtures that they share."""
    sums: defaultdict[str, float] = defaultdict(float)
    for seconds, what in _entries(path):
        if "::" in what and not what.startswith("fixture"):
            sums["/".join(what.partition("::")[0].split("/")[:3])] += seconds
    return _table((seconds, folder) for folder, seconds in sums.items())


def _entries(path: Path) -> list[tuple[float, str]]:
    return [tuple(json.loads(line)) for line in path.read_text().splitlines()]


def _table(entries: Iterable[tuple[float, str]]) -> str:
    return "\n".join(f"{seconds:8.1f} s  {what}" for seconds, what in heapq.nlargest(_SHOWN, entries))
