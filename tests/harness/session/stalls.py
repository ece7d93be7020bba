"""How long the machine has kept a process waiting that wanted to run."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_BEAT = 0.005


@dataclass
class Stalls:
    """The longest one, in seconds."""

    longest: float = 0.0


@contextmanager
def watched_stalls() -> Iterator[Stalls]:
    """What a thread notices that wants to run every few milliseconds."""
    found, ended = Stalls(), threading.Event()

    def beat() -> None:
        before = time.monotonic()
        while not ended.wait(_BEAT):
            now = time.monotonic()
            found.longest = max(found.longest, now - before - _BEAT)
            before = now

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        ended.set()
        thread.join()
