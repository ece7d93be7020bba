"""Log lines for a terminal: what pods write as JSON, readable and in colour."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from tieline.cli.terminal import indented, one_line

_COLOURS: Mapping[str, str] = {
    "DEBUG": "\033[2m",
    "INFO": "\033[32m",
    "WARNING": "\033[33m",
    "ERROR": "\033[31m",
    "CRITICAL": "\033[31;1m",
}
_DIM, _BOLD, _PLAIN = "\033[2m", "\033[1m", "\033[0m"
_SHOWN_ID = 6
_INDENT = "  "
_USUAL = frozenset({"DEBUG", "INFO"})


def readable(line: str, *, colour: bool) -> str:
    """A JSON line of a pod for people, without characters that act on a terminal; other lines as they are.

    >>> readable('{"timestamp": "2026-01-01T10:00:00.123Z", "severity": "INFO", "message": "Sent", '
    ...          '"executionId": "01ABCDEFXYZ", "fields": {"order": 7}}', colour=False)
    '10:00:00.123 INFO    Sent  order=7  [DEFXYZ]'
    """
    try:
        return _readable(json.loads(line), colour=colour)
    except (ValueError, KeyError, TypeError, AttributeError):
        return line


def _readable(entry: Mapping[str, Any], *, colour: bool) -> str:
    severity, message = str(entry["severity"]), indented(entry["message"], len(_INDENT))

    def paint(code: str, text: str) -> str:
        return f"{code}{text}{_PLAIN}" if colour and code else text

    clock = one_line(entry.get("timestamp", ""))[11:23]
    level = paint(_COLOURS.get(severity, ""), f"{one_line(severity):<7}")
    parts = [f"{paint(_DIM, clock)} {level} {message if severity in _USUAL else paint(_BOLD, message)}"]
    request = entry.get("httpRequest")
    if isinstance(request, dict):
        parts.append(_request(request, paint))
    elif entry.get("fields"):
        parts.append(paint(_DIM, _fields(entry["fields"])))
    if execution := entry.get("executionId"):
        # The end of an id is what tells it from those of the same moment.
        parts.append(paint(_DIM, f"[{one_line(execution)[-_SHOWN_ID:]}]"))
    if error := entry.get("error"):
        parts[-1] += "\n" + paint(_COLOURS["ERROR"], f"{_INDENT}{indented(error, len(_INDENT))}")
    return "  ".join(parts)


def _request(request: Mapping[str, Any], paint: Callable[[str, str], str]) -> str:
    status = int(request.get("status") or 0)
    colour = "INFO" if status < 400 else "WARNING" if status < 500 else "ERROR"
    milliseconds = float(str(request.get("latency") or "0s").removesuffix("s")) * 1000
    summary = one_line(f"{request.get('requestMethod')} {request.get('requestUrl')}")
    return f"{summary} {paint(_COLOURS[colour], str(status))} in {milliseconds:.0f} ms"


def _fields(fields: Mapping[str, Any]) -> str:
    return one_line(" ".join(f"{name}={_short(value)}" for name, value in fields.items()))


def _short(value: Any) -> str:
    return value if isinstance(value, str) and " " not in value else json.dumps(value, ensure_ascii=False)
