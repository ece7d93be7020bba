"""mypy and pyright as users of generated modules run them, with the time and memory that they take."""

import atexit
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.harness.inputs.api_descriptions import npm_package

PYRIGHT = ("pyright", "1.1.414")
_SECONDS = 600


@dataclass(frozen=True)
class Check:
    """What a checker said."""

    errors: tuple[tuple[str, int, str], ...]
    """File, line and text of each."""
    output: str
    seconds: float
    """Processor time: others may use the machine, too."""
    mebibytes: float
    """Peak memory."""

    def lines(self, name: str) -> list[int]:
        """The lines of a file that have errors."""
        return sorted({line for file, line, _ in self.errors if Path(file).name == name})


@cache
def mypy_cache(options: str = "") -> str:
    """A folder for what mypy remembers, which the checks of a session with the same ``options`` share.

    Most of what they read is the same: the standard library, the SDK and what it needs. Name files with their whole
    paths, because files of one name, time and size are the same to mypy.
    """
    folder = tempfile.mkdtemp(prefix="mypy-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def mypy(folder: Path, *, cached: Path | None = None) -> Check:
    """What mypy says of a folder in strict mode."""
    store = str(cached) if cached else os.devnull
    options = ["--strict", "--explicit-package-bases", "--no-error-summary", "--cache-dir", store]
    command = [sys.executable, "-m", "mypy", *options, "."]
    output, seconds, memory = _run(command, folder)
    found = re.findall(r"^([^:\n]+):(\d+): error: (.*)$", output, re.MULTILINE)
    return Check(tuple((file, int(line), text) for file, line, text in found), output, seconds, memory)


def pyright(folder: Path) -> Check:
    """What pyright says of a folder in strict mode."""
    (folder / "pyrightconfig.json").write_text(json.dumps({"include": ["."], "typeCheckingMode": "strict"}))
    node = shutil.which("node")
    if node is None:
        raise RuntimeError("pyright needs Node.js: install it, and run this again")
    command = [node, str(_pyright() / "index.js"), "--outputjson", "--pythonpath", sys.executable]
    output, seconds, memory = _run(command, folder)
    errors = [
        (one["file"], one["range"]["start"]["line"] + 1, one["message"])
        for one in json.loads(output)["generalDiagnostics"]
        if one["severity"] == "error"
    ]
    return Check(tuple(errors), output, seconds, memory)


@cache
def _pyright() -> Path:
    archive = npm_package(*PYRIGHT)
    folder = archive.with_suffix("")
    if not folder.exists():
        staging = archive.with_name(f"unpacking-{os.getpid()}")
        with tarfile.open(archive) as packed:
            packed.extractall(staging, filter="data")
        try:
            (staging / "package").rename(folder)
        except OSError:  # another session did so meanwhile
            if not folder.exists():
                raise
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    return folder


def _run(command: Sequence[str], folder: Path) -> tuple[str, float, float]:
    # In a process of its own, since a process knows the peak of all its children together.
    with subprocess.Popen(
        [sys.executable, "-c", _USED, str(_SECONDS), *command],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        output, errors = process.communicate()
    if process.returncode not in (0, 1):
        raise RuntimeError(f"{command[0]} ended with {process.returncode}: {output[-2000:]}{errors[-2000:]}")
    seconds, kibibytes = map(float, errors.rpartition("USED ")[2].split())
    return output, seconds, kibibytes / 1024


_USED = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[2:], timeout=float(sys.argv[1]))
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print("USED", used.ru_utime + used.ru_stime, used.ru_maxrss, file=sys.stderr)
sys.exit(done.returncode)
"""
