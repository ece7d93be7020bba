"""Starting programs that outlive this one, finding them again, and ending them: only ever those that are ours.

A process is known by its number together with the time it started, so that a number which the kernel has given to
another program is never mistaken for ours. What a killed run left without a record is found by an environment variable
that every program of a cluster (and every child of one) carries.
"""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tieline_cluster.files import write_if_changed

MARK = "TIELINE_CLUSTER"
"""The environment variable that names the cluster's state folder."""
KILL_TIMEOUT = 30.0
_children: list[subprocess.Popen[bytes]] = []
"""Kept so that a program we started is reaped when it ends while we still run."""


@dataclass(frozen=True)
class Process:
    """A process: its number, and when it started (clock ticks since the machine did; proc(5), field 22)."""

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> "Process | None":
        """The living process with this number."""
        fields = _stat(pid)
        if fields is None or fields[0] in "ZX":
            return None
        return cls(pid, int(fields[19]))

    def alive(self) -> bool:
        """Whether it still runs (a zombie does not)."""
        return Process.of(self.pid) == self

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if it still runs."""
        if self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


class ProcessRecords:
    """The processes of one cluster, each in a file that also says what it was started with."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, name: str) -> tuple[Process, str] | None:
        """The living process of this name and the fingerprint of what it was started with."""
        try:
            record = json.loads((self._folder / f"{name}.json").read_text())
        except (OSError, ValueError):
            return None
        process = Process(record["pid"], record["started"])
        if record["boot"] != boot_id() or not process.alive():
            return None
        return process, record["fingerprint"]

    def all(self) -> dict[str, Process]:
        """Every recorded process that lives."""
        names = sorted(path.stem for path in self._folder.glob("*.json"))
        return {name: found[0] for name in names if (found := self.find(name))}

    def start(
        self, name: str, argv: Sequence[str], *, fingerprint: str, log: Path, env: Mapping[str, str]
    ) -> Process:
        """Start a program in a session of its own, with its output in `log` (the one before is kept beside it)."""
        log.parent.mkdir(parents=True, exist_ok=True)
        if log.exists():
            log.replace(log.with_suffix(".previous.log"))
        with log.open("wb") as output:
            child = subprocess.Popen(  # noqa: S603 (the command lines are in `components`)
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd="/",
                env=dict(env),
            )
        _children.append(child)
        process = Process.of(child.pid) or Process(child.pid, 0)
        record = {
            "pid": child.pid,
            "started": process.started,
            "boot": boot_id(),
            "fingerprint": fingerprint,
        }
        write_if_changed(self._folder / f"{name}.json", json.dumps(record))
        return process

    def forget(self, name: str) -> None:
        """Delete the record."""
        (self._folder / f"{name}.json").unlink(missing_ok=True)


def marked(state: Path) -> list[Process]:
    """Every process of the cluster in `state`, recorded or not, apart from ourselves."""
    mark = f"{MARK}={state}".encode()
    return [process for process, variables in _environments() if mark in variables]


def strays(state: Path, recorded: Iterable[Process]) -> list[Process]:
    """What a run that was killed has started but not recorded.

    Each of our programs leads a session, unlike what containerd starts for its containers, which must live on.
    """
    known = set(recorded)
    return [process for process in marked(state) if process not in known and _leads_session(process)]


def end(processes: Iterable[Process], *, grace: float) -> None:
    """Ask the processes to end, wait `grace` seconds, then kill those that have not; returns when all are gone."""
    remaining = [process for process in processes if process.alive()]
    if grace > 0:
        for process in remaining:
            process.signal(signal.SIGTERM)
        remaining = _wait(remaining, grace)
    for process in remaining:
        process.signal(signal.SIGKILL)
    _wait(remaining, KILL_TIMEOUT)


def boot_id() -> str:
    """Differs after each start of the machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _wait(processes: list[Process], timeout: float) -> list[Process]:
    deadline = time.monotonic() + timeout
    while processes and time.monotonic() < deadline:
        time.sleep(0.02)
        _reap()
        processes = [process for process in processes if process.alive()]
    return processes


def _reap() -> None:
    _children[:] = [child for child in _children if child.poll() is None]


def _environments() -> Iterator[tuple[Process, list[bytes]]]:
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        process = Process.of(int(entry.name))
        try:
            variables = Path(entry.path, "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if process is not None:
            yield process, variables


def _leads_session(process: Process) -> bool:
    fields = _stat(process.pid)
    return fields is not None and int(fields[3]) == process.pid


def _stat(pid: int) -> list[str] | None:
    try:
        # The program's name, in parentheses, may have spaces and parentheses itself.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
