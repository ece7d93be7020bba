"""``python -m tests``: every test, in sessions side by side. ``python -m tests fast``: the fast ones alone.

The fast tests come first: what is cheap to know is known before a cluster starts. They keep a core busy, so each of
two sessions has about half of them. The others mostly wait for a cluster, so each of four sessions has some of them,
and a cluster of its own. One deploys the platform; its last tests compare granted and used rights
(``tests/e2e/test_least_privilege.py``). The others leave it a report of the rights that they used; their output is
shown when all have ended. Programs that take minutes to build are begun at once.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tests.harness.cluster.kubectl import ROOT
from tests.harness.session import durations, failures, reports
from tests.harness.session.prebuild import BEGUN, begin
from tests.harness.session.stages import SLOW

_COVERED = ("coverage", "run", "-m") if os.environ.get("TIELINE_COVERAGE") else ()
NO_VARIABLES: Mapping[str, str] = {}
_HALF = tuple(
    f"tests/unit/{folder}"
    for folder in (
        "api",
        "catalogue",
        "connectors",
        "docs",
        "emulator",
        "kubernetes",
        "oauth",
        "operator",
        "resources",
    )
)
FAST = (
    (*_HALF, "-m", "fast"),
    ("tests/unit", *(f"--ignore={folder}" for folder in _HALF), "-m", "fast"),
)
API = ("tests/integration/api",)
_EVENING_OUT = tuple(f"tests/integration/{folder}" for folder in ("manifests", "monitoring", "traces"))
"""Beside what needs a cluster least, so that the sessions take about as long as each other."""
PLATFORM = ("tests/e2e",)
_INTEGRATION = (path for path in (ROOT / "tests/integration").iterdir() if path.is_dir())
_BESIDE = sorted(
    {f"tests/integration/{path.name}" for path in _INTEGRATION if path.name != "__pycache__"}
    - {*API, *_EVENING_OUT}
)
OTHERS = (*SLOW, "tests/cluster", "tests/install", "examples")
BESIDE: Mapping[str, Sequence[str]] = {
    "REST API": API,
    "Operator, engine and others on a cluster": _BESIDE,
    "Clusters, installation and slow unit tests": (*OTHERS, *_EVENING_OUT),
}
"""The sessions beside the one that deploys the platform, by what they are called in the output."""


def main(more: Sequence[str]) -> int:
    """Runs all with ``more`` arguments for pytest; the worst exit code."""
    if more and more[0] == "fast":
        return _fast(more[1:])
    stop = begin()
    with tempfile.NamedTemporaryFile() as took, tempfile.NamedTemporaryFile() as failed:
        os.environ[durations.FILE], os.environ[failures.FILE] = took.name, failed.name
        try:
            return _all(more)
        finally:
            stop()
            print(f"\nThe slowest tests and fixtures:\n{durations.slowest(Path(took.name))}")
            print(f"\nThe slowest folders:\n{durations.slowest_folders(Path(took.name))}")
            print(f"\nThe busiest folders:\n{durations.busiest_folders(Path(took.name))}", flush=True)
            if why := failures.shown(Path(failed.name)):
                print(f"\nWhat failed:\n\n{why}", flush=True)


def _all(more: Sequence[str]) -> int:
    if code := _fast(more):
        return code
    # On a cluster that is given there is room for one session beside those that need none.
    given = "TIELINE_TEST_CONTEXT" in os.environ
    beside = {"Clusters, installation and slow unit tests": OTHERS} if given else BESIDE
    platform = (*API, *_EVENING_OUT, *PLATFORM, *_BESIDE) if given else PLATFORM
    print(f"\nBeside what follows run: {'; '.join(beside)}\n", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        started = {
            title: _Beside(folder / f"{number}", tests, more, number=None if given else number)
            for number, (title, tests) in enumerate(beside.items(), start=2)
        }
        read = os.pathsep.join(str(one.report) for one in started.values())
        sessions = [one.session for one in started.values()]
        sessions.append(_started(platform, more, None, {} if given else {reports.READ: read}))
        with _ending(sessions):
            codes = [session.wait() for session in sessions]
        for title, one in started.items():
            print(f"\n{title}:\n", one.text(), flush=True)
        print("\nHow long the sessions beside it took:")
        for title, one in started.items():
            print(f"{one.seconds:9.0f} s  {title}")
    return max(codes, key=abs)


class _Beside:
    """A session whose output is kept, with a report of the rights that it used."""

    def __init__(self, path: Path, tests: Sequence[str], more: Sequence[str], *, number: int | None) -> None:
        """``number`` names its cluster; None where one is given."""
        self.report, self.output = path.with_suffix(".json"), path.with_suffix(".txt")
        variables = {
            "TIELINE_TEST_CLUSTER": f"{os.environ.get('TIELINE_TEST_CLUSTER', 'tests')}-{number}",
            reports.WRITTEN: str(self.report),
        }
        with self.output.open("w") as output:
            self.session = _started(tests, more, output, variables if number else NO_VARIABLES)
        self._began, self.seconds = time.monotonic(), 0.0
        self._ending = threading.Thread(target=self._end_report)
        self._ending.start()

    def text(self) -> str:
        """What it has printed, once it has ended."""
        self._ending.join()
        return self.output.read_text(errors="replace")

    def _end_report(self) -> None:
        self.session.wait()
        self.seconds = time.monotonic() - self._began
        reports.end(self.report)


def _fast(more: Sequence[str]) -> int:
    with tempfile.TemporaryFile("w+") as output:
        sessions = [_started(FAST[0], more, output), _started(FAST[1], more)]
        with _ending(sessions):
            codes = [session.wait() for session in sessions]
        output.seek(0)
        print(output.read(), flush=True)
    return max(codes, key=abs)


def _started(
    tests: Sequence[str],
    more: Sequence[str],
    output: IO[str] | None = None,
    variables: Mapping[str, str] = NO_VARIABLES,
) -> subprocess.Popen[str]:
    command = (sys.executable, "-m", *_COVERED, "pytest", *tests, *more)
    environment = {**os.environ, BEGUN: "1", **variables}
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
