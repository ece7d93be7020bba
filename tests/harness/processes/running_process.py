"""A part of the platform as a process on this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar, Self

_START_SECONDS = 60.0
_STOP_SECONDS = 60.0


class RunningProcess(ABC):
    """Starts ``python -m`` of a module, returns once it is ready, and ends it in an orderly way.

    It dies with the thread that started it, and writes to ``log``.
    """

    module: ClassVar[str]
    log: Path
    prefix: tuple[str, ...] = ()
    """A command that starts the process in surroundings of its own."""
    _process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def environment(self) -> dict[str, str]:
        """What is added to the environment of the tests."""

    @abstractmethod
    def ready(self) -> bool:
        """Whether it does what it was started for."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self.stop()

    def start(self) -> None:
        self.spawn()
        self.until_ready()

    def spawn(self) -> None:
        """Starts it, and does not wait."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *self.prefix, sys.executable, "-m", self.module],
                env={**os.environ, **self.environment()},
                stdout=log,
                stderr=log,
            )

    def until_ready(self, within: float = _START_SECONDS) -> None:
        """Returns once it does what it was started for."""
        assert self._process is not None, f"{self.module} was not started"
        until = time.monotonic() + within
        while not self.ready():
            said = self.log.read_text()[-3000:]
            assert self._process.poll() is None, f"{self.module} ended:\n{said}"
            assert time.monotonic() < until, f"{self.module} is never ready:\n{said}"
            time.sleep(0.1)

    def stop(self) -> int | None:
        """The exit code, or nothing where nothing was started. What it has to export is exported."""
        if self._process is None:
            return None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(timeout=_STOP_SECONDS)

    def wait(self) -> int:
        """The exit code, once it has ended by itself."""
        assert self._process is not None, f"{self.module} was not started"
        return self._process.wait(timeout=_STOP_SECONDS)

    @property
    def pid(self) -> int | None:
        """Its number while it runs."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal: SIGSTOP pauses it, SIGCONT lets it go on. After SIGKILL it has ended."""
        if self.pid is None or self._process is None:
            return
        self._process.send_signal(number)
        if number is signal.SIGKILL:
            self._process.wait(timeout=_STOP_SECONDS)
