"""Replays runs that wait against a project's code, in a process: ``python -m tieline.cli.replay_sleepers``."""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tieline.server.sleeper_replay import Replayed, SleeperReplay

TIMEOUT = 60.0
"""What loading the code and replaying all runs may take, in seconds."""
_MEMORY_BYTES = 2 * 1024 * 1024 * 1024
_MOST_TEXT = 2000
_VERDICTS = ("continues", "stops", "unknown")
_REFUSED = (
    "socket.connect", "socket.sendto", "socket.getaddrinfo", "socket.bind", "subprocess.Popen", "os.system", "os.exec",
    "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "os.kill", "os.remove", "os.rename", "os.mkdir", "os.rmdir",
    "shutil.rmtree",
)  # fmt: skip
"""Audit events of what reaches beyond the process."""


def replay_in_subprocess(
    code: Path, runs: Sequence[Mapping[str, Any]], *, packages: Path | None = None
) -> list[dict[str, Any]]:
    """What becomes of each run, as ``Replayed`` in JSON. A run that the process did not come to is unknown.

    ``runs`` are as the platform sends them, and ``packages`` is the folder with those of the code's lock.
    """
    with tempfile.TemporaryDirectory() as folder:
        given, answer = Path(folder, "runs.json"), Path(folder, "answers.jsonl")
        given.write_text(json.dumps(list(runs)))
        answer.touch()
        command = [
            sys.executable,
            "-m",
            "tieline.cli.replay_sleepers",
            str(code.resolve()),
            str(given),
            str(answer),
        ]
        if packages is not None:
            command.append(str(packages))
        why = "the process that replays runs has ended"
        try:
            subprocess.run(  # noqa: S603  (this very module)
                command,
                env={**os.environ, "PYTHONSAFEPATH": "1", "PYTHONDONTWRITEBYTECODE": "1"},
                capture_output=True,
                timeout=TIMEOUT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            why = f"replaying the runs takes more than {TIMEOUT:g} seconds"
        found = _answers(answer.read_text(errors="replace"))
    return [found.get(number) or _unknown(run, why) for number, run in enumerate(runs)]


def _answers(text: str) -> dict[int, dict[str, Any]]:
    """By the numbers of the runs. The code may write what it likes, and be stopped in the middle of a line."""
    found: dict[int, dict[str, Any]] = {}
    for line in text.splitlines():
        with suppress(ValueError, TypeError, KeyError):
            content = json.loads(line)
            answer = {
                name: str(content[name])[:_MOST_TEXT]
                for name in ("run", "task", "verdict", "reason", "location")
            }
            if answer["verdict"] in _VERDICTS:
                found[int(content["number"])] = answer
    return found


def _unknown(run: Mapping[str, Any], why: str) -> dict[str, Any]:
    metadata = run.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    about = {name: str(metadata.get(name, "")) for name in ("run", "task")}
    return {**about, "verdict": "unknown", "reason": why, "location": ""}


def main() -> None:
    """Load the folder in the first argument, replay the runs in the second file, and write lines to the third.

    The fourth one, if any, is the folder with the packages.
    """
    # The process that replays runs alone needs the SDK.
    from tieline.errors import CodeError  # noqa: PLC0415
    from tieline.server.code_loader import load  # noqa: PLC0415
    from tieline.server.sleeper_replay import SleeperReplay  # noqa: PLC0415

    code, given, answer, *packages = (Path(text) for text in sys.argv[1:])
    _limit_memory()
    runs = json.loads(given.read_text())
    try:
        tasks = load(code, *packages)
    except CodeError:
        # What checks the files says why.
        os._exit(1)

    async def replay_all() -> None:
        replay = SleeperReplay(code, tasks)
        # Before the code has run: it may close whatever is open.
        descriptor = os.open(answer, os.O_WRONLY | os.O_APPEND)
        _refuse_side_effects(replay)
        for number, run in enumerate(runs):
            found = await _replayed(replay, run)
            if found is not None:
                os.write(descriptor, json.dumps({"number": number, **asdict(found)}).encode() + b"\n")

    asyncio.run(replay_all())
    # Threads that the code has started do not keep this process.
    os._exit(0)


async def _replayed(replay: "SleeperReplay", run: Mapping[str, Any]) -> "Replayed | None":
    from tieline.server.sleeping_runs import sleeping_run  # noqa: PLC0415
    from tieline_protocol.events import InvalidEventError  # noqa: PLC0415

    try:
        return await replay.replay(sleeping_run(run))
    except (InvalidEventError, KeyError, TypeError, ValueError):
        return None


def _limit_memory() -> None:
    import resource  # noqa: PLC0415

    # Not every system has this limit.
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))


def _refuse_side_effects(replay: "SleeperReplay") -> None:
    """Ends the replay of a run that opens a connection, starts a program or writes a file."""

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        if event.startswith(_REFUSED) or (event == "open" and _writes(arguments)):
            replay.leave(f"{event} outside of a step")

    sys.addaudithook(audit)


def _writes(arguments: tuple[Any, ...]) -> bool:
    _, mode, flags = arguments
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR))


if __name__ == "__main__":
    main()
