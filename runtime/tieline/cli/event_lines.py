"""Events from a file of JSON lines, in batches that the API takes."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from tieline.cli.exit_codes import UsageError

FIELDS = frozenset(("task", "payload", "key", "id", "user", "delay"))
MAX_EVENTS = 1000
"""Of a batch."""
_MAX_BYTES = 8 * 1024 * 1024
"""Of a batch's lines, unless one line alone has more."""


@dataclass(frozen=True, kw_only=True)
class LinesBatch:
    """Events of a file."""

    events: list[dict[str, Any]]
    numbers: list[int]
    """The lines that have them, from 1."""


def batches(lines: Iterable[bytes], task: str | None) -> Iterator[LinesBatch]:
    """The events of lines; ``task`` is that of events without one. Raises UsageError."""
    events: list[dict[str, Any]] = []
    numbers: list[int] = []
    size = 0
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        event = _event(line, number, task)
        if events and (len(events) == MAX_EVENTS or size + len(line) > _MAX_BYTES):
            yield LinesBatch(events=events, numbers=numbers)
            events, numbers, size = [], [], 0
        events.append(event)
        numbers.append(number)
        size += len(line)
    if events:
        yield LinesBatch(events=events, numbers=numbers)


def _event(line: bytes, number: int, task: str | None) -> dict[str, Any]:
    try:
        found = orjson.loads(line)
    except ValueError as error:
        raise UsageError(f"Line {number} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise UsageError(
            f'Line {number} is not an object such as {{"task": "order.created", "payload": {{}}}}'
        )
    if unknown := sorted(found.keys() - FIELDS):
        known = ", ".join(sorted(FIELDS))
        raise UsageError(f"Line {number} has the unknown field {unknown[0]!r}; an event has {known}")
    if task is not None:
        found.setdefault("task", task)
    for name in ("task", "payload"):
        if name not in found:
            raise UsageError(f"Line {number} has no {name!r}")
    return found
