"""What all publishers and consumers of `bench.events` share. Without dependencies: it runs in the peers' environments.

Times are those of the machine's monotonic clock, which is the same in all processes.
"""

import argparse
import asyncio
import json
import os
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

NOTE_BYTES = 30
_PADDING = "x" * 990
Sent = tuple[int, float, float]
"""The number of an event, when publishing it was called, and when that returned."""


def payload(number: int) -> dict[str, Any]:
    """1 KiB of JSON."""
    return {"number": number, "padding": _PADDING}


class Notes:
    """A file in which consumers note when they began with an event: 30 bytes for each."""

    def __init__(self, file: str | None = None) -> None:
        self._file = os.open(file or os.environ["BENCH_NOTES"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def add(self, number: int) -> None:
        """The event is begun now."""
        os.write(self._file, b"%08d %020.9f\n" % (number, time.monotonic()))


def noted(file: Path) -> list[tuple[int, float]]:
    """What is in the file, in order."""
    return [(int(line[:9]), float(line[9:])) for line in file.read_text().splitlines()]


class _Pace:
    def __init__(self, first: int, events: int, rate: float) -> None:
        self._next, self._end, self._rate = first, first + events, rate
        self._first, self._began = first, time.monotonic()
        self._lock = threading.Lock()
        self.sent: list[Sent] = []

    def take(self) -> tuple[int, float] | None:
        """The next number, and how many seconds to wait for its time."""
        with self._lock:
            if self._next >= self._end:
                return None
            number, self._next = self._next, self._next + 1
        due = self._began + (number - self._first) / self._rate if self._rate else 0
        return number, max(due - time.monotonic(), 0)


async def publish(
    call: Callable[[int], Awaitable[object]], *, first: int, events: int, in_flight: int, rate: float = 0
) -> list[Sent]:
    """Publish, with ``in_flight`` calls at a time, and at most ``rate`` a second where that is not 0."""
    pace = _Pace(first, events, rate)

    async def worker() -> None:
        while (taken := pace.take()) is not None:
            number, pause = taken
            if pause:
                await asyncio.sleep(pause)
            called = time.monotonic()
            await call(number)
            pace.sent.append((number, called, time.monotonic()))

    await asyncio.gather(*(worker() for _ in range(in_flight)))
    return pace.sent


def publish_in_threads(
    call: Callable[[int], object], *, first: int, events: int, in_flight: int, rate: float = 0
) -> list[Sent]:
    """``publish`` for calls that block."""
    pace = _Pace(first, events, rate)

    def worker() -> None:
        while (taken := pace.take()) is not None:
            number, pause = taken
            if pause:
                time.sleep(pause)
            called = time.monotonic()
            call(number)
            pace.sent.append((number, called, time.monotonic()))

    threads = [threading.Thread(target=worker) for _ in range(in_flight)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return pace.sent


def arguments() -> argparse.Namespace:
    """What a peer is to do: ``work`` until it is stopped, or ``publish`` and write what was sent to a file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("prepare", "work", "publish"))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--events", type=int, default=0)
    parser.add_argument("--in-flight", type=int, default=1)
    parser.add_argument("--rate", type=float, default=0)
    parser.add_argument("--sent", type=Path)
    return parser.parse_args()


def load_of(chosen: argparse.Namespace) -> dict[str, Any]:
    """The arguments of ``publish``."""
    return {
        "first": chosen.first,
        "events": chosen.events,
        "in_flight": chosen.in_flight,
        "rate": chosen.rate,
    }


def write_sent(chosen: argparse.Namespace, sent: list[Sent]) -> None:
    """For whoever started the publisher."""
    chosen.sent.write_text(json.dumps(sent))
