"""Running other programs, with a time-out and an error that tells what they said."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tieline_cluster.errors import ClusterError

LAST_LINES = 15


def run(
    argv: Sequence[str | Path],
    *,
    timeout: float = 60,
    stdin: str | bytes = b"",
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> str:
    """Run `argv` to its end (`timeout` in seconds) and return its standard output.

    Raises ClusterError with the last lines of what the program said where it fails, is not there or takes longer.
    """
    command = [str(part) for part in argv]
    given = stdin.encode() if isinstance(stdin, str) else stdin
    try:
        done = subprocess.run(  # noqa: S603 (what is run is this package's own choice, never a user's text)
            command, input=given, capture_output=True, timeout=timeout, env=env, cwd=cwd, check=False
        )
    except FileNotFoundError as error:
        raise ClusterError(f"{command[0]} is not installed") from error
    except subprocess.TimeoutExpired as error:
        raise ClusterError(f"{_shown(command)} was not done after {timeout:.0f} s") from error
    if done.returncode != 0:
        output = last_lines((done.stderr + done.stdout).decode(errors="replace"))
        raise ClusterError(f"{_shown(command)} failed (exit {done.returncode}):\n{output}")
    return done.stdout.decode()


def last_lines(text: str, count: int = LAST_LINES) -> str:
    """The last `count` lines, indented so that they stand apart from the sentence before them."""
    return "\n".join(f"    {line}" for line in text.rstrip().splitlines()[-count:])


def _shown(command: Sequence[str]) -> str:
    return " ".join(command[:4]) + (" …" if len(command) > 4 else "")
