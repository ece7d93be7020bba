"""Progress that code reports: the latest state is kept, and sent from time to time."""

import asyncio
import math
import time
from collections.abc import Callable

from tieline_protocol.run_progress import Progress, shown_text

_MAX_TEXT = 10_000
_FIRST_SECONDS = 1.0
_SHARE = 20
"""The longer an attempt lasts the rarer its progress is sent: after a twentieth of its time so far. So the history
gets 20 records for each factor of e, however often code reports."""


class RunProgress:
    """The progress of an attempt. Reporting it costs a microsecond."""

    __slots__ = ("_began", "_is_due", "_latest", "_loop", "_next", "_report")

    def __init__(self) -> None:
        self._latest: tuple[str, float | None, float] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._report: Callable[[], None] | None = None
        self._is_due = False
        self._began = self._next = 0.0

    def follow(self, report: Callable[[], None]) -> None:
        """Call ``report`` from now on once there is something new: at first after a second, and then rarer."""
        self._loop, self._report = asyncio.get_running_loop(), report
        self._began = self._loop.time()
        self._next = self._began + _FIRST_SECONDS

    def stop(self) -> bool:
        """The attempt has ended: its last record has the progress. Whether the latest state was not sent before."""
        self._report = None
        return self._is_due

    def set(self, text: str, fraction: float | None) -> None:
        """See ``Context.progress``. May be called in any thread."""
        if not isinstance(text, str):
            raise TypeError(f"progress takes a text, not a {type(text).__name__}")
        if len(text) > _MAX_TEXT:
            raise ValueError(f"The text of progress has {len(text):,} characters; it may have {_MAX_TEXT:,}")
        if fraction is not None:
            fraction = float(fraction)
            if not 0 <= fraction <= 1:
                raise ValueError(f"The fraction of progress is from 0 to 1, not {fraction:g}")
        self._latest = (text, fraction, time.time())
        if self._report is not None and not self._is_due and self._loop is not None:
            self._is_due = True
            # With the context of the run, which log lines and masking need.
            self._loop.call_soon_threadsafe(self._plan)

    def record(self, attempt: int, mask: Callable[[str], str]) -> Progress | None:
        """The latest state with known secrets masked; None without one. Not cut before it is masked."""
        if self._latest is None:
            return None
        text, fraction, at = self._latest
        return Progress(text=shown_text(mask(text)), fraction=fraction, at=at, attempt=attempt)

    def _plan(self) -> None:
        if self._loop is not None:
            self._loop.call_later(max(self._next - self._loop.time(), 0), self._send)

    def _send(self) -> None:
        self._is_due = False
        if self._report is None or self._loop is None:
            return
        now = self._loop.time()
        self._next = now + max(_FIRST_SECONDS, (now - self._began) / _SHARE)
        self._report()


def shown(progress: Progress) -> str:
    """Progress in a line of the log.

    >>> shown(Progress(text="3 of 10", fraction=0.3, at=0, attempt=1))
    '3 of 10 (30 %)'
    """
    if progress.fraction is None:
        return progress.text
    return f"{progress.text} ({math.floor(progress.fraction * 100)} %)"
