"""Child processes that read what strangers have written: how they start, and what each gives up first."""

import os
import resource
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess

_NICENESS = 5
# What an interpreter needs to start and to find its modules; nothing that could be a secret.
_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "PYTHONPATH", "VIRTUAL_ENV", "LD_LIBRARY_PATH")


def start(
    module: str, *arguments: object, stdin: int, stdout: int, variables: Mapping[str, str] | None = None
) -> "subprocess.Popen[bytes]":
    """A process that runs a module of ours. OSError where there is no memory or process left for it."""
    import subprocess  # noqa: PLC0415  (8 ms that the children do not spend)

    # Not by the event loop: uvloop copies this process' page tables for it, tens of milliseconds.
    return subprocess.Popen(  # noqa: S603  (our own module)
        [sys.executable, "-m", module, *map(str, arguments)],
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.DEVNULL,
        env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ} | dict(variables or {}),
        start_new_session=True,
    )


def yield_to_others() -> None:
    """The process lets those go first who wait for an answer of the platform itself; it dumps no core."""
    os.nice(_NICENESS)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Where the container's memory ends all the same, this process is the one to go.
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
