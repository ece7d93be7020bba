"""A trace as lines of a terminal."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from rich.text import Text

from tieline.cli.terminal import safe

_BAR = 40
_LONGEST_NAME = 60
Span = dict[str, Any]
"""A span as the REST API has it."""


def waterfall(spans: Sequence[Span]) -> list[Text]:
    """A line for each span: its name below its parent's, its bar, how long it took and why it failed."""
    if not spans:
        return []
    ordered = _ordered(spans)
    start = min(_seconds(span["startTime"]) for span in spans)
    whole = max(max(_seconds(span["endTime"]) for span in spans) - start, 1e-9)
    width = min(max(2 * depth + len(safe(span["name"])) for depth, span in ordered), _LONGEST_NAME)
    return [_line(span, depth, width=width, start=start, whole=whole) for depth, span in ordered]


def _line(span: Span, depth: int, *, width: int, start: float, whole: float) -> Text:
    begin, end = _seconds(span["startTime"]), _seconds(span["endTime"])
    first = min(int((begin - start) / whole * _BAR), _BAR - 1)
    length = max(1, min(round((end - begin) / whole * _BAR), _BAR - first))
    failed = span["status"]["code"] == "ERROR"
    line = Text(f"{'  ' * depth + safe(span['name']):<{width}.{width}}  ")
    line.append(f"{' ' * first + '█' * length:<{_BAR}}", style="red" if failed else "cyan")
    line.append(f"  {(end - begin) * 1000:.0f}ms")
    if failed and (message := span["status"].get("message")):
        line.append(f"  {safe(message).strip().partition(chr(10))[0]}", style="red")
    return line


def _ordered(spans: Sequence[Span]) -> list[tuple[int, Span]]:
    """The spans with their depths: each below its parent. A span that is its own ancestor is a root."""
    ids = {span["spanId"] for span in spans}
    children: dict[str | None, list[Span]] = {}
    for span in spans:
        parent = span.get("parentSpanId")
        children.setdefault(parent if parent in ids else None, []).append(span)
    ordered: list[tuple[int, Span]] = []
    seen: set[str] = set()
    for root in (*children.get(None, ()), *spans):
        waiting = [(0, root)]
        while waiting:
            depth, span = waiting.pop()
            if span["spanId"] not in seen:
                seen.add(span["spanId"])
                ordered.append((depth, span))
                waiting += [(depth + 1, child) for child in reversed(children.get(span["spanId"], []))]
    return ordered


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()
