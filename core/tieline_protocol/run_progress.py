"""Progress of runs: what their code says of how far they are. The latest state counts."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tieline_protocol.run_tags import without_unseen

MAX_TEXT = 200
_LATEST = 9_000_000_000
_MAX_ATTEMPT = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a run is."""

    text: str
    """For people, with secrets masked."""
    fraction: float | None = None
    """From 0 to 1."""
    at: float
    """When its code said so, in seconds since 1970."""
    attempt: int
    """Which attempt said so."""

    @property
    def order(self) -> tuple[int, float, str, float]:
        """Of two of a run the higher one counts."""
        return self.attempt, self.at, self.text, -1.0 if self.fraction is None else self.fraction


def shown_text(text: str) -> str:
    r"""A text as it is shown: without control characters, and cut.

    >>> shown_text("3 of\n10"), len(shown_text("x" * 300))
    ('3 of 10', 200)
    """
    return without_unseen(text)[:MAX_TEXT]


def valid_progress(found: object) -> Progress | None:
    """The progress of a record; None for what is none.

    >>> valid_progress({"text": "3 of 10", "fraction": 0.3, "at": 7, "attempt": 1})
    Progress(text='3 of 10', fraction=0.3, at=7.0, attempt=1)
    >>> valid_progress({"text": 3, "at": 7, "attempt": 1}), valid_progress("none")
    (None, None)
    """
    if isinstance(found, Progress):
        found = vars(found)
    if not isinstance(found, Mapping):
        return None
    text, fraction, at, attempt = (found.get(name) for name in ("text", "fraction", "at", "attempt"))
    if not isinstance(text, str) or not _is_number(at, _LATEST):
        return None
    if type(attempt) is not int or not 0 <= attempt <= _MAX_ATTEMPT:
        return None
    return Progress(
        text=shown_text(text[: 2 * MAX_TEXT]),
        fraction=float(fraction) if _is_number(fraction, 1) else None,  # type: ignore[arg-type]
        at=float(at),  # type: ignore[arg-type]
        attempt=attempt,
    )


def _is_number(value: Any, most: float) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and 0 <= value <= most
        and math.isfinite(value)
    )
