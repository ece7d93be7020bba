"""Ends a process whose event loop is blocked: no request, lease or probe of it is served meanwhile.

A thread asks the loop for a sign of life. It counts its own turns and not the time, so that a process that was paused
as a whole does not count as blocked. The thread needs Python's lock. Code that keeps the lock, such as a regular
expression that backtracks without end, ends by the liveness probe; ``faulthandler`` writes its line without the lock.
"""

import asyncio
import faulthandler
import logging
import os
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from tieline_protocol.exit_codes import BLOCKED

logger = logging.getLogger("tieline")

_TURNS = 10
"""Turns of the thread in the limit."""
_LOCKED = 1.5
"""Times the limit after which ``faulthandler`` writes where the code is."""
_STDERR = 2
_REPORT_SECONDS = 2.0
_RUN_REPORT_SECONDS = 4.0
_DEBUGGERS = frozenset({"bdb", "pdb", "pydevd", "debugpy"})


@dataclass(frozen=True, kw_only=True)
class Blocked:
    """What is known of a loop that is blocked."""

    seconds: float
    file: str
    line: int
    function: str
    run: str | None
    """The run's id."""
    what: str
    """What runs, in a sentence."""

    def __str__(self) -> str:
        return (
            f"{self.what} blocked the event loop for {self.seconds:g} seconds at {self.file}:{self.line} in "
            f"{self.function}, so that nothing else could run. Await what takes time, or make the function a plain "
            "def, which runs in a thread"
        )


class Watchdog:
    """Watches the running loop from ``start`` to ``stop``."""

    def __init__(
        self,
        *,
        seconds: float,
        code: Path,
        run_of: Callable[[asyncio.Task[object]], tuple[str, str] | None],
        blocked: Callable[[Blocked], None],
    ) -> None:
        """``run_of`` returns id and name of a task's run. ``blocked`` is called in the watchdog's thread."""
        self._seconds = seconds
        self._code = code
        self._run_of = run_of
        self._blocked = blocked
        self._loop = asyncio.get_running_loop()
        self._main = threading.get_ident()
        self._stopped = threading.Event()
        self._alive = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="tieline-watchdog", daemon=True)

    def start(self) -> None:
        """Watch from now on, unless the limit is 0."""
        if self._seconds > 0:
            self._thread.start()

    def stop(self) -> None:
        """The loop ends."""
        self._stopped.set()
        faulthandler.cancel_dump_traceback_later()

    def _watch(self) -> None:
        turn = self._seconds / _TURNS
        silent = 0
        self._ask()
        while not self._stopped.wait(turn):
            if self._alive.is_set():
                silent = 0
                self._ask()
                continue
            silent += 1
            if silent == _TURNS and not self._is_debugged():
                faulthandler.cancel_dump_traceback_later()
                self._blocked(self._where())

    def _ask(self) -> None:
        self._alive.clear()
        try:
            self._loop.call_soon_threadsafe(self._answer)
        except RuntimeError:
            self._stopped.set()  # the loop is closed

    def _answer(self) -> None:
        self._alive.set()
        if not self._stopped.is_set():
            faulthandler.dump_traceback_later(self._seconds * _LOCKED, file=_STDERR)

    def _where(self) -> Blocked:
        frames = self._frames()
        own = [frame for frame in frames if Path(frame.f_code.co_filename).is_relative_to(self._code)]
        frame = (own or frames)[0]
        file = Path(frame.f_code.co_filename)
        task = asyncio.current_task(self._loop)
        run, what = (task and self._run_of(task)) or (None, "Code")
        return Blocked(
            seconds=self._seconds,
            file=str(file.relative_to(self._code) if own else file),
            line=frame.f_lineno,
            function=frame.f_code.co_name,
            run=run,
            what=what,
        )

    def _frames(self) -> list[FrameType]:
        """Those of the loop's thread, innermost first."""
        frame = sys._current_frames().get(self._main)
        return [one for one, _ in traceback.walk_stack(frame)]

    def _is_debugged(self) -> bool:
        """Whether somebody may be looking at the code, step by step."""
        modules = {frame.f_globals.get("__name__", "").partition(".")[0] for frame in self._frames()}
        traced = any(frame.f_trace is not None for frame in self._frames())
        return traced or bool(_DEBUGGERS & modules) or "pydevd" in sys.modules


def end_process(
    blocked: Blocked, *, report: Callable[[Blocked], None], report_run: Callable[[Blocked], None]
) -> None:
    """Report the process and its run, and exit with ``exit_codes.BLOCKED``.

    A report gets a few seconds: it may wait for a lock of the blocked code.
    """
    for call, seconds in ((report, _REPORT_SECONDS), (report_run, _RUN_REPORT_SECONDS)):
        reporting = threading.Thread(target=call, args=(blocked,), daemon=True)
        reporting.start()
        reporting.join(seconds)
    os._exit(BLOCKED)


def warn(blocked: Blocked) -> None:
    """For a process that nothing restarts."""
    logger.warning("%s. In a pod it ends, and is started again", blocked, extra={"execution_id": blocked.run})
