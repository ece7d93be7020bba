"""What failed in a run, over all of its sessions: shown at its very end, where people look first."""

from __future__ import annotations

import json
import os
from pathlib import Path

FILE = "TIELINE_TEST_FAILURES"
"""Environment variable: the file to which sessions append their failures, one JSON array a line."""

_SHOWN = 20
_LONGEST = 2_500
"""Characters of a failure. The end says what was expected; the whole is in the session's output."""


def note(what: str, why: str) -> None:
    """Append a test that failed. Nothing is noted where nobody asks for it."""
    if path := os.environ.get(FILE):
        with Path(path).open("a") as file:
            file.write(f"{json.dumps([what, why[-_LONGEST:]])}\n")


def shown(path: Path) -> str:
    """The first twenty failures; empty where there are none."""
    failures = [json.loads(line) for line in path.read_text().splitlines()]
    texts = [f"{what}\n{why}" for what, why in failures[:_SHOWN]]
    if len(failures) > _SHOWN:
        texts.append(f"and {len(failures) - _SHOWN} more")
    return "\n\n".join(texts)
