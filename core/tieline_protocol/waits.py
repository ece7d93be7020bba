"""Rules by which waits match events, and the index by which the two find each other. Pure.

Code declares a rule: the name of an event, and the fields of its payload that waits match. The index of a wait is a
hash of the rule and the values that the wait asks for; the index of an event is a hash of the rule and the values in
its payload. Where both are equal, the event ends the wait.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from tieline_protocol.event_streams import hashed

MAX_FIELDS = 5
"""Of a rule."""
MAX_RULES = 8
"""Of a name."""
MAX_NAMES = 100
"""Of a project."""
MAX_VALUE = 500
"""Characters."""
MAX_AWAITED_BYTES = 128 * 1024
"""Of the payload of an event that ends waits: each wait stores it until its run has ended."""
KEEP_SECONDS = 3600.0
"""How long an event is found by waits that begin after it, unless the rule says otherwise."""
MAX_KEEP_SECONDS = 7 * 86400.0
MAX_WAIT_SECONDS = 30 * 86400.0
CANCELLATION_PREFIX = "cancel-"
"""Of the name of a run's wait for an event that cancels it. What follows is when the run was published, in
milliseconds: events that were published before do not cancel it."""
DEBOUNCE_PREFIX = "debounce-"
"""Of the name of a run's wait for newer events of its task. See ``DebounceWait``."""
TIMED_OUT = "Tieline-Timed-Out"
"""The header of the outcome of a wait that no event ended in time."""


class InvalidRuleError(ValueError):
    """A message that is not a valid rule."""


@dataclass(frozen=True, kw_only=True)
class WaitRule:
    """How waits match events of a name."""

    name: str
    fields: tuple[str, ...] = ()
    """Fields of the payload, sorted; dots lead into objects. Without any, each event of the name ends the wait."""
    shared: bool = False
    """Whether events for all users end the wait, or only those for the user of the run that waits."""
    keep: float = KEEP_SECONDS
    """Seconds."""
    cancels: bool = False
    """Whether an event cancels the runs whose own payload has its values, instead of ending waits of code."""

    @property
    def id(self) -> str:
        """Identifies the rule in subjects; ``keep`` is no part of it."""
        return hashed(json.dumps([self.fields, self.shared, *self._mark]))

    @property
    def _mark(self) -> list[str]:
        return ["cancels"] if self.cancels else []

    def index(self, values: Mapping[str, str], user: str | None) -> str:
        """Of a wait for these values, by fields."""
        of_user = "" if self.shared else f"user {user or ''}"
        return hashed(
            json.dumps(
                [self.name, self.shared, of_user, [[one, values[one]] for one in self.fields], *self._mark]
            )
        )

    def index_of(self, payload: Any, user: str | None) -> str | None:
        """Of an event; None for one that lacks a field."""
        values: dict[str, str] = {}
        for one in self.fields:
            text = matched_text(_found(payload, one))
            if text is None:
                return None
            values[one] = text
        return self.index(values, user)

    def encode(self) -> bytes:
        """The content of its message."""
        content = {"name": self.name, "fields": self.fields, "shared": self.shared, "keep": self.keep}
        return json.dumps({**content, "cancels": self.cancels}).encode()

    @classmethod
    def decode(cls, content: bytes) -> Self:
        """From ``encode``. Raises InvalidRuleError."""
        try:
            given = json.loads(content)
            fields, name, keep = given["fields"], given["name"], float(given["keep"])
            if not isinstance(name, str) or not all(isinstance(one, str) for one in fields):
                raise TypeError("not a text")
            if not math.isfinite(keep):
                raise ValueError("not a number")
            return cls(
                name=name,
                fields=tuple(sorted(fields))[:MAX_FIELDS],
                shared=bool(given["shared"]),
                keep=min(max(keep, 0.0), MAX_KEEP_SECONDS),
                cancels=bool(given.get("cancels", False)),
            )
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
            raise InvalidRuleError(f"The message is not a valid rule: {type(error).__name__}") from None


def value_text(value: Any) -> str | None:
    """A value of JSON data as one text, for keys and for comparisons. None for null, lists and objects.

    Equal numbers have the same text, which is that of the whole number where it is one.

    >>> value_text(7), value_text(7.0), value_text("7"), value_text(-0.0), value_text(True), value_text([])
    ('7', '7', '7', '0', 'true', None)
    """
    match value:
        case bool():
            return "true" if value else "false"
        case float() if value.is_integer():
            return str(int(value))
        case str() | int() | float():
            return str(value)
    return None


def matched_text(value: Any) -> str | None:
    """As ``value_text``, for ``match``. None also for a text of more than ``MAX_VALUE`` characters."""
    text = value_text(value)
    return text if text is not None and len(text) <= MAX_VALUE else None


def _found(payload: Any, field: str) -> Any:
    found = payload
    for name in field.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def cancellation_name(published_at: float) -> str:
    """The name of a wait for an event that cancels a run, of when the run was published (seconds since 1970).

    >>> published_from(cancellation_name(1800000000.5)), published_from("approval-1")
    (1800000000500, None)
    """
    return f"{CANCELLATION_PREFIX}{_milliseconds(published_at)}"


def published_from(name: str) -> int | None:
    """From when on published events cancel the run of a wait of this name, in milliseconds; None for other waits."""
    number = name.removeprefix(CANCELLATION_PREFIX)
    return int(number) if number != name and number.isdecimal() and len(number) <= _MAX_DIGITS else None


def may_end(name: str, published_at: float) -> bool:
    """Whether an event that was published at a time may end a wait of this name."""
    earliest = published_from(name)
    return earliest is None or _milliseconds(published_at) >= earliest


@dataclass(frozen=True, kw_only=True)
class DebounceWait:
    """What the name of a wait says whose run newer events of its task supersede.

    >>> DebounceWait.parse(DebounceWait(published=1800000000.5, limit=1800000060.0).name)
    DebounceWait(published=1800000000.5, limit=1800000060.0)
    >>> DebounceWait.parse("cancel-1800000000500") is None
    True
    """

    published: float
    """When the event was published, in seconds since 1970."""
    limit: float
    """Events that come from then on do not supersede it, in seconds since 1970; 0 where there is no such time."""

    @property
    def name(self) -> str:
        """The name of the wait."""
        return f"{DEBOUNCE_PREFIX}{_microseconds(self.published)}-{_microseconds(self.limit)}"

    @classmethod
    def parse(cls, name: str) -> "DebounceWait | None":
        """From the name of a wait; None for that of another one."""
        if not name.startswith(DEBOUNCE_PREFIX):
            return None
        published, _, limit = name.removeprefix(DEBOUNCE_PREFIX).partition("-")
        if any(not one.isdecimal() or len(one) > _MAX_DIGITS for one in (published, limit)):
            return None
        return cls(published=int(published) / 1e6, limit=int(limit) / 1e6)

    def is_superseded(self, run: str, *, by: str, published_at: float, came_at: float) -> bool:
        """Whether the run's event is superseded by that of another run, which was published and came at these times."""
        is_newer = publication_order(published_at, by) > publication_order(self.published, run)
        return is_newer and (not self.limit or came_at < self.limit)


def publication_order(published_at: float, run: str) -> tuple[int, str]:
    """Orders events by when they were published. One publisher may publish several within a millisecond."""
    return _microseconds(published_at), run


_MAX_DIGITS = 20


def _microseconds(seconds: float) -> int:
    return max(round(seconds * 1e6), 0)


def _milliseconds(seconds: float) -> int:
    return max(int(seconds * 1000), 0)


def payload_size_problem(name: str, size: int) -> str | None:
    """Why a payload of this many bytes ends no waits; None where it does."""
    if size <= MAX_AWAITED_BYTES:
        return None
    return (
        f"The payload for {name!r} has {size:,} bytes; an event that runs wait for has at most {MAX_AWAITED_BYTES:,}: "
        "store it elsewhere, and publish where it is"
    )
