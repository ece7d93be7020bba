"""``python -m tests``: every test, in two sessions side by side.

The fast tests come first: what is cheap to know is known before a cluster starts. Most of the others wait for a
cluster, so two sessions fit on two cores. One deploys the platform; its last tests compare granted and used rights
(``tests/e2e/test_least_privilege.py``). The other one runs the rest on clusters of its own, and leaves a report of the
rights that were used there; its output is shown when both have ended. Programs that take minutes to build are begun at
once.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tests.harness.cluster.kubectl import ROOT
from tests.harness.session import durations, reports
from tests.harness.session.prebuild import BEGUN, begin

NO_VARIABLES: Mapping[str, str] = {}
FAST = ("tests/unit", "-m", "fast")
_BESIDE = sorted(
    f"tests/integration/{path.name}"
    for path in (ROOT / "tests/integration").iterdir()
    if path.is_dir() and path.name not in ("api", "__pycache__")
)
PLATFORM = ("tests/integration/api", "tests/e2e")
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
            print(f"\nThe slowest tests and fixtures:\n{durations.slowest(Path(file.name))}")
            print(f"\nThe slowest folders:\n{durations.slowest_folders(Path(file.name))}", flush=True)


def _all(more: Sequence[str]) -> int:
    fast = _started(FAST, more)
    with _ending([fast]):
        if code := fast.wait():
            return code
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryDirectory() as folder:
        print("\nClusters, installation and slow unit tests run beside what follows\n", flush=True)
        # On a cluster that is given there is room for one session.
        given = "TIELINE_TEST_CONTEXT" in os.environ
        others = OTHERS if given else (*_BESIDE, *OTHERS)
        platform = (*PLATFORM, *_BESIDE) if given else PLATFORM
        report = Path(folder, "report.json")
        beside = {"TIELINE_TEST_CLUSTER": f"{os.environ.get('TIELINE_TEST_CLUSTER', 'tests')}-2"}
        sessions = [
            _started(others, more, output, beside if given else {**beside, reports.WRITTEN: str(report)}),
            _started(platform, more, None, {} if given else {reports.READ: str(report)}),
        ]
        with _ending(sessions):
            waiting = threading.Thread(target=_end_report, args=(sessions[0], report))
            waiting.start()
            codes = [session.wait() for session in sessions]
            waiting.join()
        output.seek(0)
        print("\nClusters, installation and slow unit tests:\n", output.read(), flush=True)
    return max(codes, key=abs)


def _end_report(session: subprocess.Popen[str], report: Path) -> None:
    session.wait()
    reports.end(report)


def _started(
    tests: Sequence[str],
    more: Sequence[str],
    output: IO[str] | None = None,
    variables: Mapping[str, str] = NO_VARIABLES,
) -> subprocess.Popen[str]:
    command = (sys.executable, "-m", "pytest", *tests, *more)
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
