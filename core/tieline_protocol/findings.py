"""What a check found: where, how bad, and what to do about it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A sentence about a project, with the file and line where there is one."""

    message: str
    filename: str | None = None
    line: int | None = None
    severity: Severity = "error"
    """An error refuses a deploy."""

    def __str__(self) -> str:
        return format_finding(self.message, filename=self.filename, line=self.line)


def has_errors(findings: Iterable[Finding]) -> bool:
    """Whether the findings refuse a deploy."""
    return any(finding.severity == "error" for finding in findings)


def format_finding(message: str, *, filename: str | None, line: int | None) -> str:
    """The message with its place.

    >>> format_finding("Python cannot read this", filename="shop/orders.py", line=3)
    'shop/orders.py:3: Python cannot read this'
    """
    location = f"{filename}:{line}" if filename and line else filename
    return f"{location}: {message}" if location else message


def first(texts: Sequence[str], *, most: int) -> str:
    """The first texts as one.

    >>> first(["a", "b", "c"], most=2)
    'a; b; and 1 more'
    """
    shown = "; ".join(texts[:most])
    return f"{shown}; and {len(texts) - most} more" if len(texts) > most else shown
