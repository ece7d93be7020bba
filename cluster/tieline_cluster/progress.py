"""Reporting what is being done: a line when a step starts and one when it ends, with the time it took."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

REMIND_EVERY = 15.0
"""Seconds after which a step that is still going on says so."""


class Progress:
    """What the parts of this package report about their work; this one reports it to nobody."""

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """Report that `what` begins, and how long it took when the block ends."""
        yield

    def note(self, what: str) -> None:
        """Report one thing that takes no time."""


class Lines(Progress):
    """Progress as lines of text: on a terminal a step's line is rewritten when the step ends."""

    def __init__(self, stream: TextIO = sys.stderr) -> None:
        self._stream = stream
        self._started = time.monotonic()
        self._lock = threading.Lock()
        self._terminal = stream.isatty()

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """Write `what` now, a reminder from time to time, and the time taken at the end."""
        started = time.monotonic()
        ended = threading.Event()
        self._write(f"{what} …", end="" if self._terminal else "\n")
        reminder = threading.Thread(target=self._remind, args=(what, started, ended), daemon=True)
        reminder.start()
        try:
            yield
        except BaseException:
            self._finish(f"{what}: failed after {time.monotonic() - started:.1f} s")
            raise
        finally:
            ended.set()
            reminder.join()
        self._finish(f"{what}: {time.monotonic() - started:.1f} s")

    def note(self, what: str) -> None:
        """Write one line."""
        self._write(what)

    def _remind(self, what: str, started: float, ended: threading.Event) -> None:
        while not ended.wait(1.0 if self._terminal else REMIND_EVERY):
            elapsed = f"{what} … {time.monotonic() - started:.0f} s"
            if self._terminal:
                self._write(f"\r\033[K{elapsed}", end="")
            else:
                self._write(elapsed)

    def _finish(self, text: str) -> None:
        self._write(f"\r\033[K{text}" if self._terminal else text)

    def _write(self, text: str, *, end: str = "\n") -> None:
        with self._lock:
            self._stream.write(text + end)
            self._stream.flush()
