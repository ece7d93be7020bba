"""How long the tests and fixtures of a run took, over all of its sessions."""

from __future__ import annotations

import heapq
import json
import os
import resource
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

FILE = "TIELINE_TEST_DURATIONS"
"""Environment variable: the file to which sessions append what took long, one JSON array a line."""

_SHORTEST = 0.1
_SHOWN = 10

_Entry = tuple[float, float, str]


def processor_time() -> float:
    """Seconds of processor time of this process and of those of its children that have ended."""
    return sum(
        used.ru_utime + used.ru_stime
        for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def note(what: str, seconds: float, processor: float) -> None:
    """Append a test or a fixture that took ``seconds``, of which ``processor`` on a core.

    What is short, or nobody asks for, is left out.
    """
    path = os.environ.get(FILE)
    if path and seconds >= _SHORTEST:
        with Path(path).open("a") as file:
            file.write(f"{json.dumps([seconds, processor, what])}\n")


def slowest(path: Path) -> str:
    """A table of the ten slowest; sessions that were killed leave what they noted."""
    return _table(_entries(path))


def slowest_folders(path: Path) -> str:
    """A table of the ten folders whose tests took longest in sum, without the fixtures that they share."""
    return _table(_folders(path))


def busiest_folders(path: Path) -> str:
    """The same by processor time, without that of processes that outlive a test."""
    return _table(_folders(path), by=lambda entry: entry[1])


def _folders(path: Path) -> list[_Entry]:
    sums: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for seconds, processor, what in _entries(path):
        if "::" in what and not what.startswith("fixture"):
            folder = sums["/".join(what.partition("::")[0].split("/")[:4])]
            folder[0] += seconds
            folder[1] += processor
    return [(seconds, processor, folder) for folder, (seconds, processor) in sums.items()]


def _entries(path: Path) -> list[_Entry]:
    return [tuple(json.loads(line)) for line in path.read_text().splitlines()]


def _table(entries: Iterable[_Entry], by: Callable[[_Entry], float] = lambda entry: entry[0]) -> str:
    rows = (
        f"{seconds:8.1f} s {processor:8.1f} s on a core  {what}"
        for seconds, processor, what in heapq.nlargest(_SHOWN, entries, key=by)
    )
    return "\n".join(rows)
