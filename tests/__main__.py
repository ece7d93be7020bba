"""``python -m tests``: every test, in two sessions side by side.

The fast ones come first: what is cheap to know is known before a cluster starts. After them most tests wait for a
cluster, so that two cores have room for two: one session has the platform deployed, the other one starts, installs
and removes clusters of its own. The second one's output is shown when both have ended. What takes minutes to build is
begun at once.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tests.harness.cluster.kubectl import ROOT
from tests.harness.session import durations
from tests.harness.session.prebuild import BEGUN, begin

FAST = ("tests/unit", "-m", "fast")
PLATFORM = ("tests/integration", "tests/e2e")
OTHERS = ("tests/unit", "tests/cluster", "tests/install", "examples", "-m", "not fast")


def main(more: Sequence[str]) -> int:
    """Runs all with ``more`` arguments for pytest; the worst exit code."""
    stop = begin()
    with tempfile.NamedTemporaryFile() as file:
        os.environ[durations.FILE] = file.name
        try:
            return _all(more)
        finally:
            stop()
            print(f"\nThe slowest tests and fixtures:\n{durations.slowest(Path(file.name))}", flush=True)


def _all(more: Sequence[str]) -> int:
    fast = _started(FAST, more)
    with _ending([fast]):
        if code := fast.wait():
            return code
    with tempfile.TemporaryFile("w+") as output:
        print("\nClusters, installation and slow unit tests run beside what follows\n", flush=True)
        sessions = [_started(OTHERS, more, output), _started(PLATFORM, more)]
        with _ending(sessions):
            codes = [session.wait() for session in sessions]
        output.seek(0)
        print("\nClusters, installation and slow unit tests:\n", output.read(), flush=True)
    return max(codes, key=abs)


def _started(
    tests: Sequence[str], more: Sequence[str], output: IO[str] | None = None
) -> subprocess.Popen[str]:
    command = (sys.executable, "-m", "pytest", *tests, *more)
    environment = {**os.environ, BEGUN: "1"}
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, text=True, stdout=output, stderr=subprocess.STDOUT
    )


@contextmanager
def _ending(sessions: Sequence[subprocess.Popen[str]]) -> Iterator[None]:
    """Told to stop, they take their clusters down, and are waited for."""

    def stop(*_: object) -> None:
        for session in sessions:
            session.send_signal(signal.SIGINT)

    before = signal.signal(signal.SIGTERM, stop)
    # A terminal's interrupt reaches the sessions by itself.
    interrupted = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.signal(signal.SIGINT, interrupted)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
