"""Lines of logs: from what Kubernetes keeps of a container to the entries of the contract. No I/O here.

Kubernetes puts its own time before each line. That time orders lines, is what ``start`` and ``end`` are
compared with, and is what answers show: clocks of several writers would contradict each other.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import orjson

_FIXED = 30
"""Letters of ``2026-11-21T10:00:00.123456789Z``: of one length, such texts sort as the times do."""
_KNOWN = frozenset({"timestamp", "severity", "message", "error", "httpRequest", "fields"})
_DEEPEST = 50
SEVERITIES = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
"""What an entry's severity can be, the least one first."""
RANKS = {severity: rank for rank, severity in enumerate(SEVERITIES)}

Key = tuple[str, str, int]
"""Where a line stands: its time, its source, and its number among the source's lines of that time."""


@dataclass(frozen=True)
class Line:
    """One line of one source, not looked into yet."""

    key: Key
    text: str
    failed: bool = False
    """Whether the container that wrote it ended with an error."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A line as the contract's log entry."""

    timestamp: str
    severity: str
    message: str
    error: str | None = None
    http_request: Mapping[str, Any] | None = None
    fields: Mapping[str, Any] | None = None

    def has(self, needle: str) -> bool:
        """Whether ``needle`` (case-folded) is in the message, the error or the fields."""
        texts = [self.message, self.error or ""]
        texts += [orjson.dumps(part).decode() for part in (self.fields, self.http_request) if part]
        return any(needle in text.casefold() for text in texts)


def fixed_time(moment: datetime) -> str:
    """A time in the form that sorts."""
    utc = moment.astimezone(UTC).replace(tzinfo=None)
    return f"{utc.isoformat(timespec='microseconds')}000Z"


def split(text: str, *, source: str, failed: bool = False, whole: bool = True) -> Iterator[Line]:
    """The lines of a container's log with Kubernetes' times; without ``whole`` its last one is left out."""
    rows = text.split("\n")
    if not whole or not rows[-1]:
        rows.pop()
    last, number = "", 0
    for row in rows:
        stamp, _, content = row.partition(" ")
        time = _time(stamp)
        if time is None:
            time, content = last, row  # the rest of a line that was cut in pieces
        number = number + 1 if time == last else 0
        last = time
        if time:
            yield Line(key=(time, source, number), text=content.rstrip("\r"), failed=failed)


def entry(line: Line) -> Entry:
    """What a line says. Lines that are not the runtime's own JSON are messages as they are."""
    timestamp = shown_time(line.key[0])
    found = _json(line.text)
    if found is None:
        return Entry(
            timestamp=timestamp, severity="ERROR" if line.failed else "INFO", message=_clean(line.text)
        )
    severity = str(found.get("severity", "")).upper()
    request, fields, error = found.get("httpRequest"), found.get("fields"), found.get("error")
    more = {name: value for name, value in found.items() if name not in _KNOWN}
    if isinstance(fields, dict):
        more = {**more, **fields}
    return Entry(
        timestamp=timestamp,
        severity=severity if severity in RANKS else "INFO",
        message=str(found["message"]),
        error=error if isinstance(error, str) else None,
        http_request=request if isinstance(request, dict) else None,
        fields=more or None,
    )


def counted_from_the_end(lines: Iterable[Line]) -> list[Line]:
    """Lines of one time numbered from their last (0, the one before -1, …).

    A reading of a log's newest lines may begin in the middle of those of one time: then only their distance
    to the end is the same in the next reading.
    """
    found = list(lines)
    counts = Counter(line.key[0] for line in found)
    return [
        replace(line, key=(line.key[0], line.key[1], line.key[2] - counts[line.key[0]] + 1)) for line in found
    ]


def shown_time(time: str) -> str:
    """A time for answers: to the millisecond, never later than the line."""
    return f"{time[:23]}Z"


def _json(text: str) -> dict[str, Any] | None:
    if not text.startswith("{"):
        return None
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(found, dict) or not isinstance(found.get("message"), str):
        return None
    return None if _is_deeper(found, _DEEPEST) else found


def _is_deeper(value: Any, levels: int) -> bool:
    """Whether there are objects and lists in each other beyond so many: neither search nor answer take all of them."""
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list):
        return False
    return levels == 0 or any(_is_deeper(one, levels - 1) for one in value)


def _time(stamp: str) -> str | None:
    if len(stamp) == _FIXED and stamp[10] == "T" and stamp.endswith("Z") and stamp[:4].isdecimal():
        return stamp
    if len(stamp) < 20 or stamp[10] != "T":
        return None
    try:
        return fixed_time(datetime.fromisoformat(stamp))
    except (ValueError, OverflowError):
        return None


def _clean(text: str) -> str:
    """Without the letters that steer terminals."""
    return "".join(letter for letter in text if letter >= " " or letter == "\t")
