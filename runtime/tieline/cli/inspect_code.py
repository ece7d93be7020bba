"""Loads a project's code in a process of its own, and tells what it holds: ``python -m tieline.cli.inspect_code``."""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tieline.cli.written_files import record_written_files
from tieline_protocol.findings import Finding

if TYPE_CHECKING:
    from tieline.server.code_loader import Tasks

TIMEOUT = 30.0
"""What loading may take, in seconds."""

_LOCATION = re.compile(r"(?P<file>[^\s:][^:]*\.py):(?P<line>\d+): (?P<message>.*)", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class LoadedCode:
    """What the code registers."""

    webhooks: tuple[Mapping[str, Any], ...] = ()
    """Each with its name, methods, connection (a template's name or None), delivery, key and number of attempts, and
    with the methods that need no credentials."""
    events: tuple[Mapping[str, Any], ...] = ()
    """Each with its name, key (a field of the payload or None) and number of attempts."""
    waits: tuple[Mapping[str, Any], ...] = ()
    """Events that runs wait for: each with its name, and the fields of the payload by which they match."""
    schedules: tuple[Mapping[str, Any], ...] = ()
    """Each with its name, cron expression, timezone, activations, and when it is due next."""


def load_in_subprocess(
    code: Path, env: Mapping[str, str] | None = None, *, packages: Path | None = None
) -> LoadedCode | Finding:
    """What the code in ``code`` registers, or why it does not load. What it prints is not shown.

    ``packages`` is the folder with those of its lock.
    """
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder, "answer.json")
        command = [sys.executable, "-m", "tieline.cli.inspect_code", str(code.resolve()), str(answer)]
        if packages is not None:
            command.append(str(packages))
        try:
            ended = subprocess.run(  # noqa: S603  (this very module)
                command,
                env={**(os.environ if env is None else env), "PYTHONSAFEPATH": "1"},
                capture_output=True,
                timeout=TIMEOUT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Finding(
                message=f"loading the code takes more than {TIMEOUT:g} seconds; start work in webhooks, not on import",
                filename="main.py",
            )
        if not answer.exists():
            last = ended.stderr.decode(errors="replace").strip().splitlines()[-1:]
            details = "".join(f": {line}" for line in last)
            return Finding(message=f"the process that loads the code ended with {ended.returncode}{details}")
        described = json.loads(answer.read_text())
    if "error" in described:
        return _finding(described["error"])
    return LoadedCode(
        webhooks=tuple(described["webhooks"]),
        events=tuple(described["events"]),
        waits=tuple(described["waits"]),
        schedules=tuple(described["schedules"]),
    )


def _finding(message: str) -> Finding:
    located = _LOCATION.fullmatch(message)
    if located is None:
        return Finding(message=message, filename="main.py")
    return Finding(message=located["message"], filename=located["file"], line=int(located["line"]))


def _describe(tasks: "Tasks") -> dict[str, Any]:
    now = datetime.now(UTC)
    return {
        "webhooks": [
            {
                "name": hook.name,
                "methods": sorted(hook.methods),
                "connection": hook.connection,
                "unauthenticated": sorted(hook.unauthenticated),
                "delivery": hook.delivery,
                "key": hook.key,
                "attempts": hook.retry.attempts if hook.delivery == "queued" else 1,
            }
            for hook in tasks.webhooks.values()
        ],
        "events": [
            {
                "name": event.name,
                "key": event.key,
                "attempts": event.retry.attempts,
                "cancelOn": event.cancel_on and event.cancel_on.name,
                "debounce": event.debounce
                and {
                    "period": event.debounce.period,
                    "key": event.debounce.key,
                    "timeout": event.debounce.timeout,
                },
                "throttle": event.throttle
                and {"limit": event.throttle.limit, "per": event.throttle.per, "key": event.throttle.key},
                "batch": event.batch
                and {"size": event.batch.size, "seconds": event.batch.seconds, "key": event.batch.key},
                "priority": event.priority,
            }
            for event in tasks.events.values()
        ],
        "waits": [
            {"name": rule.name, "match": list(rule.fields), "cancels": rule.cancels}
            for rules in tasks.waits.values()
            for rule in rules
        ],
        "schedules": [
            {
                "name": schedule.name,
                "cron": schedule.cron.expression,
                "timezone": schedule.cron.zone.key,
                "activations": schedule.activations,
                "next": schedule.cron.next(now).isoformat(),
            }
            for schedule in tasks.schedules.values()
        ],
    }


def main() -> None:
    """Load the folder in the first argument, write what it holds to the file in the second.

    The third one, if any, is the folder with its packages.
    """
    # The process that loads the code alone needs the SDK.
    from tieline.errors import CodeError  # noqa: PLC0415
    from tieline.server.code_loader import load  # noqa: PLC0415

    code, answer, *packages = (Path(text) for text in sys.argv[1:])
    record_written_files(code)
    try:
        described: dict[str, Any] = _describe(load(code, *packages))
    except CodeError as error:
        described = {"error": str(error)}
    answer.write_text(json.dumps(described))
    sys.stdout.flush()
    # Threads that the code has started do not keep this process.
    os._exit(0)


if __name__ == "__main__":
    main()
