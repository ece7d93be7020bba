"""The message that Kubernetes keeps of a container that ended: the end of what went wrong."""

import traceback
from pathlib import Path

from tieline.telemetry.redaction import Redactor

# Kubernetes keeps 4 KiB of a message; half of that leaves room for what others add to it.
_LIMIT = 2048


def message(error: BaseException, redact: Redactor) -> str:
    """The error in a sentence, then the last lines of the code's own traceback; at most 2 KiB in UTF-8.

    Both are masked before they are cut.
    """
    headline = redact(str(error))
    cause = error.__cause__
    if cause is None:
        return _cut_end(headline)
    trace = redact("".join(traceback.format_exception(cause)).strip())
    room = _LIMIT - len(headline.encode()) - 2
    return _cut_end(f"{headline}\n\n{_tail(trace, room)}")


def write(path: Path, error: BaseException, redact: Redactor) -> None:
    """Write the message to ``path`` if that can be written to; elsewhere than in a pod it is not there."""
    _write(path, message(error, redact))


def write_text(path: Path, text: str, redact: Redactor) -> None:
    """Write a sentence as the message; see ``write``."""
    _write(path, _cut_end(redact(text)))


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError:
        return


def _tail(text: str, room: int) -> str:
    """As many last lines of ``text`` as fit into ``room`` bytes."""
    kept: list[str] = []
    for line in reversed(text.splitlines()):
        room -= len(line.encode()) + 1
        if room < 0:
            break
        kept.append(line)
    return "\n".join(reversed(kept))


def _cut_end(text: str) -> str:
    return text.encode()[:_LIMIT].decode(errors="ignore")
